"""Which nodes let a pod in by what they are: names, labels, taints, being cordoned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from allhands.core.feasibility.static import StaticFeasibility
from allhands.model.affinity import NAME_FIELD, NodeAffinity, NodeSelectorTerm, PreferredNodeTerm
from allhands.model.node import UNSCHEDULABLE_TAINT, Taint, Toleration
from allhands.model.pod import Pod
from allhands.model.reason import Reason
from allhands.model.selector import Requirement
from allhands.model.shape import PodShape
from tests.unit.core.feasibility.town import Town, node, pod

SPOT = Taint("spot", "NoSchedule", "yes")
DYING = Taint("dying", "NoExecute")
SLOW = Taint("slow", "PreferNoSchedule")

NODES = [
    node("big", "a", labels={"disk": "ssd", "cores": "64"}),
    node("small", "b", labels={"disk": "", "cores": "8"}),
    node("odd", labels={"cores": "many"}),
    node("spot", "a", (SPOT,), labels={"cores": "010"}),
    node("dying", "b", (DYING, SLOW)),
    node("cordoned", "a", unschedulable=True),
]
OPEN = {"big", "small", "odd"}
ALL = {it.name for it in NODES}
EVERYTHING = Toleration(operator="Exists")


def requires(*terms: tuple[Requirement, ...], fields: tuple[Requirement, ...] = ()) -> NodeAffinity:
    made = [NodeSelectorTerm(match_expressions=it) for it in terms]
    return NodeAffinity(required=(*made, *((NodeSelectorTerm(match_fields=fields),) if fields else ())))


def need(key: str, operator: str, *values: str) -> tuple[Requirement, ...]:
    return (Requirement(key, operator, values),)


ZONE = "topology.kubernetes.io/zone"

CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a plain pod may go wherever no taint keeps it out": ({}, OPEN),
    "a toleration of everything lets it in everywhere, cordoned nodes too": ({"tolerations": (EVERYTHING,)}, ALL),
    "a taint with another value is not tolerated": (
        {"tolerations": (Toleration("spot", value="no"),)},
        OPEN,
    ),
    "a taint is tolerated by key and value": ({"tolerations": (Toleration("spot", value="yes"),)}, OPEN | {"spot"}),
    "a toleration of another effect does not help": (
        {"tolerations": (Toleration("spot", "Exists", effect="NoExecute"),)},
        OPEN,
    ),
    "seconds of a toleration do not matter for letting in": (
        {"tolerations": (Toleration("dying", "Exists", "", "NoExecute", 0),)},
        OPEN | {"dying"},
    ),
    "a preference not to be scheduled keeps nobody out": (
        {"tolerations": (Toleration("dying", "Exists"),)},
        OPEN | {"dying"},
    ),
    "a cordoned node lets in who tolerates being unschedulable": (
        {"tolerations": (Toleration(UNSCHEDULABLE_TAINT.key, "Exists", effect="NoSchedule"),)},
        OPEN | {"cordoned"},
    ),
    "a number is not compared in tolerations": ({"tolerations": (Toleration("spot", "Gt", "1"),)}, OPEN),
    "a node selector wants the very value": ({"node_selector": {"disk": "ssd"}}, {"big"}),
    "an empty value of a node selector is a value": ({"node_selector": {"disk": ""}}, {"small"}),
    "all labels of a node selector are wanted": ({"node_selector": {"disk": "ssd", ZONE: "b"}}, set()),
    "an unknown label is on no node": ({"node_selector": {"nowhere": "x"}}, set()),
    "In is met by any value": ({"node_affinity": requires(need(ZONE, "In", "a", "c"))}, {"big"}),
    "In with many values is the same": (
        {"node_affinity": requires(need(ZONE, "In", "a", "b", "c", "d", "e"))},
        {"big", "small"},
    ),
    "NotIn is met by nodes without the label": (
        {"node_affinity": requires(need(ZONE, "NotIn", "a"))},
        {"small", "odd"},
    ),
    "Exists does not look at the value": ({"node_affinity": requires(need("disk", "Exists"))}, {"big", "small"}),
    "DoesNotExist wants the label away": ({"node_affinity": requires(need("disk", "DoesNotExist"))}, {"odd"}),
    "Gt compares whole numbers": ({"node_affinity": requires(need("cores", "Gt", "8"))}, {"big"}),
    "Lt passes over what is no number": ({"node_affinity": requires(need("cores", "Lt", "65"))}, {"big", "small"}),
    "a bound that is no number is met by nothing": ({"node_affinity": requires(need("cores", "Gt", "many"))}, set()),
    "leading zeros are allowed in numbers": (
        {"node_affinity": requires(need("cores", "Gt", "009")), "tolerations": (EVERYTHING,)},
        {"big", "spot"},
    ),
    "one matching term is enough": (
        {"node_affinity": requires(need("disk", "In", "ssd"), need("cores", "In", "many"))},
        {"big", "odd"},
    ),
    "a term that cannot be parsed takes nothing from the others": (
        {"node_affinity": requires(need("disk", "Like", "s"), need("cores", "In", "many"))},
        {"odd"},
    ),
    "no terms at all match no node": ({"node_affinity": NodeAffinity(required=())}, set()),
    "an empty term matches no node": ({"node_affinity": NodeAffinity(required=(NodeSelectorTerm(),))}, set()),
    "a field names one node": ({"node_affinity": requires(fields=need(NAME_FIELD, "In", "odd"))}, {"odd"}),
    "a field names one node that is not wanted": (
        {"node_affinity": requires(fields=need(NAME_FIELD, "NotIn", "odd"))},
        {"big", "small"},
    ),
    "two names in one field match nothing": (
        {"node_affinity": requires(fields=need(NAME_FIELD, "In", "odd", "big"))},
        set(),
    ),
    "an unknown field reads as empty": ({"node_affinity": requires(fields=need("spec.x", "NotIn", "y"))}, OPEN),
    "selector and affinity must both agree": (
        {"node_selector": {ZONE: "a"}, "node_affinity": requires(need("cores", "Exists"))},
        {"big"},
    ),
    "a preference that cannot be parsed keeps no node away": (
        {"node_affinity": NodeAffinity(preferred=(PreferredNodeTerm(1, NodeSelectorTerm(need("cores", "Gt", "x"))),))},
        OPEN,
    ),
    "a pod with resource claims is not placed yet": ({"resource_claims": ("gpu",)}, set()),
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_pod_may_go_where_nodes_let_it_in(case: str) -> None:
    asked, expected = CASES[case]
    town = Town(NODES, [pod("it", **asked)])
    assert town.allowed("it") == expected


def test_a_pinned_shape_may_go_to_its_node_alone() -> None:
    static = Town(NODES, []).static
    mask = static.mask(PodShape.of(pod("it", on="big"), None))
    assert static.columns.names[int(np.flatnonzero(mask)[0])] == "big"
    assert mask.sum() == 1
    assert not static.mask(PodShape.of(pod("it", on="gone"), None)).any()


def test_masks_belong_to_who_asks() -> None:
    town = Town(NODES, [pod("it", node_selector={ZONE: "a"})])
    shape = town.shape("it")
    town.static.mask(shape)[:] = True
    town.static.matching(shape.node_selector, None)[:] = True
    town.static.tolerated(())[:] = True
    assert town.allowed("it") == {"big"}


def test_a_node_that_changes_is_worked_out_again() -> None:
    town = Town(NODES, [pod("it", node_selector={"disk": "ssd"}), pod("other")])
    static, before = town.static, town.snapshot.columns
    assert town.allowed("it") == {"big"}
    town.world.set_node(node("odd", labels={"disk": "ssd"}))
    town.world.set_node(node("spot", "a", labels={"disk": "ssd"}))
    after = town.world.snapshot().columns
    rows = static.changed_rows(after)
    assert rows is not None
    assert [before.names[row] for row in rows.tolist()] == ["odd", "spot"]
    static.update(after, rows)
    assert _names(static, town.shape("it")) == {"big", "odd", "spot"}
    assert _names(static, town.shape("other")) == OPEN | {"spot"}


def test_a_changed_node_is_seen_by_masks_whose_label_column_was_dropped() -> None:
    nodes = [node(f"node-{number}") for number in range(3)]
    town = Town(nodes, [pod("it", node_selector={"disk": "ssd"})])
    static = town.static
    static.labels._max_keys = 1
    assert town.allowed("it") == set()
    static.labels.column("another")
    town.world.set_node(node("node-1", labels={"disk": "ssd"}))
    after = town.world.snapshot().columns
    rows = static.changed_rows(after)
    assert rows is not None
    static.update(after, rows)
    assert _names(static, town.shape("it")) == {"node-1"}


def test_nodes_that_come_need_a_new_one() -> None:
    town = Town(NODES, [])
    town.world.set_node(node("newcomer"))
    assert town.static.changed_rows(town.world.snapshot().columns) is None


def test_few_masks_are_kept_within_the_memory_bound() -> None:
    columns = Town(NODES, []).snapshot.columns
    static = StaticFeasibility(columns, max_bytes=1)
    shapes = [_shape(node_selector={"cores": str(number)}) for number in range(100)]
    assert [int(static.mask(shape).sum()) for shape in shapes].count(1) == 2
    assert len(static._masks) <= 8


WHY: dict[str, tuple[dict[str, Any], list[tuple[Reason, str]]]] = {
    "nothing is said if every node will do": ({"tolerations": (EVERYTHING,)}, []),
    "how many nodes are tainted, and the commonest taint": (
        {},
        [
            (
                Reason.UNTOLERATED_TAINT,
                "3 of 6 nodes have a taint that the pod does not tolerate (dying:NoExecute).",
            )
        ],
    ),
    "only matching nodes are counted as tainted": (
        {"node_selector": {"cores": "010"}},
        [(Reason.UNTOLERATED_TAINT, "1 of 1 nodes have a taint that the pod does not tolerate (spot=yes:NoSchedule).")],
    ),
    "no node matches": (
        {"node_selector": {"cores": "9"}},
        [(Reason.NO_MATCHING_NODE, "None of 6 nodes matches the pod's node selector and affinity.")],
    ),
    "resource claims": (
        {"resource_claims": ("gpu",)},
        [(Reason.INVALID, "A pod has resource claims, which are not served yet.")],
    ),
}


@pytest.mark.parametrize("case", WHY, ids=list(WHY))
def test_it_says_why_nodes_are_ruled_out(case: str) -> None:
    asked, expected = WHY[case]
    found = Town(NODES, []).static.why(_shape(**asked))
    assert [(it.reason, str(it)) for it in found] == expected


def test_counts_add_up() -> None:
    found = Town(NODES, []).static.counts(_shape(node_selector={ZONE: "a"}))
    assert (found.nodes, found.matching, found.tainted, found.feasible) == (6, 3, 2, 1)
    assert found.taint == "node.kubernetes.io/unschedulable:NoSchedule"


def test_a_cluster_without_nodes_has_empty_masks() -> None:
    static = Town([], []).static
    assert static.mask(_shape(node_selector={"a": "b"})).shape == (0,)
    assert static.why(_shape())[0].reason is Reason.NO_MATCHING_NODE


def _shape(**asked: Any) -> PodShape:
    return PodShape.of(Pod("home", "it", "uid-it", **asked), None)


def _names(static: StaticFeasibility, shape: PodShape) -> set[str]:
    return {static.columns.names[row] for row in np.flatnonzero(static.mask(shape))}
