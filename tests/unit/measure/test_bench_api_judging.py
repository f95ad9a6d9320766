"""What the judge reads from the audit log, what rows are made of runs, and how they look."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.measure.api.audit import AuditLog, Calls
from allhands.measure.api.comparison import Goal, Plan, Row, goals_of, rows_of
from allhands.measure.api.contenders import all_contenders
from allhands.measure.api.report import HEADING, document, page, table, table_line
from allhands.measure.api.running import MOST_POINTS, Run, curve
from allhands.measure.api.usage import cpu_seconds, usage_of_group
from allhands.measure.api.workload import Shape

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = (Shape(500, 20),)
PLAN = Plan(shapes=SHAPES, nodes=1_000, rounds=2, limit_seconds=60)


def audit_line(verb: str, resource: str, second: int = 0, **changes: Any) -> str:
    name, _, subresource = resource.partition("/")
    line = {
        "kind": "Event",
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": {"resource": name, "subresource": subresource, "namespace": "bench-1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "stageTimestamp": f"1970-01-01T00:00:{second:02d}.250000Z",
    }
    return json.dumps(line | changes) + "\n"


def run(scheduler: str, seconds: float | None, number: int = 1, **changes: Any) -> Run:
    made = Run(
        scheduler=scheduler, shape="500x20", with_gangs=False, round=number, pods=10_000, bound=10_000,
        seconds=seconds, first_bind_seconds=0.5, cpu_seconds=4.0, cpu_seconds_at_last_bind=3.5, peak_mib=90.0,
        server_cpu_seconds=12.0, half_gangs=0, overfull_nodes=0, curve=[(0.5, 1), (8.0, 10_000)],
        calls=Calls(total=11_000, binds=10_000, group_writes=500, refused=0, by_what={}),
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def rows(*runs: Run) -> dict[str, Row]:
    return {row.scheduler: row for row in rows_of(PLAN, all_contenders(), runs)}


def test_the_judge_counts_binds_writes_about_groups_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    assert not log.read()
    refused = audit_line("create", "pods/binding", 3, responseStatus={"code": 409})
    no_object = audit_line("get", "", 1, objectRef={})
    path.write_text(
        audit_line("create", "pods/binding", 1) + audit_line("create", "pods/binding", 2) + refused + no_object
        + audit_line("patch", "podgroups/status") + audit_line("list", "podgroups")
    )  # fmt: skip
    assert log.read()
    assert log.bound_at == [1.25, 2.25]
    calls = log.calls()
    assert (calls.total, calls.binds, calls.group_writes, calls.refused) == (6, 2, 1, 1)
    assert calls.by_what == {
        "create pods/binding": 3, "get other": 1, "list podgroups": 1, "patch podgroups/status": 1,
    }  # fmt: skip


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    line = audit_line("create", "pods/binding", 1)
    log = AuditLog(path)
    with path.open("w") as file:
        file.write(line[:50])
        file.flush()
        assert not log.read()
        file.write(line[50:])
    assert log.read()
    assert log.bound_at == [1.25]


def test_a_watch_is_counted_when_it_begins_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    begun = audit_line("watch", "pods", stage="ResponseStarted")
    path.write_text(begun + audit_line("watch", "pods") + audit_line("list", "pods", stage="ResponseStarted"))
    log.read()
    assert log.calls().by_what == {"watch pods": 1}


def test_leases_are_counted_but_are_no_sign_of_work(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    path.write_text(audit_line("update", "leases"))
    assert not log.read()
    assert log.calls().total == 1


def test_a_new_run_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    path.write_text(audit_line("create", "pods/binding", 1))
    log.read()
    log.begin()
    with path.open("a") as file:
        file.write(audit_line("create", "pods/binding", 2))
    log.read()
    assert log.bound_at == [2.25]
    assert log.calls().total == 1


def test_a_ratio_is_formed_within_a_round_before_the_median_is_taken() -> None:
    found = rows(run("null", 10.0, 1), run("null", 20.0, 2), run("allhands", 11.0, 1), run("allhands", 26.0, 2))
    ours = found["allhands"]
    assert ours.ratio == pytest.approx(1.2)
    assert ours.ratio_lowest == pytest.approx(1.1)
    assert ours.ratio_highest == pytest.approx(1.3)
    assert ours.seconds == pytest.approx(18.5)
    assert found["null"].ratio == 1.0


def test_calls_about_groups_are_in_a_column_of_their_own() -> None:
    ours = rows(run("null", 10.0), run("allhands", 11.0))["allhands"]
    assert (ours.calls_per_pod, ours.group_writes_per_pod) == (1.05, 0.05)


def test_who_does_not_finish_has_no_figures_but_what_was_reached() -> None:
    late = run("kube-scheduler-gangs", None, bound=7_000, half_gangs=3, with_gangs=True)
    row = rows(run("null", 9.0, with_gangs=True), late)["kube-scheduler-gangs"]
    assert (row.seconds, row.ratio) == (None, None)
    shown = table_line(row)
    assert shown.split()[:3] == ["500x20", "on", "kube-scheduler-gangs"]
    assert shown.endswith("not finished in time: 7,000 of 10,000 pods bound, 3 gangs in part")


def test_goals_are_those_of_our_worst_row_beside_kube_scheduler() -> None:
    found = list(rows(run("null", 10.0), run("kube-scheduler", 30.0, cpu_seconds=20.0), run("allhands", 12.0)).values())
    goals = {goal.name: goal for goal in goals_of(found)}
    assert goals["time ÷ null scheduler"].value == pytest.approx(1.2)
    assert not goals["time ÷ null scheduler"].is_met
    assert goals["time ÷ kube-scheduler"].value == pytest.approx(0.4)
    assert goals["CPU seconds ÷ kube-scheduler"].value == pytest.approx(0.2)
    assert goals["CPU seconds ÷ kube-scheduler"].is_met
    assert goals["API calls per pod"].value == pytest.approx(1.05)
    assert goals["peak memory in MiB"].value == 90.0
    assert goals_of([row for row in found if row.scheduler != "allhands"]) == []


def test_the_table_fits_a_hundred_columns_and_judges_large_runs_only() -> None:
    found = list(rows(run("null", 123456.0), run("allhands", 123999.0), run("kube-scheduler", 999999.0, 2)).values())
    goals = [Goal(name="CPU seconds ÷ kube-scheduler", value=123.456, goal=0.25, where="10000x1 gangs off")]
    lines = list(table(found, goals))
    assert lines[0] == HEADING
    assert max(len(line) for line in lines) <= 100
    assert lines[-1].endswith("MISSED")
    small = [msgspec.structs.replace(row, pods=100) for row in found]
    lines = list(table(small, goals))
    assert "MISSED" not in lines[-2]
    assert "nothing is judged" in lines[-1]


def test_a_node_that_was_given_too_much_is_told() -> None:
    found = rows(run("null", 9.0), run("allhands", 9.5, overfull_nodes=2))
    assert "allhands, 500x20: 2 nodes were given more than they have" in list(table(list(found.values()), []))


def test_the_document_and_the_page_hold_every_round() -> None:
    found = list(rows(run("null", 9.0), run("allhands", 9.5)).values())
    facts = {"command": "allhands bench api <x>"}
    made = document(facts, found, goals_of(found))
    assert json.loads(json.dumps(made))["rows"][1]["runs"][0]["seconds"] == 9.5
    shown = page(facts, found, goals_of(found))
    assert shown.count("<svg") == 1
    assert "500x20, gangs off" in shown
    assert "<x>" not in shown
    assert "http" not in shown.replace("http-equiv", "")


def test_a_curve_keeps_its_first_and_last_point() -> None:
    times = [number / 100 for number in range(1, 10_001)]
    points = curve(times)
    assert points[0] == (0.01, 1)
    assert points[-1] == (100.0, 10_000)
    assert len(points) <= MOST_POINTS + 1
    assert curve([]) == []
    assert curve([2.0]) == [(2.0, 1)]


def test_the_kernel_tells_what_a_process_has_used() -> None:
    used = usage_of_group(os.getpgrp())
    assert used.cpu_seconds >= cpu_seconds(os.getpid()) - 1
    assert used.peak_mib > 5
