"""Waiting, over whole simulated days: nobody starves behind a stream of small jobs, and expected starts come true.

Virtual time (`tests/core_simulator.py`), real durations that the core does not know, an endless stream of small jobs.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.facts import Facts
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Backfill
from allhands.model.queue import Queue
from tests.core_laws import violations
from tests.core_simulator import Job, Simulator, job, node
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.plan import Plan
    from allhands.core.policy import Policy
    from allhands.core.snapshot import Snapshot

LONGEST = 120
"""No job runs longer: so long it takes until all that runs at a moment has ended."""
COMES_AT = 200
LATEST = 1500
POLICY = msgspec.structs.replace(DEFAULT, preempts=False, drain_after_seconds=LONGEST, max_reservations=1)


def stream(chance: random.Random, until: int, gap: int, says: float | None) -> list[Job]:
    """Small jobs without end. Each says `says` times as long as it takes, or nothing."""
    jobs: list[Job] = []
    time = 0
    while time < until:
        time += chance.randrange(1, gap)
        seconds = chance.randrange(10, LONGEST + 1)
        estimate = None if says is None else max(1, int(seconds * says))
        cpu = chance.choice((1000, 2000))
        jobs.append(job(f"s{len(jobs):04d}", seconds=seconds, estimate=estimate, created=time, cpu=cpu))
    return jobs


def wait_of_a_big_one(seed: int, says: float | None, policy: Policy = POLICY, gap: int = 80) -> int:
    """How long a gang for the whole cluster waits, from when nobody who came before it waits any more."""
    chance = random.Random(seed)
    size = chance.randint(2, 4)
    cluster = [node(f"n{number}", cpu=4000) for number in range(size)]
    simulator = Simulator(cluster, Facts(accounts=(Queue("q"),)), policy=policy, check=keeps_the_laws)
    estimate = None if says is None else 50
    big = job("big", size, seconds=50, estimate=estimate, created=COMES_AT, cpu=4000)
    jobs = stream(chance, LATEST, gap // size, says)
    simulator.submit(big, *jobs)
    for time in range(COMES_AT, LATEST, 50):
        if big.group.key in simulator.run(time).started:
            break
    before = [it.group.key for it in jobs if it.group.created_at_seconds < COMES_AT]
    first = max([COMES_AT, *(simulator.started[key] for key in before)])
    return simulator.started.get(big.group.key, 1 << 40) - first


def keeps_the_laws(snapshot: Snapshot, plan: Plan, now: int) -> None:
    if now % 16 == 0:
        assert violations(snapshot, plan) == []


@settings(max_examples=examples(6))
@example(0)
@given(st.integers(0, 1 << 32))
def test_with_limits_a_big_group_starts_once_all_that_runs_has_ended(seed: int) -> None:
    assert wait_of_a_big_one(seed, says=1.0) <= LONGEST


@settings(max_examples=examples(6))
@given(st.integers(0, 1 << 32), st.floats(1.0, 3.0))
def test_with_generous_limits_it_starts_within_twice_the_drain_time(seed: int, says: float) -> None:
    assert wait_of_a_big_one(seed, says=says) <= 2 * LONGEST


@settings(max_examples=examples(6))
@given(st.integers(0, 1 << 32))
def test_without_any_limits_it_starts_within_the_set_wait_and_the_drain_time(seed: int) -> None:
    assert wait_of_a_big_one(seed, says=None) <= 2 * LONGEST


@settings(max_examples=examples(6))
@given(st.integers(0, 1 << 32), st.sampled_from((2, 3, 5)))
def test_estimates_that_are_too_short_by_a_factor_cost_at_most_twice_as_many_set_waits(seed: int, factor: int) -> None:
    assert wait_of_a_big_one(seed, says=1 / factor) <= (2 * factor + 2) * LONGEST


def test_without_promises_the_same_group_starves() -> None:
    """What the laws above are worth: whoever fits passes, and the big one waits as long as small ones come."""
    policy = msgspec.structs.replace(POLICY, backfill=Backfill.OFF)
    assert wait_of_a_big_one(1, says=1.0, policy=policy, gap=40) > 4 * LONGEST
    assert wait_of_a_big_one(1, says=1.0, gap=40) <= LONGEST


@pytest.mark.parametrize("says", [1.0, 1.5], ids=["exact limits", "limits half as long again"])
@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE], ids=lambda it: it.name.lower())
def test_expected_starts_come_true(
    backfill: Backfill, says: float, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first time that each group was told, against when it started: with exact limits, half of them are wrong by
    less than a fifth of their wait. Limits that are too long make starts come sooner than expected."""
    errors: list[int] = []
    parts: list[float] = []
    policy = msgspec.structs.replace(DEFAULT, preempts=False, backfill=backfill, max_reservations=16)
    for seed in range(examples(1, 20)):
        chance = random.Random(seed)
        cluster = [node(f"n{number}", cpu=8000) for number in range(4)]
        simulator = Simulator(cluster, Facts(accounts=(Queue("q"),)), policy=policy)
        jobs = stream(chance, 400, 8, says)
        gangs = [
            job(f"g{number}", 4, seconds=60, estimate=int(60 * says), created=50 + 100 * number, cpu=6000)
            for number in range(3)
        ]
        simulator.submit(*jobs, *gangs).run(10_000)
        assert len(simulator.ended) == len(jobs) + len(gangs)
        errors += simulator.errors()
        for key, told in simulator.told.items():
            if told[0].start is not None:
                parts.append(abs(simulator.started[key] - told[0].start) / max(1, simulator.started[key] - told[0].at))
    errors.sort()
    parts.sort()
    median, ninety = errors[len(errors) // 2], errors[len(errors) * 9 // 10]
    record_property("median_error_seconds", median)
    record_property("p90_error_seconds", ninety)
    with capsys.disabled():
        print(  # noqa: T201
            f"\nexpected starts, {backfill.value}, limits {says} times the duration: {len(errors)} groups, "
            f"wrong by {median} s (median), {ninety} s (p90); by {parts[len(parts) // 2]:.0%} of the wait (median)"
        )
    assert parts[len(parts) // 2] <= (0.2 if says == 1.0 else 2.0)


@settings(max_examples=examples(4))
@given(st.integers(0, 1 << 32))
def test_a_memo_never_changes_what_a_simulation_decides(seed: int) -> None:
    chance = random.Random(seed)

    def same_without(snapshot: Snapshot, plan: Plan, now: int) -> None:
        assert plan == cycle(snapshot, POLICY, Memo(), now)[0]

    cluster = [node(f"n{number}", cpu=4000) for number in range(2)]
    simulator = Simulator(cluster, Facts(accounts=(Queue("q"),)), policy=POLICY, check=same_without)
    simulator.submit(*stream(chance, 200, 20, chance.choice((None, 1.0, 0.5)))).run(400)
    assert simulator.started
