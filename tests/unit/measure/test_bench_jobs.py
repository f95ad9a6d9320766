"""From Volcano Jobs to bound pods: what the floor makes, which calls count, and what is promised."""

from __future__ import annotations

import msgspec

from allhands.measure.api.audit import Calls
from allhands.measure.api.jobs import (
    NULL,
    OURS,
    USERS,
    JobsPlan,
    JobsRun,
    Part,
    job_manifest,
    pods_of_jobs,
)
from allhands.measure.api.jobs_report import rows_of, table
from allhands.measure.api.workload import GROUP_LABEL, Shape
from allhands.runtime.installation.webhooks import accounts_of

SHAPE = Shape(500, 20)
PLAN = JobsPlan(shapes=(SHAPE,))


def run(system: str, seconds: float | None, *, number: int = 1, calls: int = 0, server: float = 30.0) -> JobsRun:
    by_what = {"create pods": SHAPE.pods, "create pods/binding": SHAPE.pods, "patch podgroups": calls}
    total = sum(by_what.values())
    return JobsRun(
        system=system,
        shape=str(SHAPE),
        round=number,
        pods=SHAPE.pods,
        bound=SHAPE.pods if seconds is not None else 7,
        seconds=seconds,
        submitted_seconds=1.0,
        first_bind_seconds=2.0,
        parts={system: Part(cpu_seconds=10.0, peak_mib=50.0)},
        server_cpu_seconds=server,
        calls=Calls(total=total, binds=SHAPE.pods, group_writes=calls, refused=0, by_what=by_what),
        half_gangs=0,
        overfull_nodes=0,
    )


def test_the_floor_makes_the_pods_that_the_jobs_would_have() -> None:
    pods = [msgspec.json.decode(body) for body in pods_of_jobs(Shape(2, 3), "here")]
    names = [it["metadata"]["name"] for it in pods]
    assert names == [f"job-0000{job}-worker-{index}" for job in range(2) for index in range(3)]
    assert {it["metadata"]["labels"][GROUP_LABEL] for it in pods} == {"job-00000", "job-00001"}
    assert all(it["metadata"]["annotations"]["scheduling.k8s.io/group-name"].startswith("job-0000") for it in pods)
    assert not any("ownerReferences" in it["metadata"] for it in pods)
    spec = job_manifest("job-00000", 3)["spec"]["tasks"][0]["template"]["spec"]
    assert pods[0]["spec"]["containers"] == spec["containers"]


def test_our_processes_talk_as_the_accounts_that_webhooks_leave_alone() -> None:
    assert {USERS["controllers"], USERS["scheduler"]} == set(accounts_of("allhands-system"))


def test_ratios_are_formed_within_a_round_and_calls_are_counted_beyond_the_creation_of_pods() -> None:
    runs = [
        run(NULL, 10.0), run(OURS, 14.0, calls=5_000, server=50.0),
        run(NULL, 20.0, number=2), run(OURS, 30.0, number=2, calls=5_000, server=50.0),
    ]  # fmt: skip
    floor, ours = rows_of(PLAN, runs)
    assert (floor.system, floor.ratio, floor.calls_per_pod) == (NULL, 1.0, 1.0)
    assert ours.ratio is not None
    assert abs(ours.ratio - 1.45) < 1e-9
    assert (ours.ratio_lowest, ours.ratio_highest) == (1.4, 1.5)
    assert (ours.calls_per_pod, ours.cpu_ratio) == (1.5, 1.5)
    text = table([floor, ours])
    assert text[-2:] == [
        "500x20: time ÷ null: 1.45, goal ≤ 1.5: met",
        "500x20: calls per pod beyond its creation: 1.50, goal ≤ 4: met",
    ]


def test_who_is_not_done_in_time_has_no_ratio_and_misses() -> None:
    rows = rows_of(PLAN, [run(NULL, 10.0), run(OURS, None)])
    text = "\n".join(table(rows))
    assert rows[1].ratio is None
    assert "7 of 10,000 bound" in text
    assert "time ÷ null: inf, goal ≤ 1.5: MISSED" in text


def test_small_runs_are_not_judged_and_what_does_not_fit_is_refused_before_it_begins() -> None:
    small = JobsPlan(shapes=(Shape(2, 5),), nodes=1)
    few = [msgspec.structs.replace(it, shape="2x5", pods=10, bound=10) for it in (run(NULL, 1.0), run(OURS, 2.0))]
    assert table(rows_of(small, few))[-1] == "With fewer than 10,000 pods nothing is judged."
    assert small.problem() == ""
    assert JobsPlan(shapes=(Shape(2, 10),), nodes=1).problem() == (
        "2x10: 20 pods do not fit on 1 nodes, which hold 16: add nodes"
    )
