"""The cases are those that the core is judged by, and what is measured is what they say."""

from __future__ import annotations

import numpy as np
import pytest

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.measure.comparison import compare
from allhands.measure.core_bench import NOW_SECONDS, MeasureError, Row, measure, peak_mib, row_of
from allhands.measure.core_cases import FULL, QUICK, Case, cases
from tests.core_laws import violations

SMALL = cases(QUICK)


def named(name: str) -> list[Case]:
    return [case for case in cases() if case.name == name]


def test_ten_thousand_pods_are_decided_in_all_four_shapes_at_both_sizes() -> None:
    found = {(case.nodes, case.groups, case.pods_per_group, case.goal_seconds) for case in named("gangs")}
    splits = [(10_000, 1), (500, 20), (20, 500), (1, 10_000)]
    assert found == {(nodes, *split, goal) for nodes, goal in ((1_000, 0.3), (10_000, 1.0)) for split in splits}


def test_shapes_have_a_base_row_in_both_splits() -> None:
    found = {(case.groups, case.pods_per_group, case.shapes) for case in named("shapes")}
    assert found == {(*split, shapes) for split in ((500, 20), (10_000, 1)) for shapes in (1, 100, 1_000)}
    assert all(case.nodes == 10_000 for case in named("shapes"))


def test_queues_come_in_both_splits_and_topology_at_both_sizes() -> None:
    assert {(case.groups, case.pods_per_group) for case in named("queues")} == {(500, 20), (10_000, 1)}
    assert {case.queues for case in named("queues")} == {100}
    assert {case.nodes for case in named("topology")} == {1_000, 10_000}


def test_the_goals_of_single_cases_are_those_of_the_issue() -> None:
    assert [(case.goal_seconds, case.pods_per_group) for case in named("reclaim")] == [(0.5, 250)]
    assert [(case.goal_seconds, case.groups) for case in named("unchanged")] == [(0.02, 10_000)]
    assert [(case.goal_mib, case.nodes, case.shapes) for case in named("huge")] == [(2_048, 100_000, 100)]


def test_quick_sizes_are_never_judged() -> None:
    assert [case.name for case in SMALL] == [case.name for case in cases(FULL)]
    assert not any(case.goal_seconds or case.goal_mib or case.is_judged for case in SMALL)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.title)
def test_a_case_is_as_large_as_it_says_and_its_plan_breaks_no_law(case: Case) -> None:
    snapshot = case.build(case)
    waiting = [entry for entry in snapshot.groups.values() if entry.pending]
    assert len(snapshot.columns) == case.nodes
    assert len(waiting) == case.groups
    assert {sum(len(members.pods) for members in entry.pending) for entry in waiting} == {case.pods_per_group}
    assert len({members.shape.digest for entry in waiting for members in entry.pending}) == case.shapes
    plan, _ = cycle(snapshot, DEFAULT, Memo(), NOW_SECONDS)
    assert violations(snapshot, plan) == []


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.title)
def test_what_is_in_use_is_what_the_pods_hold(case: Case) -> None:
    """The largest case is made of columns, not of objects."""
    snapshot = case.build(case)
    columns, pods = snapshot.columns, snapshot.pods
    used = np.zeros_like(columns.used)
    for row in range(len(pods)):
        for name, units in pods.shapes[pods.shape[row]].requests.entries:
            used[columns.column_by_resource[name], pods.node[row]] += units
        used[columns.column_by_resource["pods"], pods.node[row]] += 1
    assert (used == columns.used).all()
    held = sum(dict(entry.holding).get("cpu", 0) for entry in snapshot.groups.values())
    assert held == int(used[columns.column_by_resource["cpu"]].sum())


def rows_of(name: str) -> list[Row]:
    return [measure(case, 2) for case in SMALL if case.name == name]


def test_a_row_says_what_was_decided() -> None:
    for row in rows_of("gangs"):
        assert row["binds"] == row["groups"] * row["pods_per_group"] == 60
        assert row["lowest"] <= row["seconds"] <= row["highest"]
        assert row["comparison"] is None
        assert 10 < row["rss_mib"] < 2_000


@pytest.mark.parametrize(("name", "unit"), [("shapes", "ms"), ("topology", "×"), ("queues", "×")])
def test_what_is_judged_by_a_ratio_is_measured_beside_its_base(name: str, unit: str) -> None:
    for row in rows_of(name):
        if name == "shapes" and row["shapes"] == 1:
            assert row["comparison"] is None
        else:
            assert row["comparison"] is not None
            assert row["comparison"]["unit"] == unit
            assert row["comparison"]["base_seconds"] > 0
            assert row["comparison"]["goal"] is None


def test_reclaiming_evicts_whole_gangs_for_all_that_is_owed() -> None:
    (row,) = rows_of("reclaim")
    assert row["evictions"] >= row["pods_per_group"]
    assert row["evictions"] % 10 == 0


def test_nobody_starts_where_it_is_hopeless_and_everybody_is_told() -> None:
    for name in ("hopeless", "unchanged"):
        (row,) = rows_of(name)
        assert (row["binds"], row["waits"]) == (0, row["groups"])


def test_ratios_are_taken_round_by_round() -> None:
    topology = named("topology")[0]
    found = compare(topology, [2.0, 6.0, 9.0], [1.0, 2.0, 9.0])
    assert (found["value"], found["goal"], found["base_seconds"]) == (2.0, 2.0, 2.0)
    shapes = next(case for case in named("shapes") if case.shapes == 100)
    found = compare(shapes, [1.99, 1.0, 2.0], [1.0, 1.0, 1.0])
    assert found["value"] == 10.0
    assert found["goal"] == 0.5


def test_a_case_in_a_process_of_its_own_gives_a_row() -> None:
    row = row_of(SMALL[0], 1, quick=True)
    assert (row["case"], row["nodes"], row["rounds"]) == ("gangs", QUICK.few_nodes, 1)


def test_a_process_that_fails_is_told_with_its_last_words() -> None:
    with pytest.raises(MeasureError, match="gangs, 20 nodes"):
        row_of(SMALL[0], 0, quick=True)


def test_the_peak_of_memory_only_rises() -> None:
    before = peak_mib()
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert peak_mib() >= before
