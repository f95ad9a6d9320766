"""Which pods are one gang: by PodGroup, by Job, by queue; whatever the order in which objects are seen."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.core.dump import canonical
from allhands.ports import DeleteOptions
from allhands.runtime.informer import LOOK_AGAIN_SECONDS
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.depth import examples
from tests.manifests import JOBS, PODS, PRIORITY_CLASSES
from tests.scheduler_world import POD_GROUPS, QUEUES, SchedulerWorld
from tests.virtual import on_virtual_time, refused

BACKGROUND = DeleteOptions(propagation="Background")
_GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "group"}}


@on_virtual_time
async def test_a_native_pod_group_starts_when_its_minimum_has_room_and_not_before() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await world.pod_group("group", 3)
    for number in range(3):
        await world.pod(f"member-{number}", **_GROUP)
    async with world.scheduling():
        await asyncio.sleep(5)
        assert await world.bound() == {}
        assert "GroupNeverFits" in str(await world.record(POD_GROUPS, "group"))
        await world.node("b", 2)
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["member-0", "member-1", "member-2"]
    conditions = (await world.objects.get(POD_GROUPS, "group", "default")).manifest()["status"]["conditions"]
    assert [(it["type"], it["status"]) for it in conditions] == [("PodGroupScheduled", "True")]


@on_virtual_time
async def test_a_job_with_min_available_starts_whole_and_one_without_as_pods_come() -> None:
    world = SchedulerWorld()
    await world.node("a", 3)
    await world.gang("gang", 4)
    async with world.scheduling():
        await asyncio.sleep(5)
        assert await world.bound() == {}
        plain = await world.job("plain", 4)
        await world.job_pods(plain, 4)
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["plain-0", "plain-1", "plain-2"]


@on_virtual_time
async def test_a_queue_can_say_that_its_jobs_are_gangs_and_change_its_mind() -> None:
    world = SchedulerWorld()
    await world.install()
    await world.queue("together", gang=True)
    await world.node("a", 3)
    async with world.scheduling():
        job = await world.job("job", 4, queue="together")
        await world.job_pods(job, 4)
        await asyncio.sleep(5)
        assert await world.bound() == {}
        patch = {"metadata": {"annotations": {"allhands.dev/gang-by-default": "false"}}}
        await world.objects.patch(QUEUES, "together", "merge", patch)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 3


@on_virtual_time
async def test_bare_pods_are_groups_of_their_own() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        for name in ("one", "two", "three"):
            await world.pod(name)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 2
        waiting = ({"one", "two", "three"} - set(await world.bound())).pop()
        assert "cpu" in await world.told(waiting)


@on_virtual_time
async def test_a_pod_that_is_seen_before_its_job_waits_for_it() -> None:
    world = SchedulerWorld()
    await world.node("a", 3)
    seen = {"late": True}
    world.noted.refuse = lambda it: refused(404) if it.kind == "jobs" and seen["late"] else None
    await world.gang("gang", 4)
    await world.job_pods(await world.job("plain", 1), 1)
    async with world.scheduling():
        await asyncio.sleep(5)
        assert await world.bound() == {}, "nobody knows yet how many must start together"
        seen["late"] = False
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        assert sorted(await world.bound()) == ["plain-0"]
        await world.node("b", 3)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 5


@on_virtual_time
async def test_pods_of_a_job_that_is_gone_do_not_count_for_another_of_its_name() -> None:
    world = SchedulerWorld()
    await world.node("a", 3)
    old = await world.gang("gang", 3)
    async with world.scheduling():
        await asyncio.sleep(5)
        assert len(await world.bound()) == 3
        for number in range(3):
            await world.phase(f"gang-{number}", "Succeeded")
        await world.pod("blocker", "2")
        await asyncio.sleep(5)
        await world.objects.delete(JOBS, "gang", "default", BACKGROUND)
        new = await world.job("gang", 3, min_available="all")
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        await world.job_pods(new, 3, first=10)
        await asyncio.sleep(5)
        assert not {"gang-10", "gang-11", "gang-12"} & set(await world.bound()), "there is room for one, not for three"
        await world.delete_pod("blocker")
        await asyncio.sleep(5)
        assert {"gang-10", "gang-11", "gang-12"} <= set(await world.bound())


@on_virtual_time
async def test_a_pod_group_without_a_gang_leaves_its_pods_alone_whichever_is_seen_first() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    async with world.scheduling():
        for number in range(3):
            await world.pod(f"member-{number}", **_GROUP)
        await asyncio.sleep(5)
        assert await world.bound() == {}
        await world.pod_group("group", None)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 2
    assert "GangIncomplete" not in str(await world.record(POD_GROUPS, "group"))


@on_virtual_time
async def test_a_job_that_has_ended_is_not_told_that_it_waits() -> None:
    world = SchedulerWorld()
    await world.node("a", 3)
    await world.gang("gang", 3)
    async with world.scheduling():
        await asyncio.sleep(5)
        for number in range(3):
            await world.phase(f"gang-{number}", "Failed")
        await world.end_job("gang", "Failed")
        await asyncio.sleep(5)
        for number in range(3):
            await world.delete_pod(f"gang-{number}")
        await asyncio.sleep(60)
    assert await world.record(JOBS, "gang") == {}


@on_virtual_time
async def test_the_priority_of_a_group_is_that_of_its_class_or_of_the_one_for_everybody() -> None:
    world = SchedulerWorld()
    await world.priority("everybody", 500, globalDefault=True)
    await world.priority("important", 1000)
    async with world.scheduling() as scheduler:
        await world.job("plain", 2, min_available="all")
        await world.job("important", 2, min_available="all", priority="important")
        await world.pod_group("group", 2)
        await asyncio.sleep(1)
        groups = scheduler.watched.snapshot().groups
        assert {key: entry.group.priority for key, entry in groups.items()} == {
            "default/group": 500,
            "default/job:important": 1000,
            "default/job:plain": 500,
        }
        await world.objects.delete(PRIORITY_CLASSES, "everybody")
        await asyncio.sleep(1)
        assert scheduler.watched.snapshot().groups["default/job:plain"].group.priority == 0
        assert scheduler.watched.snapshot().groups["default/group"].group.priority == 0


@on_virtual_time
async def test_the_default_queue_takes_in_everyone_without_a_queue_when_it_comes() -> None:
    world = SchedulerWorld()
    async with world.scheduling() as scheduler:
        await world.pod_group("group", 2)
        await world.job("gang", 2, min_available="all")
        plain = await world.job("plain", 2)
        await world.job_pods(plain, 1)
        await world.pod("bare")
        await asyncio.sleep(1)
        assert {entry.group.queue for entry in scheduler.watched.snapshot().groups.values()} == {""}
        await world.install()
        await asyncio.sleep(40)
        queues = {key: entry.group.queue for key, entry in scheduler.watched.snapshot().groups.items()}
        assert set(queues.values()) == {"default"}
        assert len(queues) == 4


@on_virtual_time
async def test_a_queue_that_makes_no_sense_holds_its_groups_says_why_and_ends_nothing_that_runs() -> None:
    world = SchedulerWorld()
    await world.install()
    await world.priority("low", 10)
    await world.queue("team")
    await world.node("a", 2)
    async with world.scheduling() as scheduler:
        await world.gang("running", 2, queue="team", priority="low")
        await asyncio.sleep(5)
        assert len(await world.bound()) == 2
        patch = {"metadata": {"annotations": {"allhands.dev/gang-by-default": "perhaps"}}}
        await world.objects.patch(QUEUES, "team", "merge", patch)
        await world.pod_group("waiting", 1, queue="team")
        await world.pod("member", schedulingGroup={"podGroupName": "waiting"})
        await asyncio.sleep(10)
        assert "perhaps" in await world.told("member")
        entry = scheduler.watched.snapshot().groups["default/job:running"]
        assert (entry.problem, entry.group.priority) == (None, 10)
        patch = {"metadata": {"annotations": {"allhands.dev/gang-by-default": "false"}}}
        await world.objects.patch(QUEUES, "team", "merge", patch)
        await world.node("b", 2)
        await asyncio.sleep(5)
        assert "member" in await world.bound()


# -- the world kept up to date is the world seen at once

_NAMES = st.sampled_from(["x", "y"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("job"), _NAMES, st.sampled_from(["", "all", "1", "nonsense"])),
        st.tuples(st.just("delete-job"), _NAMES, st.just("")),
        st.tuples(st.just("after"), _NAMES, _NAMES),
        st.tuples(st.just("end-job"), _NAMES, st.sampled_from(["Complete", "Failed"])),
        st.tuples(st.just("job-pod"), _NAMES, st.just("")),
        st.tuples(st.just("group"), _NAMES, st.sampled_from(["", "2"])),
        st.tuples(st.just("delete-group"), _NAMES, st.just("")),
        st.tuples(st.just("group-pod"), _NAMES, st.just("")),
        st.tuples(st.just("pod"), _NAMES, st.sampled_from(["", "team"])),
        st.tuples(st.just("delete-pods"), _NAMES, st.just("")),
        st.tuples(st.just("priority"), _NAMES, st.sampled_from(["", "default"])),
        st.tuples(st.just("queue"), st.sampled_from(["default", "team"]), st.sampled_from(["true", "false", "maybe"])),
        st.tuples(st.just("delete-queue"), st.sampled_from(["default", "team"]), st.just("")),
    ),
    max_size=16,
)


@settings(max_examples=examples(25), deadline=None)
@given(steps=_STEPS)
def test_a_world_that_was_kept_up_to_date_is_that_of_a_scheduler_that_begins_now(
    steps: list[tuple[str, str, str]],
) -> None:
    async def main() -> None:
        world = SchedulerWorld()
        await world.install()
        async with world.scheduling() as kept:
            for number, step in enumerate(steps):
                await _do(world, number, *step)
                await asyncio.sleep(1)
            await asyncio.sleep(5)
            async with world.scheduling() as fresh:
                await asyncio.sleep(0.001)
                assert canonical(kept.watched.snapshot()) == canonical(fresh.watched.snapshot())

    run_virtually(VirtualTimeLoop(), main())


async def _do(world: SchedulerWorld, number: int, what: str, name: str, how: str) -> None:
    with contextlib.suppress(StatusError):
        await _try(world, number, what, name, how)


async def _try(world: SchedulerWorld, number: int, what: str, name: str, how: str) -> None:
    objects = world.objects
    if what == "job":
        await world.job(name, 2, queue="team" if number % 3 == 0 else "", **({"min_available": how} if how else {}))
    elif what == "after":
        await objects.patch(JOBS, name, "merge", {"metadata": {"annotations": {"allhands.dev/after": how}}}, "default")
    elif what == "delete-job":
        await objects.delete(JOBS, name, "default", BACKGROUND)
    elif what == "end-job":
        await world.end_job(name, how)
    elif what == "job-pod":
        job = (await objects.get(JOBS, name, "default")).manifest()
        await world.job_pods(job, 1, first=number)
    elif what == "group":
        await world.pod_group(name, int(how) if how else None, queue="team" if number % 2 else "")
    elif what == "delete-group":
        await objects.delete(POD_GROUPS, name, "default")
    elif what == "group-pod":
        await world.pod(f"pod-{number}", schedulingGroup={"podGroupName": name})
    elif what == "pod":
        await world.pod(f"pod-{number}", annotations={"allhands.dev/queue": how} if how else {})
    elif what == "delete-pods":
        for pod in await world.pods():
            await objects.delete(PODS, pod["metadata"]["name"], "default")
    elif what == "priority":
        await world.priority(f"class-{number}", 100 + number, **({"globalDefault": True} if how else {}))
    elif what == "queue":
        patch = {"metadata": {"annotations": {"allhands.dev/gang-by-default": how}}}
        try:
            await world.queue(name)
        finally:
            await objects.patch(QUEUES, name, "merge", patch)
    elif what == "delete-queue":
        await objects.delete(QUEUES, name)


@pytest.mark.parametrize("is_native", [False, True], ids=["of the Job", "of a PodGroup"])
@pytest.mark.parametrize("is_counted_first", [False, True], ids=["gone, then counted", "counted, then gone"])
def test_members_that_have_succeeded_and_are_gone_are_not_waited_for(is_native: bool, is_counted_first: bool) -> None:
    @on_virtual_time
    async def main() -> None:
        world = SchedulerWorld()
        await world.node("a", 3)
        if is_native:
            await world.pod_group("group", 3)
        job = await world.job("ring", 3, **({} if is_native else {"min_available": "all"}))
        more = _GROUP if is_native else {}
        await world.job_pods(job, 3, **more)
        async with world.scheduling():
            await asyncio.sleep(5)
            assert len(await world.bound()) == 3
            await world.phase("ring-0", "Succeeded")
            for name in ("ring-1", "ring-2"):
                await world.delete_pod(name)
            await world.job_pods(job, 1, first=4, **more)
            await asyncio.sleep(5)
            assert "ring-4" not in await world.bound(), "one is missing yet"
            counted = {"status": {"succeeded": 1, "startTime": world.store.now()}}
            for step in (True, False):
                if step == is_counted_first:
                    await world.objects.patch(JOBS, "ring", "merge", counted, "default", subresource="status")
                else:
                    await world.delete_pod("ring-0")
                await asyncio.sleep(5)
                assert await world.bound() in ({}, {"ring-0": "a"}), "one is missing still"
            await world.job_pods(job, 1, first=5, **more)
            await asyncio.sleep(5)
            assert sorted(await world.bound()) == ["ring-4", "ring-5"]

    main()
