"""Starts are whole or refused whole, are looked at once more before the first bind, and never asked for in a loop."""

from __future__ import annotations

import asyncio
import collections

import pytest

from allhands.core.policy import DEFAULT
from tests.manifests import JOBS, NODES
from tests.scheduler_world import QUEUES, SchedulerWorld
from tests.virtual import Request, lost, on_virtual_time, refused, running


async def _two_gangs(world: SchedulerWorld) -> None:
    """Two gangs of two that both fit. Every bind takes a second, so the second one waits for the first."""
    world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
    await world.node("a", 2, zone="old")
    await world.node("b", 2, zone="old")
    await world.gang("first", 2)
    await world.gang("second", 2)


def _node_of(bound: dict[str, str], gang: str) -> str:
    nodes = {node for pod, node in bound.items() if pod.startswith(gang)}
    assert len(nodes) == 1
    return nodes.pop()


@on_virtual_time
async def test_a_gang_whose_node_was_tainted_meanwhile_is_refused_whole_and_placed_anew() -> None:
    world = SchedulerWorld()
    await _two_gangs(world)
    async with world.scheduling() as scheduler:
        await asyncio.sleep(0.5)
        free = {"a": "b", "b": "a"}[_node_of(await world.bound(), "first")]
        await world.taint(free)
        await asyncio.sleep(30)
        assert sorted(await world.bound()) == ["first-0", "first-1"]
        assert scheduler.executor.refused == 1
        await world.node("c", 2)
        await asyncio.sleep(30)
        assert _node_of(await world.bound(), "second") == "c"


@on_virtual_time
async def test_a_gang_whose_room_another_scheduler_took_meanwhile_is_refused_whole() -> None:
    world = SchedulerWorld()
    await _two_gangs(world)
    async with world.scheduling() as scheduler:
        await asyncio.sleep(0.5)
        free = {"a": "b", "b": "a"}[_node_of(await world.bound(), "first")]
        await world.pod("rival", schedulerName="rival", nodeName=free)
        await asyncio.sleep(30)
        assert sorted(await world.bound()) == ["first-0", "first-1", "rival"]
        assert scheduler.executor.refused == 1
        await world.delete_pod("rival")
        await asyncio.sleep(30)
        assert len(await world.bound()) == 4


@on_virtual_time
async def test_a_gang_whose_node_is_gone_or_relabelled_meanwhile_is_refused_whole() -> None:
    for change in ("delete", "relabel"):
        world = SchedulerWorld()
        world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
        await world.node("a", 4, zone="here")
        await world.gang("first", 2)
        job = await world.job("second", 2, min_available="all")
        await world.job_pods(job, 2, nodeSelector={"zone": "here"})
        async with world.scheduling():
            await asyncio.sleep(0.5)
            if change == "delete":
                await world.objects.delete(NODES, "a")
            else:
                await world.objects.patch(NODES, "a", "merge", {"metadata": {"labels": {"zone": "there"}}})
            await asyncio.sleep(30)
            # Of a gang that is being bound, nobody is sent after the others to a node that is no more.
            assert sorted(await world.bound()) == (["first-0"] if change == "delete" else ["first-0", "first-1"])


@on_virtual_time
async def test_a_pod_that_asks_for_nothing_of_an_overdrawn_resource_is_bound() -> None:
    """Others have put more on the node than it has; kube-scheduler does not look at what a pod asks nothing of."""
    world = SchedulerWorld()
    await world.node("a", 2)
    await world.pod("rival", "3", schedulerName="rival", nodeName="a")
    await world.pod("frugal", "0")
    await world.pod("greedy", "1m")
    async with world.scheduling() as scheduler:
        await asyncio.sleep(30)
        assert sorted(await world.bound()) == ["frugal", "rival"]
        assert scheduler.executor.refused == 0


@on_virtual_time
async def test_the_rest_of_a_gang_is_not_bound_into_room_that_another_scheduler_has_taken() -> None:
    world = SchedulerWorld()
    world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
    await world.node("a", 4)
    await world.gang("gang", 4)
    async with world.scheduling() as scheduler:
        await asyncio.sleep(1.5)
        await world.pod("rival", schedulerName="rival", nodeName="a")
        await asyncio.sleep(0.1)
        before = len(world.noted.of("bind"))
        await asyncio.sleep(30)
        assert before == 2
        assert [it.name for it in world.noted.of("bind")] == ["gang-0", "gang-1", "gang-3"], "one has no room left"
        assert scheduler.executor.refused == 0
        assert await world.leaving() == ["gang-0", "gang-1", "gang-3"], "it cannot be completed, and is taken back"


@on_virtual_time
async def test_never_more_binds_are_under_way_than_there_may_be() -> None:
    world = SchedulerWorld(8)
    open_binds = most = 0

    def bind_seconds(request: Request) -> float:
        nonlocal open_binds, most
        if request.verb != "bind":
            return 0.0
        open_binds += 1
        most = max(most, open_binds)

        def end() -> None:
            nonlocal open_binds
            open_binds -= 1

        asyncio.get_running_loop().call_later(1.0, end)
        return 1.0

    world.noted.take_seconds = bind_seconds
    await world.node("a", 64)
    for name, size in (("large", 20), ("small", 3), ("one", 1), ("other", 5)):
        await world.gang(name, size, "0.5")
    async with world.scheduling():
        await asyncio.sleep(60)
        assert len(await world.bound()) == 29
    assert most == 8
    ended_at = max(it.at_seconds for it in world.noted.of("bind"))
    assert ended_at < 5, "they are always so many, from the first to the last"


@on_virtual_time
async def test_a_gang_that_is_suspended_or_whose_queue_is_closed_meanwhile_does_not_start() -> None:
    for change in ("suspend", "close", "end", "more"):
        world = SchedulerWorld()
        await world.install()
        await world.queue("team")
        world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
        await world.node("a", 6)
        await world.gang("first", 2)
        await world.gang("second", 2, queue="team")
        async with world.scheduling():
            await asyncio.sleep(0.5)
            if change == "suspend":
                await world.objects.patch(JOBS, "second", "merge", {"spec": {"suspend": True}}, "default")
            elif change == "close":
                status = {"status": {"state": "Closed", "allocated": {}}}
                await world.objects.patch(QUEUES, "team", "merge", status, subresource="status")
            elif change == "end":
                await world.end_job("second", "Failed")
            else:
                await world.objects.patch(JOBS, "second", "merge", {"spec": {"parallelism": 3}}, "default")
                patch = {"metadata": {"annotations": {"allhands.dev/min-available": "2"}}}
                await world.objects.patch(JOBS, "second", "merge", patch, "default")
            await asyncio.sleep(30)
            expected = ["first-0", "first-1", "second-0", "second-1"] if change == "more" else ["first-0", "first-1"]
            assert sorted(await world.bound()) == expected, change


@pytest.mark.parametrize("flight", [1, 16])
def test_binds_whose_answers_are_lost_are_read_back_and_every_pod_is_bound_once(flight: int) -> None:
    @on_virtual_time
    async def main() -> None:
        world = SchedulerWorld(flight)
        await world.node("a", 8)
        await world.gang("gang", 6)
        world.noted.lose = lambda it: lost() if it.verb == "bind" else None
        async with world.scheduling():
            await asyncio.sleep(10)
            assert len(await world.bound()) == 6
        assert len(world.noted.of("bind")) == 6
        assert len(world.noted.of("get", "pods")) == 6

    main()


@on_virtual_time
async def test_room_of_a_bind_that_nobody_knows_the_result_of_is_not_given_to_others() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    silent = {"yes": True}
    world.noted.refuse = lambda it: lost() if silent["yes"] and it.verb in ("bind", "get") else None
    async with world.scheduling() as scheduler:
        await world.gang("gang", 2)
        await asyncio.sleep(0.2)
        await world.gang("other", 2)
        await asyncio.sleep(60)
        assert {it.name for it in world.noted.of("bind")} == {"gang-0"}
        columns = scheduler.watched.snapshot().columns
        assert columns.used[columns.column_by_resource["cpu"], 0] == 2000
        silent["yes"] = False
        await asyncio.sleep(60)
        assert sorted(await world.bound()) == ["gang-0", "gang-1"]


@on_virtual_time
async def test_a_bind_that_can_be_neither_heard_of_nor_read_back_is_learned_from_the_watch() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    world.noted.lose = lambda it: lost() if it.verb in ("bind", "get") else None
    async with world.scheduling():
        await world.gang("gang", 2)
        await asyncio.sleep(60)
        assert sorted(await world.bound()) == ["gang-0", "gang-1"]
        assert len(world.noted.of("bind")) == 2


@pytest.mark.parametrize("code", [403, 409, 500, 404])
def test_a_bind_that_is_always_refused_is_asked_for_ever_more_seldom_and_delays_nobody(code: int) -> None:
    @on_virtual_time
    async def main() -> None:
        world = SchedulerWorld()
        await world.node("a", 8)
        await world.gang("bad", 2)
        await world.gang("good", 2)
        world.noted.refuse = lambda it: refused(code) if it.verb == "bind" and it.name.startswith("bad") else None
        async with world.scheduling() as scheduler:
            await asyncio.sleep(30)
            assert sorted(await world.bound()) == ["good-0", "good-1"]
            before, cycles = len(world.noted.requests), scheduler.cycles
            await asyncio.sleep(600)
            assert len(world.noted.requests) - before <= 20 * 2 * 2 * 5 + 120
            assert scheduler.cycles - cycles <= 200
        per_pod = collections.Counter(it.name for it in world.noted.of("bind"))
        assert per_pod["good-0"] == 1

    main()


@on_virtual_time
async def test_a_pod_that_is_deleted_while_its_gang_is_bound_is_made_good_for_when_it_comes_again() -> None:
    world = SchedulerWorld()
    world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
    await world.node("a", 4)
    job = await world.gang("gang", 3)
    async with world.scheduling():
        await asyncio.sleep(0.5)
        await world.delete_pod("gang-2")
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["gang-0", "gang-1"]
        await world.job_pods(job, 1, first=3)
        await asyncio.sleep(10)
        assert sorted(await world.bound()) == ["gang-0", "gang-1", "gang-3"]


@on_virtual_time
async def test_pods_that_never_begin_to_run_are_taken_back_and_the_failure_is_written_down() -> None:
    world = SchedulerWorld()
    await world.node("a", 4)
    await world.node("b", 4)
    await world.gang("gang", 2)
    timeout = DEFAULT.start_timeout_seconds
    async with world.scheduling():
        await asyncio.sleep(timeout - 5)
        assert await world.record(JOBS, "gang") == {}
        node = _node_of(await world.bound(), "gang")
        await asyncio.sleep(10)
        assert sorted(await world.leaving()) == ["gang-0", "gang-1"]
        record = await world.record(JOBS, "gang")
        assert record["failed_starts"] == 1
        assert record["avoid_nodes"] == [node]
        evictions = len(world.noted.of("evict"))
        await asyncio.sleep(600)
        assert len(world.noted.of("evict")) == evictions == 2
        assert (await world.record(JOBS, "gang"))["failed_starts"] == 1


@on_virtual_time
async def test_a_crash_in_the_middle_of_a_gang_is_mended_by_the_next_leader() -> None:
    world = SchedulerWorld()
    world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
    await world.node("a", 3)
    await world.gang("gang", 3)
    async with world.scheduling():
        await asyncio.sleep(1.5)
    assert len(await world.bound()) == 2
    await world.gang("rival", 1, priority="system-cluster-critical")
    async with world.scheduling():
        await asyncio.sleep(10)
        assert sorted(await world.bound()) == ["gang-0", "gang-1", "gang-2"], "nobody overtakes what has begun"


@on_virtual_time
async def test_many_starts_go_side_by_side_and_few_gangs_are_open_at_a_time() -> None:
    world = SchedulerWorld(flight=4)
    world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
    await world.node("a", 20)
    for number in range(4):
        await world.gang(f"gang-{number}", 3)
    async with world.scheduling():
        await asyncio.sleep(20)
        assert len(await world.bound()) == 12
    sent = [it.name.rpartition("-")[0] for it in world.noted.of("bind")]
    moments = collections.Counter(round(it.at_seconds) for it in world.noted.of("bind"))
    assert moments == {0: 4, 1: 4, 2: 4}
    assert sent == sorted(sent), "one after the other: at most two of them are open at any time"


@on_virtual_time
async def test_a_node_that_dies_under_a_gang_that_has_begun_leads_to_a_gang_elsewhere() -> None:
    world = SchedulerWorld()
    world.noted.take_seconds = lambda it: 1.0 if it.verb == "bind" else 0.0
    await world.node("a", 3)
    job = await world.gang("gang", 3)
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(0.5)
        world.noted.refuse = lambda it: refused(403) if it.verb == "bind" and it.at_seconds < 20 else None
        await asyncio.sleep(1)
        await world.taint("a")
        await world.node("b", 3)
        await asyncio.sleep(120)
        missing = 3 - len([it for it in await world.pods() if not it["metadata"].get("deletionTimestamp")])
        await world.job_pods(job, missing, first=10)
        await asyncio.sleep(120)
        bound = await world.bound()
        assert len(bound) == 3
