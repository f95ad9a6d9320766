"""A store on a disk: nothing is told, to anybody, before it is kept; what is refused never was."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.ports import DeleteOptions, Query
from allhands.store.disk import DiskError
from allhands.store.durable import DurableObjects
from allhands.store.objects import InProcessObjects
from tests.disks import Life, MemoryDisk, living, turns
from tests.doubles import ManualClock
from tests.manifests import CONFIG_MAPS, DEFINITIONS, NAMESPACES, PODS, config_map, owned_by

TRAININGS = Resource("example.com", "v1", "trainings")
FULL = DiskError("state.db: database or disk is full", is_full=True)

READING = {"get", "list", "watch"}


def definition() -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": "trainings.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "trainings", "singular": "training", "kind": "Training", "listKind": "TrainingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def names(objects: InProcessObjects, query: Query | None = None) -> list[str]:
    page = await objects.list(CONFIG_MAPS, query or Query(namespace="default"))
    return [text.split(b'"name":"')[1].split(b'"')[0].decode() for text in page.items]


async def data_of(objects: InProcessObjects, name: str) -> str:
    document = await objects.get(CONFIG_MAPS, name, "default")
    return str(document.manifest()["data"]["value"])


async def with_first_objects_kept(life: Life, disk: MemoryDisk) -> None:
    await life.committer.settled()
    disk.held = True


def is_well(life: Life) -> bool:
    return life.committer.is_well


def test_every_verb_that_writes_waits_for_the_disk() -> None:
    verbs = {name for name, _ in inspect.getmembers(InProcessObjects, inspect.iscoroutinefunction) if name[0] != "_"}
    for verb in sorted(verbs - READING):
        assert verb in vars(DurableObjects), f"{verb} is answered before it is on disk"


async def test_a_write_is_answered_only_when_it_is_kept() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await with_first_objects_kept(life, disk)
        creating = asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map("a"), "default"))
        await turns()
        assert not creating.done()
        disk.let_go()
        assert (await creating).created
        assert ("configmaps", ("default", "a")) in disk.kept


async def test_nobody_reads_lists_or_watches_what_is_not_kept() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        objects = life.objects
        await objects.create(CONFIG_MAPS, config_map("old", value="1"), "default")
        disk.held = True
        before = (await objects.list(CONFIG_MAPS)).version
        watch = await objects.watch(CONFIG_MAPS, Query(resource_version=before))
        begun = [
            asyncio.create_task(objects.create(CONFIG_MAPS, config_map("new"), "default")),
            asyncio.create_task(objects.patch(CONFIG_MAPS, "old", "merge", {"data": {"value": "2"}}, "default")),
        ]
        await turns()
        assert await names(objects) == ["old"]
        assert await names(objects, Query(namespace="default", fields="metadata.name=new")) == []
        assert (await objects.list(CONFIG_MAPS)).version == before
        assert await data_of(objects, "old") == "1"
        with pytest.raises(StatusError, match="not found"):
            await objects.get(CONFIG_MAPS, "new", "default")
        late = await objects.watch(CONFIG_MAPS)
        assert watch.poll() is None
        assert (first := late.poll()) is not None
        assert first.manifest()["data"]["value"] == "1"
        assert late.poll() is None
        disk.let_go()
        await asyncio.gather(*begun)
        assert await names(objects) == ["new", "old"]
        for seen in (watch, late):
            assert [event.type for _ in range(2) if (event := seen.poll())] == ["ADDED", "MODIFIED"]
            assert seen.poll() is None


async def test_a_refusal_that_rests_on_what_is_not_kept_waits_for_it_too() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await with_first_objects_kept(life, disk)
        first = asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map("a"), "default"))
        await turns()
        second = asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map("a"), "default"))
        same = asyncio.create_task(life.objects.patch(CONFIG_MAPS, "a", "merge", {}, "default"))
        await turns()
        assert not second.done(), "it was said to be there, and a power cut would have shown that it is not"
        assert not same.done()
        disk.let_go()
        await first
        with pytest.raises(StatusError, match="already exists"):
            await second
        await same


async def test_writers_that_come_while_the_disk_is_busy_share_the_next_batch() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await with_first_objects_kept(life, disk)
        written = len(disk.batches)
        creating = [
            asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map(f"c{number}"), "default"))
            for number in range(100)
        ]
        while not all(task.done() for task in creating):
            await turns()
            disk.let_go()
        assert len(disk.batches) - written <= 2


async def test_of_an_object_that_changes_often_only_the_end_is_written() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await with_first_objects_kept(life, disk)
        held = asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map("first"), "default"))
        await turns()
        tasks = [asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map("a"), "default"))]
        for value in "123":
            change = {"data": {"value": value}}
            tasks.append(asyncio.create_task(life.objects.patch(CONFIG_MAPS, "a", "merge", change, "default")))
        await turns()
        disk.let_go()
        await held
        await turns()
        disk.let_go()
        await asyncio.gather(*tasks)
        assert [kept.key[1] for kept in disk.batches[-1].puts] == ["a"]
        assert b'"value":"3"' in disk.batches[-1].puts[0].raw


async def test_a_full_disk_refuses_writes_and_nothing_is_lost_or_seen() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        objects = life.objects
        await objects.create(CONFIG_MAPS, config_map("old", value="1"), "default")
        await objects.create(CONFIG_MAPS, config_map("gone"), "default")
        before = await objects.list(CONFIG_MAPS)
        watch = await objects.watch(CONFIG_MAPS, Query(resource_version=before.version))
        disk.fault = FULL
        attempts = [
            objects.create(CONFIG_MAPS, config_map("new"), "default"),
            objects.patch(CONFIG_MAPS, "old", "merge", {"data": {"value": "2"}}, "default"),
            objects.delete(CONFIG_MAPS, "gone", "default"),
            objects.create(CONFIG_MAPS, config_map("gone"), "default"),
        ]
        for answer in await asyncio.gather(*attempts, return_exceptions=True):
            assert isinstance(answer, StatusError)
            assert answer.code == 500
            assert "disk of the cluster is full" in answer.message
            assert "nothing was changed" in answer.message
            assert not answer.may_have_happened
        assert not is_well(life)
        assert await objects.list(CONFIG_MAPS) == before
        assert watch.poll() is None
        given = life.store.version
        disk.fault = None
        again = await objects.patch(CONFIG_MAPS, "old", "merge", {"data": {"value": "3"}}, "default")
        assert again.head is not None
        assert again.head.version > given, "a version that was given once is not given again"
        assert is_well(life)
        event = watch.poll()
        assert event is not None
        assert event.manifest()["data"]["value"] == "3"
        assert watch.poll() is None
        assert await names(objects) == ["gone", "old"]
        assert await names(objects, Query(namespace="default", labels="!x")) == ["gone", "old"]


async def test_when_nobody_knows_whether_it_is_kept_the_answer_says_so() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.committer.settled()
        disk.fault = DiskError("state.db: disk I/O error", may_be_kept=True)
        with pytest.raises(StatusError, match="whether it was changed is not known") as refused:
            await life.objects.create(CONFIG_MAPS, config_map("a"), "default")
        assert refused.value.may_have_happened


async def test_a_killed_store_goes_on_with_what_was_kept_and_with_higher_versions() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(CONFIG_MAPS, config_map("kept"), "default")
        disk.held = True
        lost = asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map("lost"), "default"))
        await turns()
        given = life.store.version
        lost.cancel()
    disk.held = False
    async with living(disk) as life:
        assert await names(life.objects) == ["kept"]
        assert life.store.version >= given
        document = await life.objects.create(CONFIG_MAPS, config_map("next"), "default")
        assert document.head is not None
        assert document.head.version > given


async def test_after_a_clean_end_versions_go_on_without_a_gap() -> None:
    disk = MemoryDisk()
    life = Life(disk)
    writing = asyncio.create_task(life.committer.run())
    await life.objects.create(CONFIG_MAPS, config_map("a"), "default")
    await life.committer.close()
    await writing
    assert Life(disk).store.version == life.store.version


async def test_a_watcher_that_missed_nothing_resumes_after_a_restart_and_one_that_did_is_told() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(CONFIG_MAPS, config_map("a"), "default")
        middle = (await life.objects.list(CONFIG_MAPS)).version
        await life.objects.delete(CONFIG_MAPS, "a", "default")
        end = (await life.objects.list(CONFIG_MAPS)).version
        pods_end = (await life.objects.list(PODS)).version
    async with living(disk) as life:
        resumed = await life.objects.watch(CONFIG_MAPS, Query(resource_version=end))
        assert resumed.poll() is None
        await life.objects.create(CONFIG_MAPS, config_map("b"), "default")
        assert (event := resumed.poll()) is not None
        assert event.type == "ADDED"
        with pytest.raises(StatusError, match="too old resource version") as expired:
            await life.objects.watch(CONFIG_MAPS, Query(resource_version=middle))
        assert expired.value.code == 410
        await life.objects.watch(PODS, Query(resource_version=pods_end))


async def test_the_first_objects_are_not_made_twice() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.committer.settled()
        first = (await life.objects.get(NAMESPACES, "default")).raw
    async with living(disk) as life:
        assert (await life.objects.get(NAMESPACES, "default")).raw == first


async def test_custom_kinds_and_their_objects_are_there_again() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(DEFINITIONS, definition())
        life.store.housekeeper.run_pending()
        await life.objects.create(TRAININGS, {"metadata": {"name": "t"}, "spec": {"size": 3}}, "default")
        established = (await life.objects.get(DEFINITIONS, "trainings.example.com")).raw
    async with living(disk) as life:
        found = await life.objects.get(TRAININGS, "t", "default")
        assert found.manifest()["spec"] == {"size": 3}
        life.store.housekeeper.run_pending()
        await life.committer.settled()
        assert (await life.objects.get(DEFINITIONS, "trainings.example.com")).raw == established
        await life.objects.delete(DEFINITIONS, "trainings.example.com")
        life.store.housekeeper.run_pending()
        await life.committer.settled()
    assert not [where for where in disk.kept if "example.com" in where[0]]


async def test_a_watch_from_before_a_definition_is_told_and_one_from_after_it_resumes() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        before = (await life.objects.list(CONFIG_MAPS)).version
        await life.objects.create(DEFINITIONS, definition())
        life.store.housekeeper.run_pending()
        await life.committer.settled()
        after = (await life.objects.list(TRAININGS)).version
        with pytest.raises(StatusError, match="too old resource version"):
            await life.objects.watch(TRAININGS, Query(resource_version=before))
    async with living(disk) as life:
        await life.objects.watch(TRAININGS, Query(resource_version=after))
        with pytest.raises(StatusError, match="too old resource version"):
            await life.objects.watch(TRAININGS, Query(resource_version=before))


async def test_who_lists_a_new_kind_can_watch_it_from_there_before_all_of_its_beginning_is_on_disk() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(DEFINITIONS, definition())
        disk.held = True
        life.store.housekeeper.run_pending()
        page = await life.objects.list(TRAININGS)
        await life.objects.watch(TRAININGS, Query(resource_version=page.version))


async def test_objects_of_a_kind_that_is_not_served_stay_on_disk(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(DEFINITIONS, definition())
        life.store.housekeeper.run_pending()
        await life.objects.create(TRAININGS, {"metadata": {"name": "t"}}, "default")
    hidden = disk.kept.pop(("customresourcedefinitions.apiextensions.k8s.io", ("", "trainings.example.com")))
    async with living(disk) as life:
        await life.objects.create(CONFIG_MAPS, config_map("a"), "default")
    assert "1 objects of trainings.example.com are kept and not shown" in caplog.text
    disk.kept["customresourcedefinitions.apiextensions.k8s.io", hidden.key] = hidden
    async with living(disk) as life:
        await life.objects.get(TRAININGS, "t", "default")


async def test_a_definition_that_the_disk_refuses_leaves_no_kind_behind() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.committer.settled()
        disk.fault = FULL
        creating = asyncio.create_task(life.objects.create(DEFINITIONS, definition()))
        await asyncio.sleep(0)
        life.store.housekeeper.run_pending()
        with pytest.raises(StatusError, match="full"):
            await creating
        disk.fault = None
        life.store.housekeeper.run_pending()
        with pytest.raises(StatusError, match="could not find the requested resource"):
            await life.objects.list(TRAININGS)
        await life.objects.create(DEFINITIONS, definition())
        life.store.housekeeper.run_pending()
        await life.objects.create(TRAININGS, {"metadata": {"name": "t"}}, "default")


async def test_the_end_of_a_custom_kind_that_the_disk_refuses_is_taken_back_and_done_later() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(DEFINITIONS, definition())
        life.store.housekeeper.run_pending()
        await life.objects.create(TRAININGS, {"metadata": {"name": "t"}}, "default")
        disk.held = True
        deleting = asyncio.create_task(life.objects.delete(DEFINITIONS, "trainings.example.com"))
        await turns()
        life.store.housekeeper.run_pending()
        disk.fault = FULL
        disk.let_go()
        with pytest.raises(StatusError, match="full"):
            await deleting
        disk.held, disk.fault = False, None
        life.store.housekeeper.run_pending()
        await life.committer.settled()
        assert (await life.objects.get(TRAININGS, "t", "default")).manifest()["metadata"]["name"] == "t"
        await life.objects.create(TRAININGS, {"metadata": {"name": "u"}}, "default")


async def test_what_a_crash_or_a_full_disk_left_undone_is_done_later() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        owner = await life.objects.create(CONFIG_MAPS, config_map("owner"), "default")
        await life.objects.create(CONFIG_MAPS, owned_by(config_map("child"), owner.manifest()), "default")
        await life.objects.create(NAMESPACES, {"metadata": {"name": "ending"}})
        await life.objects.create(CONFIG_MAPS, config_map("inside"), "ending")
        life.store.housekeeper.run_pending()
        await life.objects.delete(CONFIG_MAPS, "owner", "default", DeleteOptions(propagation="Background"))
        await life.objects.delete(NAMESPACES, "ending")
    async with living(disk) as life:  # nobody tidied up in time
        disk.fault = FULL
        life.store.housekeeper.run_pending()
        with pytest.raises(StatusError, match="full"):
            await life.committer.settled()
        assert "child" in await names(life.objects)
        disk.fault = None
        life.store.housekeeper.run_pending()
        await life.committer.settled()
        assert "child" not in await names(life.objects)
        with pytest.raises(StatusError, match="not found"):
            await life.objects.get(NAMESPACES, "ending")


async def test_more_changes_than_a_window_holds_may_be_on_their_way() -> None:
    disk = MemoryDisk()
    async with living(disk, window=10) as life:
        await with_first_objects_kept(life, disk)
        version = (await life.objects.list(CONFIG_MAPS)).version
        creating = [
            asyncio.create_task(life.objects.create(CONFIG_MAPS, config_map(f"c{number:02}"), "default"))
            for number in range(50)
        ]
        await turns(200)
        assert await names(life.objects) == []
        watch = await life.objects.watch(CONFIG_MAPS, Query(resource_version=version))
        while not all(task.done() for task in creating):
            disk.let_go()
            await turns()
        assert len(await names(life.objects)) == 50
        event = watch.poll()
        assert event is not None
        assert event.type == "ERROR", "it fell out of the window and is told"


async def test_a_clock_that_jumps_backward_breaks_nothing() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    async with living(disk, clock) as life:
        first = await life.objects.create(CONFIG_MAPS, config_map("before", value="1"), "default")
        clock.advance(-400 * 24 * 3600)
        second = await life.objects.create(CONFIG_MAPS, config_map("after", value="2"), "default")
        assert first.head is not None
        assert second.head is not None
        assert second.head.version > first.head.version
        await life.objects.patch(CONFIG_MAPS, "before", "merge", {"data": {"value": "3"}}, "default")
    clock.advance(-400 * 24 * 3600)
    async with living(disk, clock) as life:
        assert await data_of(life.objects, "before") == "3"
        third = await life.objects.create(CONFIG_MAPS, config_map("later"), "default")
        assert third.head is not None
        assert third.head.version > second.head.version
        assert await names(life.objects) == ["after", "before", "later"]


async def test_who_comes_after_the_end_is_refused_and_does_not_wait_for_ever() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.committer.settled()
    with pytest.raises(StatusError, match="the cluster is stopping"):
        await life.objects.create(CONFIG_MAPS, config_map("late"), "default")
