"""The world counts every pod once, whatever comes in which order, and hands out snapshots that never change."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from allhands.core.dump import canonical
from allhands.core.facts import DisruptionBudget, Facts
from allhands.core.snapshot import PodFlag, Snapshot
from allhands.core.world import World
from allhands.model.affinity import PodAffinity, PodTerm
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector


def node(name: str = "n1", cpu: int = 4000, gpus: int | None = None) -> Node:
    more = {} if gpus is None else {"example.com/gpu": gpus}
    return Node(name, allocatable=ResourceVector.of({"cpu": cpu, "memory": 1 << 40, "pods": 10, **more}))


def pod(name: str = "p", cpu: int = 1000, **fields: Any) -> Pod:
    return Pod("default", name, **{"uid": f"uid-{name}", "requests": ResourceVector.of({"cpu": cpu}), **fields})


def world(*objects: Node | Pod) -> World:
    found = World()
    for it in objects:
        if isinstance(it, Node):
            found.set_node(it)
        else:
            found.set_pod(it)
    return found


def used(snapshot: Snapshot, name: str = "n1", resource: str = "cpu") -> int:
    columns = snapshot.columns
    return int(columns.used[columns.column_by_resource[resource], columns.row_by_name[name]])


# -- what counts


@pytest.mark.parametrize(
    ("fields", "cores"),
    [
        ({"node_name": "n1"}, 1000),
        ({"node_name": "n1", "phase": PodPhase.RUNNING}, 1000),
        ({"node_name": "n1", "deleting": True}, 1000),
        ({"node_name": "n1", "phase": PodPhase.UNKNOWN}, 1000),
        ({"node_name": "n1", "phase": PodPhase.SUCCEEDED}, 0),
        ({"node_name": "n1", "phase": PodPhase.FAILED}, 0),
        ({"node_name": "n2"}, 0),
        ({}, 0),
        ({"nominated_node": "n1"}, 0),
    ],
    ids=[
        "bound",
        "running",
        "terminating",
        "lost from sight",
        "succeeded",
        "failed",
        "on a node that is unknown",
        "waiting",
        "nominated by ourselves",
    ],
)
def test_a_pod_that_is(fields: dict[str, Any], cores: int) -> None:
    assert used(world(node(), pod(**fields)).snapshot()) == cores


def test_a_pod_of_another_scheduler_counts_where_it_is_nominated_until_it_is_bound_elsewhere() -> None:
    it = world(node("n1"), node("n2"))
    it.set_pod(pod(nominated_node="n1"), ours=False)
    assert (used(it.snapshot(), "n1"), used(it.snapshot(), "n2")) == (1000, 0)
    it.set_pod(pod(nominated_node="n1", node_name="n2"), ours=False)
    assert (used(it.snapshot(), "n1"), used(it.snapshot(), "n2")) == (0, 1000)


def test_pods_on_a_node_count_as_soon_as_the_node_is_known() -> None:
    it = world(pod(node_name="n1"))
    assert [str(found.why) for found in it.snapshot().set_aside] == ['It is on node "n1", which is unknown.']
    it.set_node(node())
    assert used(it.snapshot()) == 1000
    assert it.snapshot().set_aside == ()


def test_a_pod_that_is_resized_counts_as_it_is_now() -> None:
    it = world(node(), pod(node_name="n1"))
    it.snapshot()
    it.set_pod(pod(cpu=3000, node_name="n1"))
    assert used(it.snapshot()) == 3000


def test_a_resource_that_appears_later_is_counted_for_pods_that_were_there() -> None:
    it = world(node(), pod(node_name="n1", requests=ResourceVector.of({"example.com/gpu": 2})))
    it.snapshot()
    it.set_node(node(gpus=8))
    assert used(it.snapshot(), "n1", "example.com/gpu") == 2


# -- unconfirmed writes


def test_an_assumed_binding_counts_and_is_taken_over_by_the_watch() -> None:
    it = world(node(), pod())
    it.assume_bound("uid-p", "n1", 5)
    assert used(it.snapshot()) == 1000
    it.set_pod(pod())
    assert used(it.snapshot()) == 1000
    it.set_pod(pod(node_name="n1"))
    assert used(it.snapshot()) == 1000
    it.assume_bound("uid-p", "", 5)
    assert used(it.snapshot()) == 1000


def test_an_assumed_binding_that_is_taken_back_frees_its_room() -> None:
    it = world(node(), pod())
    it.assume_bound("uid-p", "n1")
    it.assume_bound("uid-p", "")
    assert used(it.snapshot()) == 0
    assert it.snapshot().groups["default/pod:p"].pending


def test_an_assumed_eviction_makes_a_pod_leave_until_it_is_gone_or_taken_back() -> None:
    it = world(node(), pod(node_name="n1", phase=PodPhase.RUNNING))
    it.assume_evicted("uid-p")
    snapshot = it.snapshot()
    entry = snapshot.groups["default/pod:p"]
    assert (len(entry.bound), len(entry.leaving), used(snapshot)) == (0, 1, 1000)
    assert snapshot.pods.flags[entry.leaving[0]] & PodFlag.LEAVING
    it.set_pod(pod(node_name="n1", phase=PodPhase.RUNNING))
    assert it.snapshot().groups["default/pod:p"].leaving
    it.assume_evicted("uid-p", evicted=False)
    assert it.snapshot().groups["default/pod:p"].bound


def test_assumptions_about_pods_that_are_gone_are_ignored() -> None:
    it = world(node())
    it.assume_bound("uid-p", "n1")
    it.assume_evicted("uid-p")
    it.delete_pod("uid-p")
    assert used(it.snapshot()) == 0


# -- snapshots stand still


def test_a_snapshot_does_not_change_when_the_world_goes_on() -> None:
    it = world(node("n1"), node("n2"), pod(node_name="n1"))
    it.set_group(PodGroup("default", "g", "q"))
    before = it.snapshot()
    dumped = canonical(before)
    it.set_pod(pod("other", node_name="n1"))
    it.assume_evicted("uid-p")
    it.set_node(node("n2", cpu=9000))
    it.set_group(PodGroup("default", "g", "q", priority=5))
    it.snapshot()
    it.delete_node("n1")
    it.delete_pod("uid-p")
    it.delete_group("default/g")
    it.snapshot()
    assert canonical(before) == dumped


def test_generations_rise_only_for_the_nodes_that_changed() -> None:
    it = world(node("n1"), node("n2"))
    before = it.snapshot()
    it.set_pod(pod(node_name="n2"))
    after = it.snapshot()
    assert np.flatnonzero(after.columns.generation > before.columns.generation).tolist() == [1]
    assert np.array_equal(after.columns.static_generation, before.columns.static_generation)
    it.set_node(msgspec.structs.replace(node("n1"), labels={"a": "b"}))
    assert np.flatnonzero(it.snapshot().columns.static_generation > before.columns.static_generation).tolist() == [0]


def test_a_node_that_is_told_again_unchanged_changes_nothing() -> None:
    it = world(node())
    before = it.snapshot()
    it.set_node(node())
    assert it.snapshot().version == before.version
    assert it.snapshot().columns is before.columns


def test_groups_that_did_not_change_are_the_same_objects() -> None:
    it = world(node())
    for name in ("g", "h"):
        it.set_group(PodGroup("default", name, "q"))
    before = it.snapshot()
    it.set_group(PodGroup("default", "g", "q", priority=1))
    after = it.snapshot()
    assert after.groups["default/h"] is before.groups["default/h"]
    assert after.groups["default/g"] is not before.groups["default/g"]
    assert list(after.groups) == ["default/g", "default/h"]


# -- groups and their pods


def test_a_pod_that_moves_to_another_group_is_a_member_of_that_one_only() -> None:
    it = world(node())
    for name in ("g", "h"):
        it.set_group(PodGroup("default", name, "q"))
    it.set_pod(pod(), group="default/g")
    it.snapshot()
    it.set_pod(pod(), group="default/h")
    groups = it.snapshot().groups
    assert (len(groups["default/g"].pending), len(groups["default/h"].pending)) == (0, 1)


def test_a_pod_without_a_group_is_one_with_a_status_of_its_own() -> None:
    it = world(node())
    it.set_pod(pod(priority=7), status=GroupStatus(failed_starts=2))
    entry = it.snapshot().groups["default/pod:p"]
    assert (entry.group.priority, entry.status.failed_starts, entry.group.required_count) == (7, 2, 1)


def test_pods_of_others_are_no_groups() -> None:
    it = world(node())
    it.set_pod(pod(), ours=False)
    assert it.snapshot().groups == {}


def test_a_group_that_is_deleted_leaves_its_pods_set_aside_and_counted() -> None:
    it = world(node())
    it.set_group(PodGroup("default", "g", "q"))
    it.set_pod(pod(node_name="n1"), group="default/g")
    it.set_pod(pod("other"), group="default/g")
    it.delete_group("default/g")
    snapshot = it.snapshot()
    entry = snapshot.groups["default/g"]
    assert str(entry.problem) == 'Pod-group "default/g" does not exist.'
    assert (used(snapshot), len(entry.bound), len(entry.pending)) == (1000, 1, 1)
    it.delete_pod("uid-p")
    it.delete_pod("uid-other")
    assert it.snapshot().groups == {}


def test_members_stand_in_the_order_of_their_ranks() -> None:
    it = world(node())
    it.set_group(PodGroup("default", "g", "q"))
    for rank in (10, 9, 2, 1, 11):
        it.set_pod(pod(f"g-{rank}"), group="default/g")
    refs = it.snapshot().groups["default/g"].pending[0].pods
    assert [ref.key for ref in refs] == [f"default/g-{rank}" for rank in (1, 2, 9, 10, 11)]


# -- labels


def test_labels_tell_shapes_apart_only_if_somebody_selects_by_them() -> None:
    it = world(node(), pod("a", labels={"app": "a"}), pod("b", labels={"app": "b"}))

    def digests() -> set[str]:
        return {entry.pending[0].shape.digest for key, entry in it.snapshot().groups.items() if key[-1] in "ab"}

    assert len(digests()) == 1
    term = PodTerm(LabelSelector((("app", "a"),)), "zone", ("default",))
    it.set_pod(pod("looking", pod_affinity=PodAffinity(required_apart=(term,))))
    assert len(digests()) == 2
    it.delete_pod("uid-looking")
    assert len(digests()) == 1


def test_labels_that_a_disruption_budget_selects_by_are_kept() -> None:
    it = world(node(), pod(node_name="n1", labels={"app": "web", "rank": "3"}))
    it.set_facts(Facts(budgets=(DisruptionBudget("default", "web", LabelSelector((("app", "web"),)), 0),)))
    snapshot = it.snapshot()
    assert snapshot.pods.shapes[snapshot.pods.shape[0]].labels == (("app", "web"),)
    it.set_facts(Facts())
    snapshot = it.snapshot()
    assert snapshot.pods.shapes[snapshot.pods.shape[0]].labels == ()


# -- sums beyond all columns


def test_sums_that_leave_64_bits_are_full_and_come_back_exactly() -> None:
    it = world(node())
    for number in range(2000):
        it.set_pod(pod(f"p{number}", cpu=2**53, node_name="n1"))
    assert used(it.snapshot()) == 2**62 - 1
    for number in range(1, 2000):
        it.delete_pod(f"uid-p{number}")
    assert used(it.snapshot()) == 2**53
    it.delete_pod("uid-p0")
    assert used(it.snapshot()) == 0


def test_of_pods_of_one_name_the_youngest_is_a_member_and_all_hold_their_room() -> None:
    it = world(node())
    it.set_group(PodGroup("default", "g", "q", members=SubGroup(min_count=1)))
    for number, uid in enumerate(("old", "older", "young")):
        it.set_pod(
            pod(uid=uid, node_name="n1", created_at_seconds=(5, 1, 9)[number]), group="default/g", slot=Slot("", "")
        )
    snapshot = it.snapshot()
    entry = snapshot.groups["default/g"]
    assert [snapshot.pods.uids[row] for row in entry.bound] == ["young"]
    assert used(snapshot) == 3000
    assert [str(found.why) for found in snapshot.set_aside] == [
        'A younger pod has its name; this one has the uid "old".',
        'A younger pod has its name; this one has the uid "older".',
    ]
    it.delete_pod("young")
    assert [it.snapshot().pods.uids[row] for row in it.snapshot().groups["default/g"].bound] == ["old"]


def test_members_on_nodes_stand_in_the_order_of_their_names_whatever_rows_they_have() -> None:
    it = world(node())
    it.set_group(PodGroup("default", "g", "q"))
    for name in ("c", "a", "b"):
        it.set_pod(pod(name, node_name="n1"), group="default/g")
        it.set_pod(pod(f"leaving-{name}", node_name="n1", deleting=True), group="default/g")
    snapshot = it.snapshot()
    entry = snapshot.groups["default/g"]
    assert [snapshot.pods.keys[row][-1] for row in entry.bound] == ["a", "b", "c"]
    assert [snapshot.pods.keys[row][-1] for row in entry.leaving] == ["a", "b", "c"]


def test_a_group_that_is_named_without_a_namespace_is_one_of_the_pods_own() -> None:
    it = world(node())
    it.set_pod(pod("a", node_name="n1"), group="strange")
    assert list(it.snapshot().groups) == ["default/strange"]
    assert it.snapshot().groups["default/strange"].key == "default/strange"
    it.delete_pod("uid-a")
    assert not it.snapshot().groups


@pytest.mark.parametrize("column", ["keys", "uids", "node", "shape", "priority", "since", "flags"])
def test_who_kept_but_one_column_of_a_snapshot_reads_what_was_there(column: str) -> None:
    """What nobody holds any more is written in place: one column may be all that somebody holds."""
    kept_up = world(node(), node("n2"), pod("p", node_name="n1"), pod("q", node_name="n1"))
    held = getattr(kept_up.snapshot().pods, column)
    before = list(held)
    kept_up.delete_pod("uid-p")
    kept_up.set_pod(pod("r", 2000, node_name="n2", phase=PodPhase.RUNNING, priority=7, started_at_seconds=9))
    assert list(held) == before
    assert kept_up.snapshot().pods.keys.count("default/r") == 1


def test_who_kept_the_groups_of_a_snapshot_reads_those_that_were_there() -> None:
    kept_up = world(node(), pod("p"))
    held = kept_up.snapshot().groups
    before = dict(held)
    kept_up.set_pod(pod("q"))
    assert kept_up.snapshot().groups != before
    assert held == before
