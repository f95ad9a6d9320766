"""Past use and past runs: counted while things happen, durable in a ConfigMap, and never in the way of scheduling."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.facts import NO_FACTS, PastRuns
from allhands.core.policy import DEFAULT
from allhands.core.quota.usage import UsageKey, decode, fold_all
from allhands.model.queue import Queue, QueueOrder, ShareBy
from allhands.runtime.recorder import EVENTS
from allhands.runtime.scheduling.past_usage import compares_past_use
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.depth import examples
from tests.manifests import CONFIG_MAPS, NAMESPACES
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.core.quota.usage import UsageLedger
    from allhands.runtime.scheduling.scheduler import Scheduler

SPACE, NAME = "allhands-system", "usage-ledger"


async def two_queues() -> SchedulerWorld:
    """A cluster of 8 cores and two queues beside the default one."""
    world = SchedulerWorld()
    await world.install()
    await world.queue("blue")
    await world.queue("green")
    await world.node("a", 8)
    return world


async def data_of(world: SchedulerWorld) -> Manifest:
    return (await world.objects.get(CONFIG_MAPS, NAME, SPACE)).manifest()["data"]  # type: ignore[no-any-return]


async def ledger_of(world: SchedulerWorld) -> UsageLedger:
    return decode((await data_of(world))["usage"].encode())


def used(scheduler: Scheduler, queue: str) -> int:
    entry = scheduler.watched.facts.ledger.entry(UsageKey(queue))
    return 0 if entry is None else entry.amount


async def run_for(world: SchedulerWorld, job: str, size: int, seconds: float, queue: str = "") -> None:
    """A gang that ends well."""
    await world.gang(job, size, queue=queue)
    await asyncio.sleep(1)
    for number in range(size):
        await world.phase(f"{job}-{number}", "Running")
    await asyncio.sleep(seconds)
    for number in range(size):
        await world.phase(f"{job}-{number}", "Succeeded")
    await world.end_job(job, "Complete")


@on_virtual_time
async def test_what_a_queue_used_is_written_every_half_minute_and_at_the_end() -> None:
    world = await two_queues()
    async with world.scheduling():
        await run_for(world, "job", 4, 20, "blue")
        await asyncio.sleep(20)
        ledger = await ledger_of(world)
        blue = ledger.entry(UsageKey("blue"))
        assert blue is not None
        assert blue.amount > 0
        moments = sorted({it.at_seconds for it in world.noted.writes if it.kind == "configmaps"})
        assert all(later - earlier >= 30 for earlier, later in itertools.pairwise(moments))
        await world.gang("late", 4, queue="green")
        await asyncio.sleep(10)
    green = (await ledger_of(world)).entry(UsageKey("green"))
    assert green is not None
    assert green.amount > 0, "what was not written yet was written at the end"


@on_virtual_time
async def test_what_was_used_is_the_part_of_the_cluster_times_how_long() -> None:
    world = await two_queues()
    async with world.scheduling():
        await run_for(world, "job", 4, 99, "blue")
        await asyncio.sleep(40)
        begin = int(world.clock.now().timestamp()) - 140
    blue = (await ledger_of(world)).entry(UsageKey("blue"))
    assert blue is not None
    half = fold_all(decode(b'{"entries":[]}'), {UsageKey("blue"): 0}, begin, DEFAULT.half_life_seconds)
    expected = fold_all(half, {UsageKey("blue"): 500_000}, begin + 100, DEFAULT.half_life_seconds).entries[0].amount
    assert blue.amount == pytest.approx(expected, rel=0.03), "half of the cores for a hundred seconds"


@on_virtual_time
async def test_a_restart_goes_on_from_the_ledger_and_counts_what_ran_meanwhile() -> None:
    world = await two_queues()
    async with world.scheduling():
        await world.gang("job", 4, queue="blue")
        await asyncio.sleep(100)
    before = (await ledger_of(world)).entry(UsageKey("blue"))
    assert before is not None
    await asyncio.sleep(100)
    async with world.scheduling() as scheduler:
        await asyncio.sleep(1)
        assert used(scheduler, "blue") == before.amount, "decisions begin with what was known"
        await world.gang("other", 1, queue="green")
        await asyncio.sleep(40)
        await world.gang("another", 1, queue="green")
        await asyncio.sleep(40)
        assert used(scheduler, "blue") == pytest.approx(2.6 * before.amount, rel=0.1)


@on_virtual_time
async def test_who_used_more_before_comes_second() -> None:
    world = await two_queues()
    async with world.scheduling():
        await run_for(world, "past", 8, 300, "blue")
        await asyncio.sleep(31)
        await world.gang("filler", 8)
        await asyncio.sleep(2)
        await world.gang("blue", 8, queue="blue")
        await world.gang("green", 8, queue="green")
        await asyncio.sleep(5)
        for number in range(8):
            await world.phase(f"filler-{number}", "Succeeded")
        await asyncio.sleep(5)
        started = {name.partition("-")[0] for name in await world.bound()}
        assert "green" in started
        assert "blue" not in started, "by name and by age it would have been first"


@on_virtual_time
async def test_where_nobody_compares_past_use_none_is_kept() -> None:
    world = SchedulerWorld()
    await world.install()
    await world.node("a", 8)
    async with world.scheduling() as scheduler:
        await world.gang("job", 4)
        await asyncio.sleep(100)
        assert scheduler.watched.facts.ledger.entries == ()
    assert [it for it in world.noted.writes if it.kind == "configmaps"] == []


@pytest.mark.parametrize(
    ("queues", "half_life", "compared"),
    [
        ((), 60, False),
        ((Queue("a"),), 60, False),
        ((Queue("root"), Queue("a", parent="root")), 60, False),
        ((Queue("a"), Queue("b")), 60, True),
        ((Queue("a"), Queue("b")), 0, False),
        ((Queue("a", share_by=ShareBy.USER),), 60, True),
        ((Queue("a", order=QueueOrder.FAIR),), 60, True),
    ],
)
def test_past_use_is_compared_between_queues_and_between_tenants(
    queues: tuple[Queue, ...], half_life: int, compared: bool
) -> None:
    facts = msgspec.structs.replace(NO_FACTS, accounts=queues)
    assert compares_past_use(msgspec.structs.replace(DEFAULT, half_life_seconds=half_life), facts) is compared


@on_virtual_time
async def test_the_median_of_runs_that_ended_well_is_known_and_survives_a_restart() -> None:
    world = await two_queues()
    async with world.scheduling() as scheduler:
        for number, seconds in enumerate((10, 50, 30)):
            await run_for(world, f"job-{number}", 2, seconds, "blue")
            await asyncio.sleep(2)
        await world.gang("failed", 1, queue="blue")
        await asyncio.sleep(2)
        await world.phase("failed-0", "Failed")
        await world.end_job("failed", "Failed")
        await world.gang("deleted", 1, queue="blue")
        await asyncio.sleep(2)
        await world.delete_pod("deleted-0")
        await asyncio.sleep(31)
        known = scheduler.watched.facts.past_runs
    assert known == {"blue": PastRuns(31, 3)}, "from the bind to the end"
    async with world.scheduling() as scheduler:
        await asyncio.sleep(1)
        assert scheduler.watched.facts.past_runs == known


@on_virtual_time
async def test_pods_of_their_own_count_too_and_runs_of_queues_that_are_gone_are_forgotten() -> None:
    world = await two_queues()
    async with world.scheduling() as scheduler:
        await world.pod("alone", annotations={"allhands.dev/queue": "green"})
        await asyncio.sleep(21)
        await world.phase("alone", "Succeeded")
        await asyncio.sleep(31)
        assert list(scheduler.watched.facts.past_runs) == ["green"]
        data = await data_of(world)
        assert msgspec.json.decode(data["runs"]) == {"green": [21]}


@pytest.mark.parametrize(
    "data",
    [
        {"usage": "garbage"},
        {"usage": '{"entries":[[["blue","None",""],-4,0]]}'},
        {"usage": '{"entries":[[["b","None",""],1,0],[["a","None",""],1,0]]}'},
        {"usage": '{"entries":[[["blue","None",""],1e400,0]]}'},
        {"runs": '{"blue":[-1]}'},
        {"runs": '{"blue":["long"]}'},
        {"runs": "[]", "usage": "[]"},
        {"usage": "[" * 5_000},
    ],
)
@on_virtual_time
async def test_garbage_is_told_and_kept_aside_and_everything_goes_on(data: dict[str, str]) -> None:
    world = await two_queues()
    await world.objects.create(NAMESPACES, {"metadata": {"name": SPACE}})
    await world.objects.create(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": data}, SPACE)
    async with world.scheduling():
        await run_for(world, "job", 2, 40, "blue")
        await asyncio.sleep(40)
        assert "job-0" in await world.bound()
    after = await data_of(world)
    assert decode(after["usage"].encode()).entry(UsageKey("blue")) is not None
    for text in data.values():
        assert text[:1_000] in after["unreadable"]
    page = await world.objects.list(EVENTS)
    events = [it for it in map(msgspec.json.decode, page.items) if it["reason"] == "HistoryUnreadable"]
    assert len(events) == 1
    assert events[0]["involvedObject"]["name"] == NAME
    assert f"data.{next(iter(data))}: not a" in events[0]["message"] or len(data) > 1


@settings(max_examples=examples(20))
@given(st.dictionaries(st.sampled_from(["usage", "runs", "unreadable", "other"]), st.text(max_size=30)))
def test_any_text_is_survived(data: dict[str, str]) -> None:
    async def main() -> None:
        world = await two_queues()
        await world.objects.create(NAMESPACES, {"metadata": {"name": SPACE}})
        await world.objects.create(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": data}, SPACE)
        async with world.scheduling():
            await world.gang("job", 2, queue="blue")
            await asyncio.sleep(3)
            assert len(await world.bound()) == 2

    run_virtually(VirtualTimeLoop(), main())


@on_virtual_time
async def test_times_that_are_yet_to_come_do_not_stop_the_count() -> None:
    world = await two_queues()
    await world.objects.create(NAMESPACES, {"metadata": {"name": SPACE}})
    usage = f'{{"entries":[[["blue","None",""],1000,{1 << 60}]]}}'
    await world.objects.create(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": {"usage": usage}}, SPACE)
    async with world.scheduling():
        await run_for(world, "job", 2, 40, "blue")
        await asyncio.sleep(5)
    blue = (await ledger_of(world)).entry(UsageKey("blue"))
    assert blue is not None
    assert blue.amount > 1_000


@on_virtual_time
async def test_a_history_that_cannot_be_read_yet_delays_nobody_and_is_not_written_over() -> None:
    world = await two_queues()
    async with world.scheduling():
        await run_for(world, "past", 8, 100, "blue")
        await asyncio.sleep(31)
    before = (await ledger_of(world)).entry(UsageKey("blue"))
    assert before is not None
    world.noted.refuse = lambda it: refused(500) if it.kind == "configmaps" else None
    async with world.scheduling() as scheduler:
        await world.gang("next", 2, queue="green")
        await asyncio.sleep(3)
        assert "next-0" in await world.bound()
        await asyncio.sleep(60)
        assert used(scheduler, "blue") == 0
        world.noted.refuse = lambda _: None
        await asyncio.sleep(60)
        assert used(scheduler, "blue") > 0
    after = (await ledger_of(world)).entry(UsageKey("blue"))
    assert after is not None
    assert after.amount == pytest.approx(before.amount, rel=0.01), "it fades slowly, and nobody lost it"


@on_virtual_time
async def test_a_write_that_fails_or_meets_another_is_tried_again() -> None:
    world = await two_queues()
    async with world.scheduling():
        await run_for(world, "job", 4, 20, "blue")
        world.noted.refuse = lambda it: refused(500) if it.kind == "configmaps" and it.verb != "get" else None
        await asyncio.sleep(40)
        world.noted.refuse = lambda _: None
        await asyncio.sleep(40)
        await data_of(world)
        patch = {"data": {"usage": "somebody was here"}}
        await world.objects.patch(CONFIG_MAPS, NAME, "merge", patch, SPACE)
        await run_for(world, "more", 4, 20, "blue")
        await asyncio.sleep(40)
        assert (await ledger_of(world)).entry(UsageKey("blue")) is not None
        await world.objects.delete(CONFIG_MAPS, NAME, SPACE)
        await run_for(world, "last", 4, 20, "blue")
        await asyncio.sleep(40)
        assert (await ledger_of(world)).entry(UsageKey("blue")) is not None


@on_virtual_time
async def test_an_idle_scheduler_writes_nothing() -> None:
    world = await two_queues()
    async with world.scheduling():
        await world.gang("job", 4, queue="blue")
        await asyncio.sleep(1)
        for number in range(4):
            await world.phase(f"job-{number}", "Running")
        await asyncio.sleep(100)
        before = len(world.noted.requests)
        await asyncio.sleep(3_000)
        idle = [it for it in world.noted.requests[before:] if it.verb not in ("watch", "list")]
        assert idle == []
