"""The KWOK test's own arithmetic: the ideal, the workload, the application, and the table."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.measure.api.contenders import all_contenders
from allhands.measure.api.kwok import KwokPlan, KwokRow, ideal_makespan_seconds, job_manifest, table
from tests.depth import examples

PLAN = KwokPlan()
ROW = KwokRow(
    scheduler="kube-scheduler-gangs", jobs=1_000, done=990, failed=10, unfinished=0, makespan_seconds=900.4,
    ideal_seconds=538.1, ratio=None, useful_utilisation=0.4321, cpu_seconds=123.4, peak_mib=250.0, calls_per_pod=3.2,
    group_writes_per_pod=0.1, calls={},
)  # fmt: skip


def test_the_cluster_of_the_test_holds_half_of_its_jobs() -> None:
    assert PLAN.jobs_at_once == 500
    runs = PLAN.run_seconds()
    assert len(runs) == 1_000
    assert 180 <= min(runs) < max(runs) <= 270
    assert runs == KwokPlan().run_seconds()
    assert 450 <= PLAN.ideal_seconds() <= 540


def test_the_ideal_starts_each_job_when_the_first_place_is_free() -> None:
    assert ideal_makespan_seconds([3.0, 1.0, 1.0, 1.0], 2) == 3.0
    assert ideal_makespan_seconds([1.0, 1.0, 3.0], 2) == 4.0
    assert ideal_makespan_seconds([], 2) == 0.0


@given(runs=st.lists(st.floats(0.1, 100), min_size=1, max_size=30), at_once=st.integers(1, 10))
@settings(max_examples=examples(50))
def test_the_ideal_is_between_its_bounds(runs: list[float], at_once: int) -> None:
    ideal = ideal_makespan_seconds(runs, at_once)
    least = max(*runs, sum(runs) / at_once)
    assert least - 1e-6 <= ideal <= sum(runs) / at_once + max(runs) + 1e-6


@pytest.mark.parametrize(("scale", "seconds"), [(1.0, 900), (5.0, 180), (100.0, 9)])
def test_deadlines_are_scaled(scale: float, seconds: int) -> None:
    ours = all_contenders()[-1]
    spec = job_manifest(KwokPlan(scale=scale), "group-00000", ours)["spec"]
    assert spec["activeDeadlineSeconds"] == seconds
    assert spec["template"]["spec"]["schedulingGroup"] == {"podGroupName": "group-00000"}


def test_the_table_fits_a_hundred_columns_and_has_no_ratio_unless_all_are_done() -> None:
    done = msgspec.structs.replace(ROW, scheduler="allhands", done=1_000, failed=0, ratio=1.05)
    lines = table([ROW, done])
    assert max(len(line) for line in lines) <= 100
    assert lines[1].split() == [
        "kube-scheduler-gangs",
        "990",
        "10",
        "0",
        "900",
        "s",
        "-",
        "43",
        "%",
        "123.4",
        "250",
        "3.20",
    ]
    assert "1.05" in lines[2]
