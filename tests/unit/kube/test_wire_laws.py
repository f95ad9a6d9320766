"""Whatever a server does to its connections: what was answered well was done once, what is told as not done was not."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.kube.access import Access
from allhands.kube.objects import KubeObjects
from allhands.kube.retrying import Patience
from allhands.kube.settings import Settings
from tests.certificates import Authority, server_tls
from tests.depth import examples
from tests.unit.kube.scripted_server import BODY, ScriptedServer, Turn, answer

if TYPE_CHECKING:
    from tests.unit.kube.scripted_server import Line

AUTHORITY = Authority()
BINDS = 40
IN_TIME = 240.0
"""Much longer than the client's own patience."""
QUICK = Settings(patience=Patience(first_seconds=0.001, most_seconds=0.002), in_flight=4)


class MoodyServer:
    """Does what it is asked, or not, and says so, or not. `done` is what it did, by the path."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.done: Counter[str] = Counter()
        self._moods: tuple[Line, ...] = (
            self._well,
            self._well,
            self._well,
            self._well_and_leave,
            self._leave_unread,
            self._leave_undone,
            self._turn_away,
            self._refuse_early,
            self._cut,
            self._talk_on,
        )

    async def __call__(self, turn: Turn) -> None:
        await self._chance.choice(self._moods)(turn)

    async def _do(self, turn: Turn) -> None:
        await turn.read_body()
        self.done[turn.head.split(" ")[1]] += 1

    async def _well(self, turn: Turn) -> None:
        await self._do(turn)
        await turn.say(answer())

    async def _well_and_leave(self, turn: Turn) -> None:
        await self._well(turn)
        self._leave(turn)

    async def _leave_unread(self, turn: Turn) -> None:
        self._leave(turn)

    async def _leave_undone(self, turn: Turn) -> None:
        await turn.read_body()
        self._leave(turn)

    async def _turn_away(self, turn: Turn) -> None:
        await turn.read_body()
        await turn.say(answer(b"busy", "HTTP/1.1 429 X", "Retry-After: 0"))

    async def _refuse_early(self, turn: Turn) -> None:
        await turn.say(answer(b"no", "HTTP/1.1 409 Conflict", "Connection: close"))
        self._leave(turn)

    async def _cut(self, turn: Turn) -> None:
        await self._do(turn)
        whole = answer()
        await turn.say(whole[: self._chance.randrange(len(whole))])
        self._leave(turn)

    async def _talk_on(self, turn: Turn) -> None:
        await self._do(turn)
        await turn.say(answer() + answer(b'{"for":"nobody"}'))

    def _leave(self, turn: Turn) -> None:
        self._chance.choice((turn.hang_up, turn.reset))()


@pytest.mark.parametrize("uses_tls", [False, True])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(15), deadline=None)
def test_what_was_answered_was_done_once_and_what_is_told_as_undone_was_not(uses_tls: bool, seed: int) -> None:
    asyncio.run(_bind_all(random.Random(seed), uses_tls=uses_tls))


async def _bind_all(chance: random.Random, *, uses_tls: bool) -> None:
    moody = MoodyServer(chance)
    tls = server_tls(AUTHORITY, "127.0.0.1") if uses_tls else None
    async with asyncio.timeout(IN_TIME), ScriptedServer(*[moody] * 10 * BINDS, tls=tls) as server:
        access = Access(server=server.url, ca_pem=AUTHORITY.pem)
        async with KubeObjects(access, settings=QUICK) as client:
            said = await asyncio.gather(*(_outcome(client, f"/p{number}") for number in range(BINDS)))
    for number, outcome in enumerate(said):
        done = moody.done[f"/p{number}"]
        assert done <= 1, "it was sent twice"
        if outcome != "may have happened":
            assert done == (outcome == "done"), outcome


async def _outcome(client: KubeObjects, path: str) -> str:
    try:
        raw = (await client.request("POST", path, body=b"{}")).raw
    except StatusError as error:
        return "may have happened" if error.may_have_happened else "not done"
    assert raw == BODY, "it is the answer to something else"
    return "done"
