"""Answers that go on: handed over as they come, no faster than they are taken, and ended by whoever ends them first."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.kube.wire_stream import MUCH_BYTES, WireStream
from allhands.ports import Query
from tests.manifests import CONFIG_MAPS
from tests.unit.kube.scripted_client import opened
from tests.unit.kube.scripted_server import ScriptedServer, Turn, answer, saying, well
from tests.unit.kube.test_wire import bind

if TYPE_CHECKING:
    from allhands.kube.objects import KubeObjects

pytestmark = pytest.mark.usefixtures("in_time")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(raw: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(raw), raw)


def event(number: int, padding: int = 0) -> bytes:
    return b'{"type":"ADDED","object":{"n":%d,"pad":"%b"}}\n' % (number, b"x" * padding)


async def test_events_come_one_by_one_in_their_order(server: ScriptedServer, client: KubeObjects) -> None:
    said = asyncio.Event()

    async def one_after_the_other(turn: Turn) -> None:
        await turn.say(HEAD)
        await turn.say(chunk(event(0)))
        await said.wait()
        await turn.say(chunk(event(1)[:20]))
        await turn.say(chunk(event(1)[20:] + event(2)) + END)

    server.script.append(one_after_the_other)
    watch = await client.watch(CONFIG_MAPS)
    assert (await anext(watch)).manifest()["n"] == 0
    assert watch.poll() is None
    said.set()
    assert [it.manifest()["n"] async for it in watch] == [1, 2]
    await watch.close()


async def test_what_nobody_takes_is_not_read(server: ScriptedServer, client: KubeObjects) -> None:
    count, padding = 500, 200_000  # far more than the system itself keeps on the way
    told = 0

    async def much(turn: Turn) -> None:
        nonlocal told
        made: socket.socket = turn.writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        await turn.say(HEAD)
        for number in range(count):
            await turn.say(chunk(event(number, padding)))
            told = number
        await turn.say(END)

    server.script.append(much)
    watch = await client.watch(CONFIG_MAPS)
    body = watch._body
    assert isinstance(body, WireStream)
    while not body._is_paused:  # noqa: ASYNC110 (nobody is told)
        await asyncio.sleep(0)
    before = -1
    while before != told:  # as long as buffers on the way take anything
        before = told
        for _ in range(200):
            await asyncio.sleep(0)
    assert told * padding < count * padding / 2
    assert body._bytes < 2 * MUCH_BYTES
    seen = [it.manifest()["n"] async for it in watch]
    assert seen == list(range(count))
    await watch.close()


async def test_a_refusal_is_the_servers_own(server: ScriptedServer, client: KubeObjects) -> None:
    refusal = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
    server.script.append(saying(answer(refusal, "HTTP/1.1 410 Gone")))
    with pytest.raises(StatusError) as caught:
        await client.watch(CONFIG_MAPS, Query(resource_version="1"))
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_a_refused_watch_leaves_its_connection_to_the_next_request(
    server: ScriptedServer, client: KubeObjects
) -> None:
    unknown = saying(answer(b'{"kind":"Status","code":404}', "HTTP/1.1 404 Not Found"))
    hold = saying(HEAD + chunk(event(0)))
    server.script.extend([unknown, unknown, well, hold])
    for _ in range(2):
        with pytest.raises(StatusError):
            await client.watch(CONFIG_MAPS)
    await bind(client)
    watch = await client.watch(CONFIG_MAPS)
    assert server.used == [1, 1, 1, 1]
    await bind(client)
    assert server.used == [1, 1, 1, 1, 2]
    await watch.close()


@pytest.mark.parametrize("turns", range(12))
async def test_a_watch_that_is_given_up_before_it_began_leaves_no_socket(server: ScriptedServer, turns: int) -> None:
    server.script.append(saying(answer(b'{"kind":"Status","code":404}', "HTTP/1.1 404 Not Found")))
    async with opened(server.url) as client:
        asked = asyncio.ensure_future(client.watch(CONFIG_MAPS))
        for _ in range(turns * 3):
            await asyncio.sleep(0)
        asked.cancel()
        with contextlib.suppress(asyncio.CancelledError, StatusError):
            await asked
    gc.collect()  # a socket that nobody closed would be told about


async def test_what_is_packed_was_not_asked_for(server: ScriptedServer, client: KubeObjects) -> None:
    packed = HEAD.replace(b"Transfer-Encoding", b"Content-Encoding: gzip\r\nTransfer-Encoding")

    async def pack(turn: Turn) -> None:
        await turn.say(packed + chunk(b"\x1f\x8b"))
        await turn.until_left()

    for _ in range(5):
        server.script.append(pack)
    with pytest.raises(StatusError, match="packed in a way that was not asked for"):
        await client.watch(CONFIG_MAPS)
    assert all("Accept-Encoding: identity" in head for head in server.heads)


async def test_a_watch_that_is_closed_or_left_lets_go_of_its_connection(server: ScriptedServer) -> None:
    async def hold(turn: Turn) -> None:
        await turn.say(HEAD + chunk(event(0)))
        await turn.until_left()

    server.script.extend([hold, hold])
    async with opened(server.url) as client:
        closed, left = await client.watch(CONFIG_MAPS), await client.watch(CONFIG_MAPS)
        await closed.close()
        await server.left.acquire()
        waiting = asyncio.ensure_future(_all_of(left))
        await asyncio.sleep(0)
    await server.left.acquire()
    assert await waiting <= 1


async def _all_of(watch: object) -> int:
    return len([it async for it in watch])  # type: ignore[attr-defined]
