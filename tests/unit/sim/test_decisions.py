"""The decision-only simulator lets time pass and carries out what the core decides; it decides nothing itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.sim.bounds import makespan_bound_seconds, mean_completion_bound_seconds
from allhands.sim.decisions import DecisionSimulator
from allhands.sim.disciplines import Discipline, discipline, names
from allhands.sim.machine import GPU, Machine
from allhands.sim.metrics import summarise
from allhands.sim.traces.job import TraceJob
from allhands.sim.traces.samples import sample_jobs
from tests.core_laws import violations
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.sim.history import History


def job(name: str, submit: int, run: int, width: int, requested: int | None = None) -> TraceJob:
    return TraceJob(name, submit, run, width, requested)


def simulated(policy: str, jobs: list[TraceJob], machine: Machine | None = None) -> History:
    return DecisionSimulator(machine or Machine(10), discipline(policy)).run(jobs)


def starts(history: History) -> dict[str, float]:
    return {it.job.name: it.start_seconds for it in history.ran}


BIG_WAITS = [job("running", 0, 100, 6), job("big", 1, 50, 10), job("short", 2, 90, 4), job("long", 3, 500, 4)]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ("fcfs-strict", {"running": 0, "big": 100, "short": 150, "long": 150}),
        ("fcfs-easy", {"running": 0, "big": 100, "short": 2, "long": 150}),
        ("fcfs-greedy", {"running": 0, "big": 592, "short": 2, "long": 92}),
        ("fcfs-commit", {"running": 0, "big": 100, "short": 150, "long": 150}),
        ("fcfs-commit-backfill", {"running": 0, "big": 100, "short": 2, "long": 150}),
        ("saf-easy", {"running": 0, "big": 100, "short": 2, "long": 150}),
    ],
)
def test_who_may_pass_the_big_job_depends_on_the_policy_alone(policy: str, want: dict[str, int]) -> None:
    assert starts(simulated(policy, BIG_WAITS)) == want


@pytest.mark.parametrize(
    ("order", "want"),
    [
        ("fcfs", ["a", "b", "c"]),
        ("sjf", ["c", "b", "a"]),
        ("saf", ["b", "c", "a"]),
        ("wfp3", ["c", "a", "b"]),
        ("unicep", ["b", "c", "a"]),
    ],
)
def test_orders_choose_who_goes_first(order: str, want: list[str]) -> None:
    waiting = [job("a", 1, 60, 10), job("b", 2, 50, 1), job("c", 3, 40, 10)]
    blocked = [job("first", 0, 100, 10), *waiting, job("filler", 90, 1000, 10)]
    began = starts(simulated(f"{order}-strict", blocked))
    assert sorted("abc", key=began.__getitem__) == want


def test_a_committed_first_is_not_passed_by_a_shorter_one_that_comes_later() -> None:
    jobs = [job("running", 0, 100, 6), job("first", 1, 50, 8), job("shorter", 2, 10, 8)]
    assert starts(simulated("sjf-commit", jobs))["shorter"] == 150
    assert starts(simulated("sjf-strict", jobs))["shorter"] == 100


def test_who_passes_a_committed_first_must_end_before_the_promise_and_not_at_it() -> None:
    jobs = [job("running", 0, 100, 6), job("first", 1, 50, 8), job("before", 2, 97, 4), job("at", 3, 97, 4)]
    began = starts(simulated("fcfs-commit-backfill", [*jobs[:2], jobs[2]]))
    assert began["before"] == 2
    began = starts(simulated("fcfs-commit-backfill", [*jobs[:2], jobs[3]]))
    assert began["at"] == 150


def test_a_promise_to_the_committed_stays_when_others_end_early() -> None:
    jobs = [job("early", 0, 20, 2, 100), job("running", 0, 90, 6, 100), job("first", 1, 50, 10), job("fill", 5, 70, 2)]
    assert starts(simulated("fcfs-commit-backfill", jobs))["fill"] == 5
    late = [*jobs[:3], job("fill", 21, 78, 2)]
    assert starts(simulated("fcfs-commit-backfill", late))["fill"] == 21


def test_nobody_passes_a_committed_first_that_waits_only_for_one_that_is_late() -> None:
    jobs = [job("late", 0, 200, 6, 50), job("first", 60, 50, 8), job("tiny", 61, 5, 1)]
    assert starts(simulated("fcfs-commit-backfill", jobs))["tiny"] == 200
    assert starts(simulated("fcfs-easy", jobs))["tiny"] == 61


def test_preempted_jobs_keep_what_they_have_done() -> None:
    history = simulated("sjf-preempt", [job("long", 0, 100, 10), job("short", 30, 10, 10)])
    ran = {it.job.name: it for it in history.ran}
    assert (ran["short"].start_seconds, ran["short"].end_seconds) == (30, 40)
    assert (ran["long"].start_seconds, ran["long"].end_seconds, ran["long"].preemptions) == (0, 110, 1)
    assert ran["long"].wait_seconds == 10


def test_a_job_that_has_less_left_is_not_taken_back() -> None:
    history = simulated("sjf-preempt", [job("long", 0, 100, 10), job("other", 30, 90, 10)])
    assert starts(history) == {"long": 0, "other": 100}
    assert summarise(history).preemptions == 0


def test_a_gang_of_gpus_spreads_over_nodes_or_waits_whole() -> None:
    machine = Machine(16, 4, GPU)
    history = simulated("fcfs-easy", [job("a", 0, 10, 3), job("b", 0, 10, 13), job("c", 1, 5, 1)], machine)
    assert starts(history) == {"a": 0, "b": 0, "c": 10}


def test_jobs_wider_than_the_machine_are_told_apart_and_disturb_nobody() -> None:
    history = simulated("fcfs-strict", [job("giant", 0, 10, 11), job("a", 1, 10, 10)])
    assert [it.name for it in history.too_wide] == ["giant"]
    assert starts(history) == {"a": 1}
    assert summarise(history).jobs_failed == 1


def test_nothing_comes_of_nothing() -> None:
    summary = summarise(simulated("fcfs-easy", []))
    assert (summary.jobs_succeeded, summary.makespan_seconds, summary.utilisation) == (0, 0, 0.0)


@pytest.mark.parametrize("units", [0, -1, 1 << 40])
def test_a_machine_must_have_processors(units: int) -> None:
    with pytest.raises(ValueError, match="a machine has 1 to"):
        Machine(units)


def test_processors_must_spread_evenly() -> None:
    with pytest.raises(ValueError, match="10 processors or GPUs cannot be spread evenly over 3 nodes"):
        Machine(10, 3)


def test_a_policy_that_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no policy named sjf-quick: it is one of fcfs, .*, a dash, and one of"):
        discipline("sjf-quick")


@pytest.mark.parametrize("name", names())
def test_under_every_policy_all_jobs_end_no_law_or_bound_is_broken_and_explaining_changes_nothing(name: str) -> None:
    jobs = list(sample_jobs(random.Random(5), 20, 16, 130))
    broken: list[str] = []

    def check(snapshot: object, plan: object, now: int) -> None:
        del now
        broken.extend(violations(snapshot, plan))  # type: ignore[arg-type]

    explained = _explaining(discipline(name))
    history = DecisionSimulator(Machine(16), explained, check=check).run(jobs)
    assert broken == []
    assert DecisionSimulator(Machine(16), discipline(name)).run(jobs) == history
    assert len(history.ran) == len(jobs)
    summary = summarise(history)
    assert summary.makespan_seconds >= summary.lower_bound_seconds
    assert summary.jct_mean_seconds >= summary.jct_mean_bound_seconds - 1e-6
    _never_too_full(history)


def _explaining(quiet: Discipline) -> Discipline:
    """The same with a reason for everyone who waits."""
    policies = {"policy": quiet.policy, **({} if quiet.passing is None else {"passing": quiet.passing})}
    told = {name: msgspec.structs.replace(policy, explains=True) for name, policy in policies.items()}
    return msgspec.structs.replace(quiet, **told)


def _never_too_full(history: History) -> None:
    """Recounted from the starts and ends alone, where jobs run without a break."""
    if any(it.preemptions for it in history.ran):
        return
    changes = [(it.start_seconds, 1, it.job.width) for it in history.ran]
    changes += [(it.end_seconds, 0, -it.job.width) for it in history.ran]
    used = 0.0
    for _, _, width in sorted(changes):
        used += width
        assert used <= history.machine.units


@settings(max_examples=examples(10))
@given(st.integers(0, 10_000))
def test_the_same_jobs_give_the_same_history(seed: int) -> None:
    jobs = list(sample_jobs(random.Random(seed), 15, 16, 120))
    first, second = (simulated("sjf-easy", jobs, Machine(16)) for _ in range(2))
    assert first == second


@settings(max_examples=examples(20))
@given(st.integers(0, 10_000))
def test_bounds_hold_for_a_schedule_in_which_nobody_ever_waits(seed: int) -> None:
    jobs = list(sample_jobs(random.Random(seed), 20, 64, 90))
    units = sum(it.width for it in jobs)
    mean_run = sum(it.run_seconds for it in jobs) / len(jobs)
    assert mean_completion_bound_seconds(jobs, units) == pytest.approx(mean_run)
    first = min(it.submit_seconds for it in jobs)
    assert makespan_bound_seconds(jobs, units) == max(it.submit_seconds + it.run_seconds for it in jobs) - first
