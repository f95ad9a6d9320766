"""A Job that names others starts when they are complete, and says for whom it waits until then."""

from __future__ import annotations

import asyncio

import pytest

from allhands.ports import DeleteOptions
from tests.manifests import JOBS
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused

BACKGROUND = DeleteOptions(propagation="Background")


@on_virtual_time
async def test_a_job_waits_until_those_before_it_are_complete() -> None:
    world = SchedulerWorld()
    await world.node("a", 8)
    async with world.scheduling():
        await world.job("fetch", 1)
        await world.job("prepare", 1)
        await world.gang("train", 2, after="prepare,fetch")
        await asyncio.sleep(10)
        assert await world.bound() == {}
        assert await world.told("train-0") == 'It waits for "prepare". 1 more must be complete too.'
        await world.end_job("prepare", "Complete")
        await asyncio.sleep(10)
        assert await world.bound() == {}
        assert await world.told("train-0") == 'It waits for "fetch".'
        await world.end_job("fetch", "Complete")
        await asyncio.sleep(10)
        assert sorted(await world.bound()) == ["train-0", "train-1"]


@on_virtual_time
async def test_pods_of_a_job_that_is_no_gang_wait_too() -> None:
    world = SchedulerWorld()
    await world.node("a", 8)
    async with world.scheduling():
        await world.job("prepare", 1)
        job = await world.job("train", 2, after="prepare")
        await world.job_pods(job, 2)
        await asyncio.sleep(10)
        assert await world.bound() == {}
        assert "prepare" in await world.told("train-0")
        await world.end_job("prepare", "Complete")
        await asyncio.sleep(10)
        assert len(await world.bound()) == 2


@on_virtual_time
async def test_a_job_after_one_that_has_failed_says_so_and_starts_if_that_is_made_anew() -> None:
    world = SchedulerWorld()
    await world.node("a", 8)
    async with world.scheduling():
        await world.job("prepare", 1)
        await world.gang("train", 2, after="prepare")
        await world.end_job("prepare", "Failed")
        await asyncio.sleep(10)
        assert 'Job "prepare" has failed' in await world.told("train-0")
        await world.objects.delete(JOBS, "prepare", "default", BACKGROUND)
        await asyncio.sleep(10)
        assert 'There is no Job "prepare"' in await world.told("train-0")
        await world.job("prepare", 1)
        await asyncio.sleep(10)
        assert await world.told("train-0") == 'It waits for "prepare".'
        await world.end_job("prepare", "Complete")
        await asyncio.sleep(10)
        assert len(await world.bound()) == 2


@on_virtual_time
async def test_jobs_that_wait_for_each_other_are_told_of_the_circle() -> None:
    world = SchedulerWorld()
    await world.node("a", 8)
    async with world.scheduling():
        await world.gang("x", 1, after="y")
        await world.gang("y", 1, after="z")
        await world.gang("z", 1, after="x")
        await asyncio.sleep(10)
        assert "They wait for each other: x, y, z." in str(await world.told("x-0"))
        assert await world.bound() == {}


@on_virtual_time
async def test_what_runs_goes_on_when_the_one_before_it_is_taken_away() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        await world.job("prepare", 1)
        await world.end_job("prepare", "Complete")
        job = await world.gang("train", 2, after="prepare")
        await asyncio.sleep(10)
        assert len(await world.bound()) == 2
        await world.objects.delete(JOBS, "prepare", "default", BACKGROUND)
        await world.delete_pod("train-1")
        await world.job_pods(job, 1, first=5)
        await asyncio.sleep(10)
        assert sorted(await world.bound()) == ["train-0", "train-5"]


@on_virtual_time
async def test_a_list_that_makes_no_sense_is_the_reason_to_wait() -> None:
    world = SchedulerWorld()
    await world.node("a", 8)
    async with world.scheduling():
        await world.gang("train", 1, after="train")
        await asyncio.sleep(10)
        assert "cannot wait for itself" in await world.told("train-0")


@pytest.mark.parametrize("is_gang", [True, False], ids=["a gang", "pods alone"])
def test_one_that_was_complete_and_is_gone_counts_as_complete_for_a_new_leader_too(is_gang: bool) -> None:
    @on_virtual_time
    async def main() -> None:
        world = SchedulerWorld()
        await world.node("a", 1)
        async with world.scheduling():
            await world.job("fetch", 1)
            await world.job("prepare", 1)
            job = await world.job("train", 2, after="prepare,fetch", **({"min_available": "all"} if is_gang else {}))
            await world.job_pods(job, 2, "2")
            await world.end_job("prepare", "Complete")
            await asyncio.sleep(5)
            assert (await world.record(JOBS, "train"))["after_completed"] == ["prepare"]
            await world.objects.delete(JOBS, "prepare", "default", BACKGROUND)
            await asyncio.sleep(5)
            assert await world.told("train-0") == 'It waits for "fetch".'
            await world.end_job("fetch", "Complete")
            await world.objects.delete(JOBS, "fetch", "default", BACKGROUND)
            await asyncio.sleep(5)
            assert "fetch" not in await world.told("train-0")
        async with world.scheduling():
            await asyncio.sleep(5)
            assert "fetch" not in await world.told("train-0")
            assert (await world.record(JOBS, "train"))["after_completed"] == ["prepare", "fetch"]
            await world.node("b", 4)
            await asyncio.sleep(5)
            assert sorted(await world.bound()) == ["train-0", "train-1"]
            await asyncio.sleep(5)
            writes = len(world.noted.of("patch", "jobs"))
            await asyncio.sleep(60)
            assert len(world.noted.of("patch", "jobs")) == writes, "and nobody writes it again"

    main()


@on_virtual_time
async def test_that_it_was_complete_is_written_until_it_is_there_even_if_it_is_gone_meanwhile() -> None:
    world = SchedulerWorld()
    await world.node("a", 1)
    refuses = True
    world.noted.refuse = lambda it: (
        refused(500) if refuses and it.verb == "patch" and (it.kind, it.name) == ("jobs", "train") else None
    )
    async with world.scheduling():
        await world.job("prepare", 1)
        await world.gang("train", 2)
        await world.objects.patch(
            JOBS, "train", "merge", {"metadata": {"annotations": {"allhands.dev/after": "prepare"}}}, "default"
        )
        await world.end_job("prepare", "Complete")
        await asyncio.sleep(1)
        await world.objects.delete(JOBS, "prepare", "default", BACKGROUND)
        await asyncio.sleep(60)
        refuses = False
        await asyncio.sleep(60)
        assert (await world.record(JOBS, "train"))["after_completed"] == ["prepare"]
    async with world.scheduling():
        await world.node("b", 4)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 2


@on_virtual_time
async def test_one_of_the_same_name_that_is_made_anew_does_not_know_what_was_completed_before_it() -> None:
    world = SchedulerWorld()
    await world.node("a", 1)
    async with world.scheduling():
        await world.job("prepare", 1)
        await world.job("train", 2, after="prepare", min_available="all")
        await world.end_job("prepare", "Complete")
        await asyncio.sleep(5)
        for name in ("prepare", "train"):
            await world.objects.delete(JOBS, name, "default", BACKGROUND)
        await asyncio.sleep(5)
        await world.gang("train", 2, after="prepare")
        await asyncio.sleep(5)
        assert 'There is no Job "prepare"' in await world.told("train-0")
