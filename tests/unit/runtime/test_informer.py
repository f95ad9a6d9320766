"""A copy of a collection stays right whatever happens to lists and watches, and shows our own writes at once."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError, expired
from allhands.api.kinds import Resource
from allhands.ports import Event, Page
from allhands.runtime.informer import LOOK_AGAIN_SECONDS, STALL_SECONDS, Informer, key_of, split_key
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.depth import examples
from tests.manifests import CONFIG_MAPS, DEFINITIONS, config_map
from tests.virtual import NotedObjects, Request, cluster, on_virtual_time, refused, running

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from allhands.api.document import Manifest
    from allhands.ports import Objects, Query


class Map(msgspec.Struct, frozen=True):
    """A config map as these tests see it."""

    name: str
    color: str


class _Document(msgspec.Struct):
    metadata: dict[str, Any]
    data: dict[str, str] = {}


def read(raw: bytes) -> Map:
    document = msgspec.json.decode(raw, type=_Document)
    if document.data.get("color") == "unreadable":
        raise ValueError("no such color")
    if document.data.get("color") == "absurd":
        raise ZeroDivisionError("a mistake of the reader")
    return Map(document.metadata["name"], document.data.get("color", ""))


def informer_of(objects: Objects, **options: Any) -> Informer[Map]:
    return Informer(
        objects, CONFIG_MAPS, read, indexes={"color": lambda it: (it.color,) if it.color else ()}, **options
    )


async def put(objects: Objects, name: str, color: str) -> bytes:
    body = config_map(name, color=color)
    try:
        return (await objects.create(CONFIG_MAPS, body, "default")).raw
    except StatusError:
        return (await objects.patch(CONFIG_MAPS, name, "merge", {"data": {"color": color}}, "default")).raw


def colors(informer: Informer[Map]) -> dict[str, str]:
    return {it.name: it.color for it in informer.all() if it.color}


def test_a_key_is_namespace_and_name_or_the_name_alone() -> None:
    assert key_of("default", "a") == "default/a"
    assert key_of("", "a") == "a"
    assert split_key("default/a") == ("default", "a")
    assert split_key("a") == ("", "a")


@on_virtual_time
async def test_what_was_there_before_and_what_comes_later_is_seen_with_before_and_after() -> None:
    world = cluster()
    await put(world.objects, "old", "red")
    informer = informer_of(world.objects)
    seen: list[tuple[str, Map | None, Map | None]] = []
    informer.on_change(lambda *change: seen.append(change))
    async with running(informer.run()):
        await informer.synced.wait()
        await put(world.objects, "old", "blue")
        await world.objects.delete(CONFIG_MAPS, "old", "default")
        await asyncio.sleep(1)
    mine = [change for change in seen if change[0] == "default/old"]
    red, blue = Map("old", "red"), Map("old", "blue")
    assert mine == [("default/old", None, red), ("default/old", red, blue), ("default/old", blue, None)]


@on_virtual_time
async def test_a_collection_of_many_pages_is_seen_whole() -> None:
    world = cluster()
    for number in range(1203):
        await put(world.objects, f"map-{number}", "red")
    informer = informer_of(world.objects)
    async with running(informer.run()):
        await informer.synced.wait()
        assert len(colors(informer)) == 1203


@on_virtual_time
async def test_a_watch_that_is_too_old_is_followed_by_a_new_list_which_shows_what_is_gone() -> None:
    world = cluster(window=8)
    for name in ("a", "b", "c"):
        await put(world.objects, name, "red")
    port = _Stuck(world.objects)
    informer = informer_of(port.port)
    async with running(informer.run()):
        await informer.synced.wait()
        port.hold = True
        await asyncio.sleep(1)
        await world.objects.delete(CONFIG_MAPS, "b", "default")
        for number in range(30):
            await put(world.objects, "c", f"shade-{number}")
        await asyncio.sleep(5)
        port.hold = False
        await port.end_all()
        await asyncio.sleep(10)
        assert colors(informer) == {"a": "red", "c": "shade-29"}
    assert len(port.of("list")) > 1


class _Stuck(NotedObjects):
    """Watches that can be held back, and ended from outside."""

    hold = False

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self.watches: list[_Tap] = []
        self._inner = objects

    async def watch(self, resource: Resource, query: Query, **options: Any) -> Any:
        request = Request(asyncio.get_running_loop().time(), "watch", resource.plural, "")
        if (error := self.refuse(request)) is not None:
            raise error
        self.watches.append(_Tap(await self._inner.watch(resource, query, **options), self))
        return self.watches[-1]

    async def end_all(self) -> None:
        for tap in self.watches:
            tap.ended.set()


class _Tap:
    def __init__(self, watch: Any, owner: _Stuck) -> None:
        self._watch = watch
        self._owner = owner
        self.ended = asyncio.Event()

    def __aiter__(self) -> _Tap:
        return self

    async def __anext__(self) -> Event:
        if self._owner.hold:
            await self.ended.wait()
        if self.ended.is_set():
            raise StopAsyncIteration
        event: Event = await self._watch.__anext__()
        if self._owner.hold:
            await self.ended.wait()
            raise StopAsyncIteration
        return event

    async def close(self) -> None:
        await self._watch.close()


@on_virtual_time
async def test_a_watch_that_ends_is_taken_up_again_from_where_it_was_without_a_new_list() -> None:
    world = cluster()
    await put(world.objects, "a", "red")
    port = _Stuck(world.objects)
    informer = informer_of(port.port)
    async with running(informer.run()):
        await informer.synced.wait()
        await asyncio.sleep(1)
        await port.end_all()
        await put(world.objects, "a", "blue")
        await put(world.objects, "b", "green")
        await asyncio.sleep(5)
        assert colors(informer) == {"a": "blue", "b": "green"}
    assert len(port.of("list")) == 1


@on_virtual_time
async def test_a_watch_that_shows_nothing_for_long_is_opened_anew() -> None:
    world = cluster()
    port = _Stuck(world.objects)
    informer = informer_of(port.port)
    port.hold = True
    async with running(informer.run()):
        await informer.synced.wait()
        await put(world.objects, "a", "red")
        await asyncio.sleep(STALL_SECONDS - 10)
        assert "a" not in colors(informer)
        assert len(port.watches) == 1
        port.hold = False
        await asyncio.sleep(20)
        assert colors(informer) == {"a": "red"}
        assert len(port.watches) == 2


class _Scripted:
    """A server that answers lists with nothing, and watches as the script says; at its end it stays silent."""

    def __init__(self, script: Sequence[Sequence[Event] | StatusError]) -> None:
        self._script = list(script)
        self.asked: list[float] = []

    async def list(self, _resource: Resource, _query: Query) -> Page:
        return Page([], "5")

    async def watch(self, _resource: Resource, _query: Query, **_options: Any) -> Any:
        self.asked.append(asyncio.get_running_loop().time())
        answer = self._script.pop(0) if self._script else None
        if isinstance(answer, StatusError):
            raise answer
        return _Told(answer)


class _Told:
    def __init__(self, events: Sequence[Event] | None) -> None:
        self._events = None if events is None else list(events)

    def __aiter__(self) -> _Told:
        return self

    async def __anext__(self) -> Event:
        if self._events is None:
            await asyncio.get_running_loop().create_future()
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop(0)

    async def close(self) -> None:
        pass


def event(type: Any, name: str, version: int, color: str = "red", uid: str = "") -> Event:
    meta = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return Event(type, msgspec.json.encode({"metadata": meta, "data": {"color": color}}))


@on_virtual_time
async def test_a_server_that_ends_every_watch_at_once_is_asked_ever_more_seldom() -> None:
    server = _Scripted([()] * 500)
    informer = informer_of(server)  # type: ignore[arg-type]
    async with running(informer.run()):
        await asyncio.sleep(600)
    assert len(server.asked) < 40


@on_virtual_time
async def test_a_server_that_refuses_every_watch_is_asked_ever_more_seldom_and_then_followed() -> None:
    server = _Scripted([refused(403)] * 8 + [(event("ADDED", "a", 7),)])
    informer = informer_of(server)  # type: ignore[arg-type]
    async with running(informer.run()):
        await asyncio.sleep(60)
        assert colors(informer) == {"a": "red"}
    pauses = [after - before for before, after in itertools.pairwise(server.asked[:9])]
    assert all(before < after for before, after in itertools.pairwise(pauses))


@on_virtual_time
async def test_troubles_that_are_hours_apart_do_not_add_up_to_a_long_pause() -> None:
    world = cluster()
    port = _Stuck(world.objects)
    informer = informer_of(port.port)
    async with running(informer.run()):
        for number in range(15):
            await asyncio.sleep(3600)
            refusals = [refused()]
            port.refuse = lambda it, left=refusals: left.pop() if left and it.verb == "watch" else None  # type: ignore[misc]
            await port.end_all()
            await put(world.objects, "a", f"shade-{number}")
            await asyncio.sleep(1)
            assert colors(informer) == {"a": f"shade-{number}"}


@on_virtual_time
async def test_an_event_of_which_not_even_the_name_can_be_read_leads_to_a_new_list_and_ends_nothing() -> None:
    server = _Scripted([(Event("ADDED", b'{"metadata": 7}'),), (event("ADDED", "a", 7),)])
    informer = informer_of(server)  # type: ignore[arg-type]
    async with running(informer.run()):
        await asyncio.sleep(60)
        assert colors(informer) == {"a": "red"}


@on_virtual_time
async def test_an_error_of_the_watch_that_says_expired_leads_to_a_new_list() -> None:
    error = Event("ERROR", msgspec.json.encode(expired("too old resource version").status()))
    server = _Scripted([(event("ADDED", "a", 7), error)])
    informer = informer_of(server)  # type: ignore[arg-type]
    async with running(informer.run()):
        await asyncio.sleep(60)
        assert "default/a" in informer, "the list is of version 5: what came after it is not gone by it"


@on_virtual_time
async def test_objects_that_cannot_be_read_are_noted_and_the_others_seen() -> None:
    world = cluster()
    for name, color in (("bad", "unreadable"), ("good", "red"), ("worse", "absurd")):
        await put(world.objects, name, color)
    informer = informer_of(world.objects)
    async with running(informer.run()):
        await asyncio.sleep(1)
        assert colors(informer) == {"good": "red"}
        assert sorted(informer.problems) == ["default/bad", "default/worse"]
        await put(world.objects, "good", "unreadable")
        await put(world.objects, "bad", "blue")
        await world.objects.delete(CONFIG_MAPS, "worse", "default")
        await asyncio.sleep(1)
        assert colors(informer) == {"bad": "blue"}
        assert informer.keys_by("color", "red") == []
        assert sorted(informer.problems) == ["default/good"]


@on_virtual_time
async def test_our_own_write_is_seen_at_once_and_told_once() -> None:
    world = cluster()
    informer = informer_of(world.objects)
    seen: list[str] = []
    informer.on_change(lambda key, _old, _new: seen.append(key))
    async with running(informer.run()):
        await asyncio.sleep(1)
        seen.clear()
        informer.observe(await put(world.objects, "a", "red"))
        assert colors(informer) == {"a": "red"}
        await asyncio.sleep(1)
        assert seen == ["default/a"]
        old = await put(world.objects, "a", "blue")
        newer = await put(world.objects, "a", "green")
        informer.observe(newer)
        informer.observe(old)
        assert colors(informer) == {"a": "green"}
        await asyncio.sleep(1)
        await world.objects.delete(CONFIG_MAPS, "a", "default")
        await asyncio.sleep(1)
        informer.observe(newer)
        assert colors(informer) == {}, "the watch has been past it"


@on_virtual_time
async def test_what_we_deleted_does_not_come_back_by_events_from_before_but_a_namesake_may_come() -> None:
    late = [event("MODIFIED", "a", 9, "blue"), event("DELETED", "a", 10, "blue"), event("ADDED", "a", 12, uid="new")]
    server = _Scripted([(event("ADDED", "a", 7), *late[:1])])
    informer = informer_of(server)  # type: ignore[arg-type]
    informer.observe(event("ADDED", "a", 7).raw)
    informer.observe_gone("default/a", "uid-a")
    seen: list[tuple[str, Map | None, Map | None]] = []
    informer.on_change(lambda *change: seen.append(change))
    async with running(informer.run()):
        await asyncio.sleep(1)
        assert seen == []
    server = _Scripted([late])
    again = informer_of(server)  # type: ignore[arg-type]
    again.observe(event("ADDED", "a", 7).raw)
    again.observe_gone("default/a", "another uid")
    assert "default/a" in again, "it was another that was deleted"
    again.observe_gone("default/a", "uid-a")
    async with running(again.run()):
        await asyncio.sleep(1)
        assert colors(again) == {"a": "red"}


@on_virtual_time
async def test_what_is_deleted_while_a_list_is_read_is_not_shown_as_there() -> None:
    world = cluster()
    for number in range(700):
        await put(world.objects, f"map-{number}", "red")
    port = world.noted

    async def delete_between_pages() -> None:
        while len(port.of("list")) < 2:  # noqa: ASYNC110 (the informer asks in its own time)
            await asyncio.sleep(0)
        await world.objects.delete(CONFIG_MAPS, "map-3", "default")
        await world.objects.delete(CONFIG_MAPS, "map-699", "default")

    informer = informer_of(port.port)
    async with running(informer.run(), delete_between_pages()):
        await asyncio.sleep(5)
        assert len(colors(informer)) == 698


@on_virtual_time
async def test_a_kind_that_the_server_does_not_know_has_no_objects_until_it_comes_and_none_after_it_goes() -> None:
    world = cluster()
    things = Resource("example.com", "v1", "things")
    informer: Informer[Manifest] = Informer(world.objects, things, msgspec.json.decode, optional=True)
    async with running(informer.run(), world.store.housekeeper.run()):
        await informer.synced.wait()
        assert len(informer) == 0
        await world.objects.create(DEFINITIONS, _definition())
        await asyncio.sleep(1)
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
        await world.objects.create(things, thing, "default")
        await asyncio.sleep(LOOK_AGAIN_SECONDS + 1)
        assert list(informer.keys()) == ["default/a"]
        await world.objects.delete(DEFINITIONS, "things.example.com")
        await asyncio.sleep(STALL_SECONDS + LOOK_AGAIN_SECONDS)
        assert len(informer) == 0


def _definition() -> Manifest:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@on_virtual_time
async def test_a_kind_that_goes_while_nobody_watches_leaves_nothing_behind() -> None:
    server = _Scripted([(event("ADDED", "a", 7),), refused(404)])
    informer = informer_of(server, optional=True)  # type: ignore[arg-type]
    seen: list[tuple[str, Map | None, Map | None]] = []
    informer.on_change(lambda *change: seen.append(change))
    async with running(informer.run()):
        await asyncio.sleep(5)
        assert len(informer) == 0
    assert [after for _, _, after in seen] == [Map("a", "red"), None]


@on_virtual_time
async def test_a_kind_that_we_may_not_see_is_done_without_until_we_may(caplog: pytest.LogCaptureFixture) -> None:
    world = cluster()
    await world.objects.create(CONFIG_MAPS, config_map("a", color="red"), "default")
    world.noted.refuse = lambda _: refused(403)
    informer = informer_of(world.noted.port, optional=True)
    async with running(informer.run()):
        await informer.synced.wait()
        await asyncio.sleep(600)
        assert len(informer) == 0
        assert len(world.noted.requests) <= 600 / LOOK_AGAIN_SECONDS + 8
        assert len([it for it in caplog.records if "is done without" in it.message]) == 1
        world.noted.refuse = lambda _: None
        await asyncio.sleep(LOOK_AGAIN_SECONDS + 1)
        assert colors(informer) == {"a": "red"}
        # Rights that are taken away do not make the world disappear.
        world.noted.refuse = lambda _: refused(403)
        await asyncio.sleep(STALL_SECONDS + 60)
        assert colors(informer) == {"a": "red"}


STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["red", "blue", "unreadable", "", "gone"])), max_size=30
)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, shown=st.lists(st.booleans(), max_size=30), ends=st.sets(st.integers(0, 30)))
def test_an_index_finds_what_a_scan_finds_and_the_copy_is_what_is_there(
    steps: list[tuple[str, str]], shown: list[bool], ends: set[int]
) -> None:
    async def main() -> None:
        world = cluster()
        port = _Stuck(world.objects)
        informer = informer_of(port.port)
        told: dict[str, Map] = {}

        def note(key: str, before: Map | None, after: Map | None) -> None:
            assert told.get(key) == before
            if after is None:
                del told[key]
            else:
                told[key] = after

        informer.on_change(note)
        async with running(informer.run()):
            for number, (name, color) in enumerate(steps):
                if color == "gone":
                    try:
                        await world.objects.delete(CONFIG_MAPS, name, "default")
                    except StatusError:
                        continue
                    if number < len(shown) and shown[number]:
                        informer.observe_gone(f"default/{name}", "")
                else:
                    raw = await put(world.objects, name, color)
                    if number < len(shown) and shown[number]:
                        informer.observe(raw)
                if number in ends:
                    await port.end_all()
                    await asyncio.sleep(0.03)
                for shade in ("red", "blue"):
                    scanned = sorted(key for key in informer.keys() if _color(informer, key) == shade)  # noqa: SIM118
                    assert informer.keys_by("color", shade) == scanned
            await asyncio.sleep(5)
            page = await world.objects.list(CONFIG_MAPS)
            there = {}
            for raw in page.items:
                manifest = msgspec.json.decode(raw)
                color = (manifest.get("data") or {}).get("color", "")
                if color != "unreadable":
                    there[key_of(manifest["metadata"]["namespace"], manifest["metadata"]["name"])] = color
            assert {key: _color(informer, key) for key in informer.keys()} == there  # noqa: SIM118
            assert set(told) == set(there)

    run_virtually(VirtualTimeLoop(), main())


def _color(informer: Informer[Map], key: str) -> str:
    record = informer.get(key)
    assert record is not None
    return record.color
