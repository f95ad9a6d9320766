"""A policy's filters: only the nodes that they leave are used, and who finds none is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.core.cycle import cycle
from allhands.core.filters.nodelabels import NodeLabelFilter
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.core.world import World
from allhands.model.node import Node, Taint
from allhands.model.pod import Pod
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from allhands.core.plan import Plan


def world() -> World:
    made = World()
    amounts = ResourceVector.of({"cpu": 4000, "memory": 1 << 34, "pods": 10})
    made.set_node(Node("a", labels={"pool": "ours"}, ready=True, allocatable=amounts))
    made.set_node(Node("b", labels={"pool": "theirs"}, ready=True, allocatable=amounts))
    made.set_node(Node("c", taints=(Taint("k", "NoSchedule"),), ready=True, allocatable=amounts))
    for number in range(6):
        made.set_pod(Pod("team", f"p{number}", uid=f"{number}", requests=ResourceVector.of({"cpu": 1000})))
    return made


def decide(made: World, labels: dict[str, str]) -> Plan:
    policy = msgspec.structs.replace(DEFAULT, filters=(NodeLabelFilter(labels),))
    return cycle(made.snapshot(), policy, Memo(), 100)[0]


def test_only_nodes_with_the_labels_are_used() -> None:
    plan = decide(world(), {"pool": "ours"})
    assert [bind.node for bind in plan.binds] == ["a"] * 4
    assert {wait.explanation.reason for wait in plan.waits} == {Reason.INSUFFICIENT_RESOURCES}


def test_who_finds_no_node_is_told_that_the_policy_leaves_none() -> None:
    plan = decide(world(), {"pool": "nobody's"})
    assert not plan.binds
    assert {(wait.explanation.reason, str(wait.explanation)) for wait in plan.waits} == {
        (Reason.NO_MATCHING_NODE, "None of 2 nodes that the pod could use is left by the policy (nodelabels).")
    }


def test_a_node_that_gets_the_label_is_used_from_then_on() -> None:
    made, memo = world(), Memo()
    policy = msgspec.structs.replace(DEFAULT, filters=(NodeLabelFilter({"pool": "new"}),))
    assert not cycle(made.snapshot(), policy, memo, 100)[0].binds
    node = made.snapshot().columns.nodes[1]
    made.set_node(msgspec.structs.replace(node, labels={"pool": "new"}))
    assert {bind.node for bind in cycle(made.snapshot(), policy, memo, 101)[0].binds} == {"b"}
