"""How long pods waited, from the audit log: which moments count, what the figures are, and what is promised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allhands.measure.api.audit import CUSTOMER, USER, AuditLog, Moment
from allhands.measure.api.contenders import all_contenders
from allhands.measure.api.latency import (
    HEADING,
    LatencyPlan,
    LatencyRun,
    Spread,
    Wait,
    rows_of,
    spread_of,
    table,
    wait_of,
    watching,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAN = LatencyPlan()


def audit_line(user: str, resource: str, name: str, received: int, answered: int, code: int = 201) -> str:
    """Moments in milliseconds of one second."""
    kind, _, subresource = resource.partition("/")
    line: dict[str, Any] = {
        "stage": "ResponseComplete",
        "verb": "create",
        "user": {"username": user},
        "objectRef": {"resource": kind, "subresource": subresource, "namespace": "here", "name": name},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": f"1970-01-01T00:00:01.{received:03d}000Z",
        "stageTimestamp": f"1970-01-01T00:00:01.{answered:03d}000Z",
    }
    return json.dumps(line) + "\n"


def run(scheduler: str, *millis: float, pods: int | None = None, number: int = 1) -> LatencyRun:
    waits = [Wait(creating=1.0, asking=each - 2.0, binding=2.0) for each in millis]
    return LatencyRun(
        scheduler=scheduler, round=number, pods=pods or len(waits), waits=waits, cpu_millis_per_pod=5.0, peak_mib=80.0
    )


def test_the_judge_knows_when_a_customers_pod_was_created_and_bound(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    path.write_text(
        audit_line(CUSTOMER, "pods", "a", 10, 14)
        + audit_line(CUSTOMER, "pods", "refused", 11, 12, code=409)
        + audit_line(USER, "pods/binding", "a", 20, 23)
        + audit_line(USER, "pods/binding", "other", 20, 23, code=409)
    )
    assert log.read()
    assert log.creations == {"here/a": Moment(1.010, 1.014)}
    assert log.bindings == {"here/a": Moment(1.020, 1.023)}
    # Who creates pods is no part of what a scheduler asks for.
    assert log.calls().by_what == {"create pods/binding": 2}
    assert wait_of(log.creations["here/a"], log.bindings["here/a"]) == Wait(4.0, 6.0, 3.0)


def test_a_pod_that_is_bound_before_its_creator_is_told_has_waited_for_nothing_but_the_binding() -> None:
    assert wait_of(Moment(1.0, 1.020), Moment(1.010, 1.025)) == Wait(20.0, 0.0, 5.0)
    assert wait_of(Moment(1.0, 1.020), Moment(1.010, 1.015)).latency == 0.0


def test_figures_are_values_that_pods_had() -> None:
    assert spread_of([]) is None
    assert spread_of([7.04]) == Spread(7.0, 7.0, 7.0, 7.0)
    assert spread_of([float(number) for number in range(1, 201)]) == Spread(100.0, 180.0, 198.0, 200.0)


def test_rounds_are_pooled_and_the_promise_is_judged_over_all_pods() -> None:
    contenders = watching(all_contenders())
    quick = [run("allhands", *[8.0] * 99, 300.0), run("allhands", *[9.0] * 100, number=2)]
    (row,) = rows_of(contenders, quick)
    assert (row.pods, row.bound) == (200, 200)
    assert row.latency == Spread(9.0, 9.0, 9.0, 300.0)
    assert table(PLAN, [row])[-1] == "allhands: 99 of 100 pods bound within 50 ms: met"
    slow = rows_of(contenders, [run("allhands", *[8.0] * 98, 51.0, 51.0)])
    assert table(PLAN, slow)[-1].endswith("MISSED")


def test_pods_that_were_never_bound_count_as_slow_and_are_told() -> None:
    contenders = watching(all_contenders())
    lines = table(PLAN, rows_of(contenders, [run("null", pods=100), run("allhands", *[8.0] * 98, pods=100)]))
    assert lines[0] == HEADING
    assert lines[1].split() == ["null", "100", "none", "was", "bound"]
    assert lines[2].endswith("2 not bound")
    assert lines[-1].endswith("MISSED")
    assert len(HEADING) <= 100


@pytest.mark.parametrize("plan", [LatencyPlan(nodes=100), LatencyPlan(pods=20)])
def test_small_runs_are_not_judged(plan: LatencyPlan) -> None:
    rows = rows_of(watching(all_contenders()), [run("allhands", *[8.0] * plan.pods)])
    assert table(plan, rows)[-1].endswith("nothing is judged.")


def test_moments_are_random_but_the_same_for_everybody() -> None:
    plan = LatencyPlan(pods=2_000)
    assert plan.pauses(1) == plan.pauses(1)
    assert plan.pauses(1) != plan.pauses(2)
    assert sum(plan.pauses(1)) == pytest.approx(2_000 / plan.per_second, rel=0.1)


def test_those_take_part_who_place_single_pods_and_the_null_scheduler_stays() -> None:
    taking_part = {it.name: it for it in watching(all_contenders())}
    assert list(taking_part) == ["null", "kube-scheduler", "allhands"]
    assert taking_part["null"].command[-1] == "watch"
