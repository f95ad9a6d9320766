"""Each guard by itself: whom it protects, and nobody else."""

from __future__ import annotations

import pytest

from allhands.core.facts import DisruptionBudget, Facts
from allhands.core.guards import DEFAULT_GUARDS, GUARDS
from allhands.core.guards.conformance import Conformance
from allhands.core.guards.disruptionbudget import DisruptionBudgets
from allhands.core.guards.minruntime import MinimumRunTime, protected_until
from allhands.core.guards.preemptible import Preemptible
from allhands.core.snapshot import GroupEntry, Snapshot
from allhands.core.world import World
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import DisruptionLimit, PodGroup, SubGroup
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector

NOW = 1000
ANYBODY = GroupEntry(PodGroup("default", "anybody", ""))


def running(
    group: PodGroup, *, priorities: tuple[int, ...] = (0,), since: int = 0, started: int | None = None
) -> Snapshot:
    world = World()
    world.set_node(Node("n", allocatable=ResourceVector.of({"cpu": 1000, "pods": 10})))
    world.set_group(group, GroupStatus(started_at_seconds=started))
    for number, priority in enumerate(priorities):
        pod = Pod(
            group.namespace,
            f"{group.name}-{number}",
            uid=f"{group.name}-{number}",
            node_name="n",
            phase=PodPhase.RUNNING,
            priority=priority,
            started_at_seconds=since,
        )
        world.set_pod(pod, group=group.key)
    return world.snapshot()


def allows(guard: object, snapshot: Snapshot, key: str = "default/g") -> bool:
    return guard.may_evict(snapshot.groups[key], ANYBODY, snapshot, NOW)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("namespace", "priority", "priorities", "may_go"),
    [
        ("default", 0, (0, 0), True),
        ("default", 1_999_999_999, (0,), True),
        ("kube-system", 0, (0,), False),
        ("default", 2_000_000_000, (0,), False),
        ("default", 0, (0, 2_000_001_000), False),
    ],
    ids=["an ordinary group", "the highest of users", "kube-system", "a critical group", "one critical member"],
)
def test_conformance_protects_the_system(
    namespace: str, priority: int, priorities: tuple[int, ...], may_go: bool
) -> None:
    group = PodGroup(namespace, "g", "", priority=priority, members=SubGroup(min_count=1))
    assert allows(Conformance(), running(group, priorities=priorities), group.key) is may_go


@pytest.mark.parametrize("preemptible", [True, False])
def test_preemptible_asks_the_group(preemptible: bool) -> None:
    assert allows(Preemptible(), running(PodGroup("default", "g", "", preemptible=preemptible))) is preemptible


@pytest.mark.parametrize(
    ("promised", "since", "started", "may_go"),
    [
        (0, NOW, None, True),
        (100, NOW - 100, None, True),
        (100, NOW - 99, None, False),
        (100, NOW - 500, NOW - 99, False),
        (100, NOW - 99, NOW - 500, False),
    ],
    ids=["nothing is promised", "just over", "just not over", "whole only lately", "evicted before and come back"],
)
def test_minimum_run_time_counts_from_when_it_runs_as_it_is(
    promised: int, since: int, started: int | None, may_go: bool
) -> None:
    snapshot = running(PodGroup("default", "g", "", min_run_seconds=promised), since=since, started=started)
    assert allows(MinimumRunTime(), snapshot) is may_go
    if promised:
        assert (protected_until(snapshot.groups["default/g"], snapshot) <= NOW) is may_go


def test_budgets_are_used_up_and_given_back() -> None:
    snapshot = running(PodGroup("default", "g", "", members=SubGroup(min_count=3)), priorities=(0, 0, 0))
    everybody, elsewhere = LabelSelector(), LabelSelector.of({"app": "x"})
    budgets = (
        DisruptionBudget("default", "all", everybody, 2),
        DisruptionBudget("default", "none-of-these", elsewhere, 0),
        DisruptionBudget("other", "all", everybody, 0),
    )
    world_facts = Snapshot(
        snapshot.columns, snapshot.pods, snapshot.groups, Facts(budgets=budgets), (), snapshot.version
    )
    left = DisruptionBudgets().allowance(world_facts)
    assert left is not None
    rows = list(snapshot.groups["default/g"].bound)
    assert left.allows(rows[:2])
    assert not left.allows(rows)
    left.take(rows[:1])
    assert left.allows(rows[1:2])
    assert not left.allows(rows[1:])
    left.take(rows[:1], -1)
    assert left.allows(rows[1:])


def test_without_budgets_nothing_is_rationed() -> None:
    assert DisruptionBudgets().allowance(running(PodGroup("default", "g", ""))) is None


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (DisruptionLimit(min_available=2), 2),
        (DisruptionLimit(min_available=4), 0),
        (DisruptionLimit(min_available=9), 0),
        (DisruptionLimit(min_available=60, in_percent=True), 1),
        (DisruptionLimit(max_unavailable=3), 3),
        (DisruptionLimit(max_unavailable=25, in_percent=True), 1),
    ],
    ids=str,
)
def test_a_limit_that_a_group_sets_itself_is_about_its_pods_alone(limit: DisruptionLimit, allowed: int) -> None:
    snapshot = running(PodGroup("default", "g", "", disruption_limit=limit), priorities=(0, 0, 0, 0))
    left = DisruptionBudgets().allowance(snapshot)
    assert left is not None
    rows = list(snapshot.groups["default/g"].bound)
    assert left.allows(rows[:allowed])
    assert not left.allows(rows[: allowed + 1]) or allowed == len(rows)
    left.take(rows[:allowed])
    assert allowed == len(rows) or not left.allows(rows[allowed : allowed + 1])


@pytest.mark.parametrize(
    ("limit", "members", "up", "ended", "allowed"),
    [
        (DisruptionLimit(max_unavailable=2), 5, 4, 0, 1),
        (DisruptionLimit(max_unavailable=2), 5, 3, 0, 0),
        (DisruptionLimit(max_unavailable=2), 5, 1, 0, 0),
        (DisruptionLimit(max_unavailable=2), 5, 3, 2, 2),
        (DisruptionLimit(min_available=2), 5, 1, 0, 0),
        (DisruptionLimit(min_available=34, in_percent=True), 3, 3, 0, 1),
        (DisruptionLimit(max_unavailable=1, size=4), 3, 3, 0, 0),
        (DisruptionLimit(max_unavailable=25, in_percent=True, size=8), 4, 4, 0, 0),
    ],
)
def test_members_that_are_missing_already_use_the_limit_up(
    limit: DisruptionLimit, members: int, up: int, ended: int, allowed: int
) -> None:
    assert limit.allowed(members, up, ended) == allowed


def test_a_budget_below_zero_allows_nothing() -> None:
    snapshot = running(PodGroup("default", "g", ""))
    facts = Facts(budgets=(DisruptionBudget("default", "b", LabelSelector(), -3),))
    left = DisruptionBudgets().allowance(
        Snapshot(snapshot.columns, snapshot.pods, snapshot.groups, facts, (), snapshot.version)
    )
    assert left is not None
    assert not left.allows(list(snapshot.groups["default/g"].bound))


def test_every_guard_is_listed_by_its_name() -> None:
    assert {guard.name for guard in DEFAULT_GUARDS} == set(GUARDS)
    assert all(name == getattr(make, "name", "") for name, make in GUARDS.items())
