"""Lines of a watch become events however they are cut, without being decoded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.kube.refusals import answer_lost
from allhands.kube.watching import KubeWatch, event_of
from allhands.ports import Event
from tests.depth import examples

KINDS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
DOCUMENTS = st.dictionaries(
    st.sampled_from(["metadata", "type", "object"]),
    st.text(max_size=20) | st.dictionaries(st.text(max_size=5), st.none()),
)


class Answer:
    """What a response shows of itself to a watch."""

    is_packed = False

    def __init__(self, chunks: list[bytes], end: BaseException | None = None) -> None:
        self._chunks = chunks
        self._end = end

    async def readany(self) -> bytes:
        if self._chunks:
            return self._chunks.pop(0)
        if self._end is not None:
            raise self._end
        return b""

    def close(self) -> None:
        self._chunks.clear()


def watching(*chunks: bytes, end: BaseException | None = None) -> KubeWatch:
    return KubeWatch(Answer([it for it in chunks if it], end), 10_000)


@settings(max_examples=examples(100))
@given(data=st.data(), events=st.lists(st.tuples(st.sampled_from(KINDS), DOCUMENTS), max_size=8))
async def test_any_cut_gives_the_same_events(data: st.DataObject, events: list[tuple[str, dict[str, Any]]]) -> None:
    lines = [msgspec.json.encode({"type": kind, "object": document}) + b"\n" for kind, document in events]
    whole = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    seen = [event async for event in watching(*chunks, b'{"type":"ADDED","obj', end=answer_lost("it", "cut"))]
    assert [(event.type, event.manifest()) for event in seen] == events


async def test_what_came_together_can_be_taken_together() -> None:
    line = b'{"type":"ADDED","object":{}}\n'
    watch = watching(line * 3 + line[:5], line[5:])
    assert watch.poll() is None
    await watch.__anext__()
    assert [watch.poll(), watch.poll(), watch.poll()] == [Event("ADDED", b"{}"), Event("ADDED", b"{}"), None]
    assert await watch.__anext__() == Event("ADDED", b"{}")
    with pytest.raises(StopAsyncIteration):
        await watch.__anext__()


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ADDED","object":{"a":{}}}',
        b'{"object":{"a":{}},"type":"ADDED"}',
        b' { "type" : "ADDED", "object" : {"a":{}} } ',
        b'{"type":"ADDED","object":{"a":{}}} ',
    ],
)
def test_servers_may_write_json_as_they_like(line: bytes) -> None:
    assert event_of(line) == Event("ADDED", b'{"a":{}}')


@pytest.mark.parametrize("line", [b"<html>", b"{}", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"a":'])
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        event_of(line)
