"""What a scenario's pods held and who waited, moment by moment, for the same measures as those of traces."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.sim.job_log import JobRun, PodRun
from allhands.sim.metrics import idle_while_waiting, summarise
from allhands.sim.scenario import Scenario, read_scenario
from allhands.sim.scenario_history import ScenarioJobs, pod_slots, scarcest


def scenario(*workloads: dict[str, Any], **changes: Any) -> Scenario:
    head = {"apiVersion": "allhands.dev/v1alpha1", "kind": "Scenario"}
    nodes = [{"count": 2, "cpu": "8", "memory": "32Gi", "gpus": 4}]
    return read_scenario({**head, "nodes": nodes, "workloads": list(workloads), **changes})


def pod(bound: float, ended: float | None, *, lost: bool = False, done: bool = True) -> PodRun:
    is_done = done and not lost and ended is not None
    return PodRun(bound, ended, bound=bound, is_lost=lost, is_done=is_done)


def run(name: str, submitted: float, ended: float | None, *pods: PodRun, succeeded: bool = True) -> JobRun:
    started = min((it.started for it in pods if it.started is not None), default=None)
    known = {str(number): it for number, it in enumerate(pods)}
    return JobRun(name, submitted, started, ended, succeeded and ended is not None, known)


def seen(plan: Scenario, *jobs: JobRun, end: float = 100) -> ScenarioJobs:
    by_name = {name: it for it in plan.workloads for name in it.names}
    return ScenarioJobs(plan, [(by_name[it.name], it) for it in jobs], end)


def test_the_machine_is_counted_in_the_scarcest_resource() -> None:
    assert scarcest(scenario({"cpu": "4", "memory": "1Gi"})).resource == "cpu"
    assert scarcest(scenario({"cpu": "1", "memory": "16Gi"})).resource == "memory"
    assert scarcest(scenario({"cpu": "1", "gpus": 2})).resource == "nvidia.com/gpu"
    long = {"name": "long", "cpu": "1", "memory": "16Gi", "runSeconds": 6000}
    assert scarcest(scenario({"cpu": "8"}, long)).resource == "memory"


def test_pods_are_slots_where_all_are_alike() -> None:
    slots = pod_slots(scenario({"cpu": "3", "memory": "1Gi"}))
    assert slots is not None
    assert slots.capacity == 4  # two on each node: the other two cores are no use
    assert pod_slots(scenario({"cpu": "3"}, {"name": "other", "cpu": "4"})) is None


def test_a_job_waits_until_all_of_its_pods_have_a_place() -> None:
    plan = scenario({"name": "a", "pods": 2, "cpu": "4"})
    jobs = seen(plan, run("a", 0, 30, pod(10, 30), pod(20, 30)))
    moments = jobs.history("p").moments
    assert [(it.at_seconds, it.used, it.waiting, it.waiting_width) for it in moments] == [
        (0, 0, 1, 8),
        (10, 4, 1, 4),
        (20, 8, 0, 0),
        (30, 0, 0, 0),
    ]
    assert idle_while_waiting(jobs.history("p")) == 10 * 16 + 10 * 12


def test_a_gang_that_loses_its_pods_waits_again_and_wasted_what_it_ran() -> None:
    plan = scenario({"name": "a", "pods": 2, "cpu": "4"})
    jobs = seen(plan, run("a", 0, 60, pod(0, 20, lost=True), pod(0, 20, lost=True), pod(30, 60), pod(30, 60)))
    history = jobs.history("p")
    (ran,) = history.ran
    assert (ran.preemptions, ran.wait_seconds, ran.job.run_seconds, ran.job.area) == (1, 10, 30, 240)
    assert [(it.at_seconds, it.waiting) for it in history.moments] == [(0, 0), (20, 1), (30, 0), (60, 0)]
    assert (jobs.used_area, jobs.wasted_area) == (2 * 4 * 50, 2 * 4 * 20)
    assert summarise(history).preemptions == 1


def test_a_pod_that_fails_by_itself_is_tried_again_and_is_no_preemption() -> None:
    plan = scenario({"name": "a", "cpu": "4"})
    jobs = seen(plan, run("a", 0, 50, pod(0, 10, done=False), pod(20, 50)))
    assert jobs.history("p").ran[0].preemptions == 0
    assert jobs.wasted_area == 4 * 10
    assert [it.waiting for it in jobs.history("p").moments] == [0, 1, 0, 0]


def test_jobs_that_failed_or_were_not_done_are_apart() -> None:
    plan = scenario({"name": "a", "cpu": "4"}, {"name": "b", "cpu": "4"}, {"name": "c", "cpu": "4"})
    jobs = seen(
        plan,
        run("a", 0, 10, pod(0, 10, done=False), succeeded=False),
        run("b", 0, None, pod(5, None)),
        run("c", 0, None),
    )
    history = jobs.history("p")
    assert (len(history.ran), len(history.unfinished)) == (0, 3)
    last = history.moments[-1]
    assert (last.at_seconds, last.used, last.waiting) == (100, 4, 1)
    assert jobs.wasted_area == 4 * 10
    assert jobs.used_area == 4 * 10 + 4 * 95


def test_use_is_shown_by_queue_where_there_are_several() -> None:
    queues = [{"name": "x"}, {"name": "y"}]
    plan = scenario({"name": "a", "cpu": "4", "queue": "x"}, {"name": "b", "cpu": "2", "queue": "y"}, queues=queues)
    jobs = seen(plan, run("a", 0, 10, pod(0, 10)), run("b", 0, 20, pod(10, 20)))
    assert jobs.history("p").used_by_queue == {"x": ((0, 4), (10, 0)), "y": ((10, 2), (20, 0))}
    alone = scenario({"name": "a", "cpu": "4"})
    assert seen(alone, run("a", 0, 10, pod(0, 10))).history("p").used_by_queue == {}


def test_fairness_is_between_queues_and_without_them_between_jobs() -> None:
    queues = [{"name": "x"}, {"name": "y"}]
    plan = scenario({"name": "a", "queue": "x"}, {"name": "b", "queue": "y"}, queues=queues)
    late = [run("a", 0, 100, pod(0, 100)), run("b", 0, 400, pod(300, 400))]
    assert summarise(seen(plan, *late).history("p")).fairness == pytest.approx(25 / 34)
    same = scenario({"name": "a"}, {"name": "b"})
    assert summarise(seen(same, *late).history("p")).fairness == pytest.approx(25 / 34)
