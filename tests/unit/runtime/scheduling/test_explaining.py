"""Whoever waits is told why, once, the oldest first, and the API server hears no more of it than it must."""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from allhands.runtime.recorder import EVENTS
from allhands.runtime.scheduling.explainer import FORMING_SECONDS, MOST_FORMING_SECONDS, PER_SECOND
from tests.manifests import JOBS
from tests.scheduler_world import POD_GROUPS, SCHEDULING, SchedulerWorld
from tests.virtual import Request, on_virtual_time, refused


def _tellings(world: SchedulerWorld) -> list[Request]:
    return [it for it in world.noted.writes if it.verb == "patch" and it.kind in ("jobs", "pods", "podgroups")]


@on_virtual_time
async def test_a_gang_that_waits_is_told_on_its_job_its_pods_and_by_an_event() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        await world.gang("gang", 3)
        await asyncio.sleep(10)
        said = (await world.record(JOBS, "gang"))["said"]["explanation"]
        assert said["reason"] == "GroupNeverFits"
        texts = {await world.told(f"gang-{number}") for number in range(3)}
        assert len(texts) == 1
        assert "2 of the 3 pods fit now" in texts.pop()
    events = [msgspec.json.decode(raw) for raw in (await world.objects.list(EVENTS)).items]
    assert [it["reason"] for it in events] == ["FailedScheduling"]
    assert events[0]["involvedObject"]["kind"] == "Job"


@on_virtual_time
async def test_nothing_is_written_again_while_nothing_is_new_and_a_new_leader_writes_nothing_either() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await world.gang("gang", 3)
    async with world.scheduling():
        await asyncio.sleep(30)
        before = len(world.noted.writes)
        for number in range(20):
            await world.node(f"small-{number}", 0)
            await asyncio.sleep(5)
        assert len(_tellings(world)) <= 4
        assert len(world.noted.writes) == before
    async with world.scheduling():
        await asyncio.sleep(60)
        assert [it for it in world.noted.writes[before:] if it.kind != "configmaps"] == []


@on_virtual_time
async def test_pods_that_come_later_are_told_what_their_group_was_told_before() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        job = await world.gang("gang", 3)
        await asyncio.sleep(10)
        await world.delete_pod("gang-0")
        await world.job_pods(job, 1, first=7)
        await asyncio.sleep(10)
        assert await world.told("gang-7") == await world.told("gang-1") != ""


@on_virtual_time
async def test_pods_that_a_leader_could_not_tell_any_more_are_told_by_the_next_one_and_the_others_not_again() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await world.gang("gang", 5)
    world.noted.refuse = lambda it: refused(503) if it.kind == "pods" and it.name in ("gang-3", "gang-4") else None
    async with world.scheduling():
        await asyncio.sleep(10)
    assert await world.told("gang-4") == ""
    world.noted.refuse = lambda _: None
    before = len(world.noted.writes)
    async with world.scheduling():
        await asyncio.sleep(10)
    assert await world.told("gang-4") == await world.told("gang-0") != ""
    assert sorted(it.name for it in world.noted.writes[before:] if it.kind == "pods") == ["gang-3", "gang-4"]


@on_virtual_time
async def test_a_gang_whose_pods_are_just_being_made_is_not_warned_and_one_whose_pods_never_come_is() -> None:
    world = SchedulerWorld()
    await world.node("a", 4)
    async with world.scheduling():
        quick = await world.job("quick", 2, min_available="all")
        await world.job("never", 2, min_available="all")
        await asyncio.sleep(1.5)
        await world.job_pods(quick, 2)
        await asyncio.sleep(10)
        assert len(await world.bound()) == 2
        assert await world.record(JOBS, "quick") == {}
        assert (await world.record(JOBS, "never"))["said"]["explanation"]["reason"] == "GangIncomplete"


@on_virtual_time
async def test_while_pods_of_others_are_made_a_gang_without_is_not_warned_but_not_for_ever() -> None:
    """Whoever makes them may be busy: its turn is yet to come."""
    world = SchedulerWorld()
    await world.node("a", 100)
    async with world.scheduling():
        await world.job("late", 2, min_available="all")
        for number in range(int(MOST_FORMING_SECONDS) - 2):
            await world.job_pods(await world.job(f"job-{number}", 1), 1)
            await asyncio.sleep(1)
            assert await world.record(JOBS, "late") == {}, number
        await asyncio.sleep(4)
        assert (await world.record(JOBS, "late"))["said"]["explanation"]["reason"] == "GangIncomplete"
        await world.job("soon", 2, min_available="all")
        await world.job_pods(await world.job("last", 1), 1)
        await asyncio.sleep(FORMING_SECONDS + 2)
        assert (await world.record(JOBS, "soon"))["said"]["explanation"]["reason"] == "GangIncomplete"


@on_virtual_time
async def test_many_are_told_at_most_fifty_a_second_and_the_oldest_first() -> None:
    world = SchedulerWorld()
    await world.node("a", 1)
    names = [f"job-{number:03}" for number in range(150)]
    for name in names:
        await world.job(name, 2, min_available="all")
    async with world.scheduling():
        await asyncio.sleep(30)
    told = [it for it in _tellings(world) if it.kind == "jobs"]
    assert [it.name for it in told] == names
    pauses = [after.at_seconds - before.at_seconds for before, after in itertools.pairwise(told)]
    assert min(pauses) > 0.99 / PER_SECOND
    assert told[-1].at_seconds < 10


@on_virtual_time
async def test_a_telling_that_fails_is_made_up_for_and_one_that_is_forbidden_delays_nobody() -> None:
    world = SchedulerWorld()
    await world.node("a", 1)

    def refuse(request: Request) -> Exception | None:
        if request.verb != "patch" or request.kind != "jobs":
            return None
        if request.name == "forbidden":
            return refused(403)
        return refused(503) if request.at_seconds < 20 else None

    world.noted.refuse = refuse  # type: ignore[assignment]
    async with world.scheduling():
        await world.job("forbidden", 2, min_available="all")
        await world.job("plain", 2, min_available="all")
        await asyncio.sleep(300)
        assert "said" in await world.record(JOBS, "plain")
        assert len(_tellings(world)) < 60


@on_virtual_time
async def test_who_starts_is_not_told_that_it_waits_and_a_pod_group_says_that_it_has_started() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        await world.pod_group("group", 2)
        await asyncio.sleep(20)
        assert await _conditions(world) == []  # whose it will be nobody knows before it has pods
        await world.pod("member-0", schedulingGroup={"podGroupName": "group"})
        await asyncio.sleep(20)
        assert await _conditions(world) == ["False"]
        await world.pod("member-1", schedulingGroup={"podGroupName": "group"})
        await asyncio.sleep(10)
        assert len(await world.bound()) == 2
        assert await _conditions(world) == ["True"]
        assert await world.told("member-1") == ""
        # What it has beyond its minimum may wait: the group as a whole is scheduled nevertheless.
        await world.pod("member-2", schedulingGroup={"podGroupName": "group"})
        await asyncio.sleep(20)
        assert await world.told("member-2") != ""
        assert await _conditions(world) == ["True"]


@on_virtual_time
async def test_groups_that_others_schedule_are_told_nothing() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        await world.pod_group("group", 2)
        await world.pod("member", schedulingGroup={"podGroupName": "group"}, schedulerName="default-scheduler")
        await asyncio.sleep(60)
        found = (await world.objects.get(POD_GROUPS, "group", "default")).manifest()
        assert SCHEDULING not in (found["metadata"].get("annotations") or {})
        assert await _conditions(world) == []
        assert (await world.objects.list(EVENTS)).items == []


async def _conditions(world: SchedulerWorld) -> list[str]:
    status = (await world.objects.get(POD_GROUPS, "group", "default")).manifest().get("status") or {}
    return [it["status"] for it in status.get("conditions") or () if it["type"] == "PodGroupScheduled"]


@on_virtual_time
async def test_an_idle_scheduler_decides_and_writes_nothing_for_hours() -> None:
    world = SchedulerWorld()
    await world.node("a", 4)
    await world.gang("runs", 2)
    await world.gang("waits", 9)
    async with world.scheduling() as scheduler:
        for pod in ("runs-0", "runs-1"):
            await asyncio.sleep(1)
            await world.phase(pod, "Running")
        await asyncio.sleep(700)
        cycles, writes = scheduler.cycles, len(world.noted.writes)
        await asyncio.sleep(3600)
        assert scheduler.cycles == cycles
        assert world.noted.writes[writes:] == []
