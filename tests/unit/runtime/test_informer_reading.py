"""A reader that says whose an object is saves a second look at it, and changes nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from allhands.ports import Event, Head
from allhands.runtime.informer import Informer, key_of
from tests.manifests import CONFIG_MAPS, config_map
from tests.virtual import on_virtual_time, running


def read(raw: bytes) -> str:
    color: str = msgspec.json.decode(raw)["data"]["color"]
    if color == "unreadable":
        raise ValueError("no such color")
    if color == "absurd":
        raise ZeroDivisionError("a mistake of the reader")
    return color


def read_headed(raw: bytes) -> tuple[str, Head]:
    metadata = msgspec.json.decode(raw)["metadata"]
    return read(raw), Head(key_of("default", metadata["name"]), metadata["uid"], int(metadata["resourceVersion"]))


def numbered(name: str, color: str, version: int) -> bytes:
    body = config_map(name, color=color)
    body["metadata"] |= {"namespace": "default", "uid": name, "resourceVersion": str(version)}
    return msgspec.json.encode(body)


class Shown:
    """A port whose watch shows these events and then waits."""

    streams_lists = True

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    async def watch(self, *_: Any, **__: Any) -> Shown:
        return self

    def __aiter__(self) -> Shown:
        return self

    async def __anext__(self) -> Event:
        if not self._events:
            await asyncio.sleep(1e9)
        return self._events.pop(0)

    async def close(self) -> None: ...


@on_virtual_time
async def test_a_reader_that_says_whose_it_is_shows_the_same_as_one_that_does_not() -> None:
    end = {"metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}}
    events = [
        Event("ADDED", numbered("a", "red", 3)),
        Event("ADDED", numbered("b", "unreadable", 2)),
        Event("ADDED", numbered("c", "red", 1)),
        Event("BOOKMARK", msgspec.json.encode(end)),
        Event("MODIFIED", numbered("a", "blue", 2)),  # older than what was seen
        Event("MODIFIED", numbered("b", "green", 6)),
        Event("MODIFIED", numbered("c", "absurd", 7)),
        Event("DELETED", numbered("a", "red", 8)),
        Event("MODIFIED", numbered("d", "black", 9)),
    ]
    seen: list[list[Any]] = []
    for headed in (None, read_headed):
        shown: Any = Shown(list(events))
        informer: Informer[str] = Informer(
            shown, CONFIG_MAPS, read, indexes={"color": lambda it: (it,)}, decode_headed=headed
        )
        noted: list[Any] = []
        informer.on_change(lambda *change, noted=noted: noted.append(change))
        async with running(informer.run()):
            await informer.synced.wait()
            noted.append(("problems", dict(informer.problems)))
            await asyncio.sleep(1)
        noted.append((list(informer.keys()), informer.keys_by("color", "green"), dict(informer.problems)))
        seen.append(noted)
    assert seen[0] == seen[1]
    assert seen[0][-1] == (
        ["default/b", "default/d"], ["default/b"], {"default/c": "a mistake of the reader"}
    )  # fmt: skip
