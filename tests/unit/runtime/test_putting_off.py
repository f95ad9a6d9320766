"""What is put off is looked at later, in the order of its object, and in the end it does not show that it was."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.ports import Event, Head, PackedEvent
from allhands.runtime.informer import Informer, key_of
from tests.depth import examples
from tests.manifests import CONFIG_MAPS
from tests.unit.runtime.test_informer_reading import Shown, numbered, read
from tests.virtual import on_virtual_time, running

LATE = frozenset({"late", "later"})
Told = list[tuple[str, str | None, str | None]]


def if_late(event: Event) -> Head | None:
    shown = msgspec.json.decode(event.raw)
    metadata = shown["metadata"]
    if shown["data"]["color"] not in LATE:
        return None
    return Head(key_of("default", metadata["name"]), metadata["uid"], int(metadata["resourceVersion"]))


def bookmark(version: int) -> Event:
    end = {"metadata": {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}}
    return Event("BOOKMARK", msgspec.json.encode(end))


def modified(name: str, color: str, version: int) -> Event:
    return Event("MODIFIED", numbered(name, color, version))


async def told_of(events: list[Event]) -> tuple[Informer[str], Told]:
    """After what is there: one object "a", red."""
    informer = Informer(Shown([Event("ADDED", numbered("a", "red", 1)), bookmark(2), *events]), CONFIG_MAPS, read)  # type: ignore[arg-type]
    informer.put_off(if_late)
    told: Told = []
    informer.on_change(lambda key, before, after: told.append((key.rpartition("/")[2], before, after)))
    async with running(informer.run()):
        await asyncio.sleep(1)
    del told[0]
    return informer, told


@on_virtual_time
async def test_what_is_put_off_is_not_looked_at_before_somebody_asks_for_it() -> None:
    informer, told = await told_of([modified("a", "late", 3)])
    assert (told, informer.get("default/a"), informer.count_put_off) == ([], "red", 1)
    assert not informer.look_at_put_off(10)
    assert (told, informer.get("default/a")) == ([("a", "red", "late")], "late")


@on_virtual_time
async def test_so_many_are_looked_at_as_are_asked_for() -> None:
    names = [f"n{number}" for number in range(5)]
    added = [Event("ADDED", numbered(name, "red", 3 + number)) for number, name in enumerate(names)]
    informer, told = await told_of([*added, *(modified(name, "late", 10 + at) for at, name in enumerate(names))])
    assert informer.look_at_put_off(3)
    assert told[-3:] == [(name, "red", "late") for name in names[:3]]
    assert not informer.look_at_put_off(3)
    assert informer.count_put_off == 0


@on_virtual_time
async def test_the_next_event_of_an_object_comes_after_what_was_put_off() -> None:
    informer, told = await told_of([modified("a", "late", 3), modified("a", "blue", 4)])
    assert told == [("a", "red", "late"), ("a", "late", "blue")]
    assert informer.count_put_off == 0


@on_virtual_time
async def test_only_one_event_of_an_object_is_put_off() -> None:
    _, told = await told_of([modified("a", "late", 3), modified("a", "later", 4)])
    assert told == [("a", "red", "late"), ("a", "late", "later")]


@on_virtual_time
async def test_what_is_deleted_before_it_was_looked_at_is_gone() -> None:
    informer, told = await told_of([modified("a", "late", 3), Event("DELETED", numbered("a", "late", 4))])
    assert (told, informer.count_put_off, "default/a" in informer) == ([("a", "red", None)], 0, False)


@on_virtual_time
async def test_an_object_that_nobody_has_seen_and_an_old_version_are_not_put_off() -> None:
    informer, told = await told_of([modified("new", "late", 3), modified("a", "late", 1)])
    assert (told, informer.count_put_off) == ([("new", None, "late")], 0)


@on_virtual_time
async def test_what_cannot_be_read_later_is_told_as_if_it_had_been_read_at_once() -> None:
    informer, _ = await told_of([])
    informer.put_off(lambda event: Head("default/a", "a", 3) if b"unreadable" in event.raw else None)
    informer._take(modified("a", "unreadable", 3))
    assert informer.get("default/a") == "red"
    informer.look_at_put_off(1)
    assert ("default/a" in informer, list(informer.problems)) == (False, ["default/a"])


@on_virtual_time
async def test_a_late_text_that_cannot_be_made_makes_the_informer_begin_anew() -> None:
    informer, _ = await told_of([])
    informer.put_off(lambda event: Head("default/a", "a", 3) if isinstance(event, PackedEvent) else None)

    def unpacked(envelope: bytes) -> bytes:
        raise msgspec.ValidationError(f"no text: {envelope!r}")

    informer._take(PackedEvent("MODIFIED", b"", envelope=b"broken", unpacked=unpacked))
    assert not informer.look_at_put_off(1)
    assert informer.get("default/a") == "red"
    with pytest.raises(msgspec.ValidationError, match="no text: b'broken'"):
        informer._take(modified("a", "blue", 4))
    informer._take(modified("a", "blue", 4))
    assert informer.get("default/a") == "blue"


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["red", "blue", "late", "later", "gone", "look"])), max_size=30
)


@settings(max_examples=examples(100), deadline=None)
@given(steps=STEPS)
def test_in_the_end_it_does_not_show_what_was_put_off(steps: list[tuple[str, str]]) -> None:
    informer = Informer(Shown([]), CONFIG_MAPS, read)  # type: ignore[arg-type]
    informer.put_off(if_late)
    there: dict[str, str] = {}
    told: dict[str, str] = {}

    def note(key: str, before: str | None, after: str | None) -> None:
        assert told.get(key) == before
        if after is None:
            del told[key]
        else:
            told[key] = after

    informer.on_change(note)
    for version, (name, color) in enumerate(steps, 1):
        key = f"default/{name}"
        if color == "look":
            informer.look_at_put_off(1)
        elif color == "gone":
            if there.pop(key, None) is not None:
                informer._take(Event("DELETED", numbered(name, "red", version)))
        else:
            kind = "MODIFIED" if key in there else "ADDED"
            there[key] = color
            informer._take(Event(kind, numbered(name, color, version)))  # type: ignore[arg-type]
        behind = {it for it in there if informer.get(it) != there[it]}
        assert len(behind) <= informer.count_put_off
        assert all(there[it] in LATE for it in behind)
    while informer.look_at_put_off(2):
        pass
    assert told == there
    assert {key: informer.get(key) for key in informer.keys()} == there  # noqa: SIM118
