"""Watches: what a watcher sees, from where, and what happens to one that is too slow or too late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.ports import Query
from allhands.store import InProcessObjects, Store
from allhands.store.watching import BOOKMARK_AFTER_CHANGES
from tests.doubles import CountingIds, ManualClock
from tests.manifests import CONFIG_MAPS, PODS, config_map, pod

if TYPE_CHECKING:
    from allhands.store.watching import StoreWatch


def seen(watch: StoreWatch) -> list[tuple[str, str]]:
    """The (type, name) of every event that is there."""
    events: list[tuple[str, str]] = []
    while (event := watch.poll()) is not None:
        events.append((event.type, event.manifest()["metadata"].get("name", "")))
    return events


async def test_a_watch_without_a_version_begins_with_what_is_there(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    watch = await objects.watch(CONFIG_MAPS)
    await objects.create(CONFIG_MAPS, config_map("b"), "default")
    assert seen(watch) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_from_a_version_sees_each_later_change_once(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    version = (await objects.list(CONFIG_MAPS)).version
    await objects.patch(CONFIG_MAPS, "a", "merge", {"data": {"k": "v"}}, "default")
    watch = await objects.watch(CONFIG_MAPS, Query(resource_version=version))
    await objects.delete(CONFIG_MAPS, "a", "default")
    assert seen(watch) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert seen(watch) == []


async def test_a_deletion_carries_its_own_version(objects: InProcessObjects, store: Store) -> None:
    made = (await objects.create(CONFIG_MAPS, config_map("a"), "default")).manifest()
    watch = await objects.watch(CONFIG_MAPS, Query(resource_version=str(store.version)))
    await objects.delete(CONFIG_MAPS, "a", "default")
    event = watch.poll()
    assert event is not None
    assert int(event.manifest()["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_objects_enter_and_leave_a_selection(objects: InProcessObjects, store: Store) -> None:
    watch = await objects.watch(CONFIG_MAPS, Query(labels="on=1", resource_version=str(store.version)))
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    await objects.patch(CONFIG_MAPS, "a", "merge", {"metadata": {"labels": {"on": "1"}}}, "default")
    await objects.patch(CONFIG_MAPS, "a", "merge", {"data": {"k": "v"}}, "default")
    await objects.patch(CONFIG_MAPS, "a", "merge", {"metadata": {"labels": {"on": "0"}}}, "default")
    await objects.delete(CONFIG_MAPS, "a", "default")
    assert seen(watch) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_field_selector_follows_a_pod_to_its_node(objects: InProcessObjects, store: Store) -> None:
    watch = await objects.watch(PODS, Query(fields="spec.nodeName=n1", resource_version=str(store.version)))
    await objects.create(PODS, pod("a"), "default")
    await objects.bind("default", "a", {"target": {"name": "n1"}})
    assert seen(watch) == [("ADDED", "a")]


async def test_initial_events_end_with_a_marked_bookmark(objects: InProcessObjects) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    watch = await objects.watch(CONFIG_MAPS, bookmarks=True, initial_events=True)
    first, mark = watch.poll(), watch.poll()
    assert first is not None
    assert mark is not None
    assert (first.type, mark.type) == ("ADDED", "BOOKMARK")
    assert mark.manifest()["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_initial_events_show_one_moment_even_if_read_slowly(objects: InProcessObjects) -> None:
    for number in range(600):
        await objects.create(CONFIG_MAPS, config_map(f"c{number:03d}"), "default")
    watch = await objects.watch(CONFIG_MAPS)
    first = watch.poll()
    await objects.delete(CONFIG_MAPS, "c599", "default")
    await objects.create(CONFIG_MAPS, config_map("c9999"), "default")
    assert first is not None
    events = seen(watch)
    assert len([name for kind, name in events if kind == "ADDED"]) == 599 + 1
    assert events[-2:] == [("DELETED", "c599"), ("ADDED", "c9999")]


async def test_a_watcher_that_sees_nothing_gets_bookmarks_to_go_on_from(
    objects: InProcessObjects, store: Store
) -> None:
    watch = await objects.watch(CONFIG_MAPS, Query(labels="no=1", resource_version=str(store.version)), bookmarks=True)
    for number in range(BOOKMARK_AFTER_CHANGES):
        await objects.create(CONFIG_MAPS, config_map(f"c{number}"), "default")
    event = watch.poll()
    assert event is not None
    assert (event.type, event.manifest()["metadata"]["resourceVersion"]) == ("BOOKMARK", str(store.version))


async def test_who_falls_out_of_the_window_is_told_and_ended() -> None:
    store = Store(ManualClock(), CountingIds(), window=10)
    objects = InProcessObjects(store)
    watch = await objects.watch(CONFIG_MAPS, Query(resource_version=str(store.version)))
    old = str(store.version)
    for number in range(20):
        await objects.create(CONFIG_MAPS, config_map(f"c{number}"), "default")
    event = watch.poll()
    assert event is not None
    assert (event.type, event.manifest()["code"]) == ("ERROR", 410)
    with pytest.raises(StopAsyncIteration):
        await watch.__anext__()
    with pytest.raises(StatusError, match="too old resource version") as caught:
        await objects.watch(CONFIG_MAPS, Query(resource_version=old))
    assert caught.value.code == 410
    with pytest.raises(StatusError) as listed:
        await objects.list(CONFIG_MAPS, Query(resource_version=old, version_match="Exact"))
    assert listed.value.code == 410


async def test_a_waiting_watcher_wakes_on_a_change_and_on_close(objects: InProcessObjects, store: Store) -> None:
    watch = await objects.watch(CONFIG_MAPS, Query(resource_version=str(store.version)))
    waiting = asyncio.ensure_future(watch.__anext__())
    await asyncio.sleep(0)
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    assert (await waiting).type == "ADDED"
    waiting = asyncio.ensure_future(watch.__anext__())
    await asyncio.sleep(0)
    await watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_cancelling_one_watcher_does_not_disturb_another(objects: InProcessObjects, store: Store) -> None:
    query = Query(resource_version=str(store.version))
    one, other = await objects.watch(CONFIG_MAPS, query), await objects.watch(CONFIG_MAPS, query)
    tasks = [asyncio.ensure_future(each.__anext__()) for each in (one, other)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    assert (await tasks[1]).type == "ADDED"


async def test_a_thousand_watchers_hold_no_events(objects: InProcessObjects, store: Store) -> None:
    query = Query(resource_version=str(store.version))
    watches = [await objects.watch(CONFIG_MAPS, query) for _ in range(1000)]
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    events = [watch.poll() for watch in watches]
    assert len({id(event.raw) for event in events if event is not None}) == 1


async def test_a_watch_that_is_fed_gets_every_event_in_order_soon_after_it_came_to_be(
    objects: InProcessObjects,
) -> None:
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    watch = await objects.watch(CONFIG_MAPS)
    taken: list[tuple[str, str]] = []
    feeding = asyncio.create_task(
        watch.feed(lambda event: taken.append((event.type, event.manifest()["metadata"]["name"])))
    )
    await asyncio.sleep(0)
    assert taken == [("ADDED", "a")]
    await objects.create(CONFIG_MAPS, config_map("b"), "default")
    await objects.delete(CONFIG_MAPS, "a", "default")
    assert taken == [("ADDED", "a")]  # not while the writer is at it
    await asyncio.sleep(0)
    assert taken == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    await watch.close()
    await feeding


async def test_those_who_watch_everything_share_one_event_which_says_whose_it_is(objects: InProcessObjects) -> None:
    first, second = await objects.watch(CONFIG_MAPS), await objects.watch(CONFIG_MAPS)
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    await objects.delete(CONFIG_MAPS, "a", "default")
    for wanted in ("ADDED", "DELETED"):
        event = first.poll()
        assert event is second.poll()
        assert event is not None
        assert event.type == wanted
        metadata = event.manifest()["metadata"]
        assert event.head is not None
        assert (event.head.key, event.head.uid) == ("default/a", metadata["uid"])
        assert str(event.head.version) == metadata["resourceVersion"]


async def test_a_feed_ends_with_what_its_taker_raises_and_takes_nothing_more(objects: InProcessObjects) -> None:
    watch = await objects.watch(CONFIG_MAPS)
    taken = 0

    def take(_event: object) -> None:
        nonlocal taken
        taken += 1
        raise ValueError("no room")

    feeding = asyncio.create_task(watch.feed(take))
    await asyncio.sleep(0)
    for name in ("a", "b"):
        await objects.create(CONFIG_MAPS, config_map(name), "default")
    with pytest.raises(ValueError, match="no room"):
        await feeding
    await objects.create(CONFIG_MAPS, config_map("c"), "default")
    await asyncio.sleep(0)
    assert taken == 1


async def test_a_feed_that_is_cancelled_leaves_nothing_behind(objects: InProcessObjects) -> None:
    watch = await objects.watch(CONFIG_MAPS)
    taken: list[object] = []
    feeding = asyncio.create_task(watch.feed(taken.append))
    await asyncio.sleep(0)
    feeding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await feeding
    await objects.create(CONFIG_MAPS, config_map("a"), "default")
    await asyncio.sleep(0)
    assert taken == []


async def test_a_feed_that_fell_out_of_the_window_is_told_so() -> None:
    store = Store(ManualClock(), CountingIds(), window=2)
    objects = InProcessObjects(store)
    watch = await objects.watch(CONFIG_MAPS, Query(resource_version=str(store.version)))
    for name in ("a", "b", "c"):
        await objects.create(CONFIG_MAPS, config_map(name), "default")
    taken: list[str] = []
    await watch.feed(lambda event: taken.append(event.type))
    assert taken == ["ERROR"]


def test_a_store_that_outlives_a_loop_feeds_those_of_the_next(objects: InProcessObjects) -> None:
    taken: list[str] = []

    async def feed_and_write(name: str) -> None:
        watch = await objects.watch(CONFIG_MAPS)
        feeding = asyncio.create_task(watch.feed(lambda event: taken.append(event.manifest()["metadata"]["name"])))
        await asyncio.sleep(0)
        await objects.create(CONFIG_MAPS, config_map(name), "default")
        if name == "b":
            await asyncio.sleep(0)
        feeding.cancel()

    asyncio.run(feed_and_write("a"))
    taken.clear()
    asyncio.run(feed_and_write("b"))
    assert taken == ["a", "b"]
