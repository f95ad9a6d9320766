"""A claim that has its volume: the pod goes where the volume can be used."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.core.feasibility.volume_needs import VolumeProblem
from allhands.model.affinity import NodeSelectorTerm
from allhands.model.pod_volume import Attachment
from allhands.model.selector import Requirement
from allhands.model.volume import CSINode, PersistentVolume
from tests.unit.core.feasibility.storage import HOST, THREE, ZONE, Shelf, asking, bound, facts, nodes, only, volume

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def term(*requirements: Requirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements)


def test_a_pod_without_volumes_is_not_looked_at() -> None:
    shelf = Shelf(facts())
    assert not shelf.filter.concerns(asking())
    assert not shelf.filter.is_dynamic(asking())
    assert shelf.open_to(asking()) == "a b c"
    assert shelf.filter.why(asking()) is None
    assert shelf.prepare(asking(), "a") == ()


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        (None, "a b c"),
        ((), ""),
        (only(HOST, "b"), "b"),
        (only(HOST, "b", "c", "elsewhere"), "b c"),
        ((*only(HOST, "a"), *only(ZONE, "west")), "a b c"),
        ((term(Requirement(ZONE, "In", ("west",)), Requirement(HOST, "NotIn", ("b",))),), "c"),
        ((term(Requirement(HOST, "In", ("a", "b")), Requirement(ZONE, "In", ("west",))),), "b"),
        ((term(Requirement("gpu", "DoesNotExist")),), "a b c"),
        ((term(Requirement(ZONE, "Exists")),), "a b c"),
        ((NodeSelectorTerm(),), ""),
        ((NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", ("a",)),)),), "a b c"),
        ((term(Requirement(ZONE, "Gt", ("many",))),), ""),
        ((term(Requirement(ZONE, "Gt", ("many",))), *only(HOST, "a")), "a"),
    ],
    ids=[
        "no affinity reaches every node",
        "an affinity without terms reaches none",
        "one node",
        "several nodes, one of them unknown",
        "one term is enough",
        "all conditions of a term must hold",
        "two lists of values must both hold",
        "a label that is nowhere",
        "a label that is everywhere",
        "an empty term matches nothing",
        "conditions on fields are passed over",
        "a term that cannot be parsed matches nothing",
        "a term that cannot be parsed takes nothing from the others",
    ],
)
def test_a_bound_volume_is_used_where_its_affinity_allows(
    terms: tuple[NodeSelectorTerm, ...] | None, wanted: str
) -> None:
    shelf = Shelf(facts(bound("data", PersistentVolume("pv", node_affinity=terms))))
    assert shelf.open_to(asking("data")) == wanted
    assert not shelf.filter.is_dynamic(asking("data"))
    assert (shelf.problem(asking("data")) is None) == bool(wanted)


def test_several_volumes_must_all_be_usable() -> None:
    shelf = Shelf(facts(bound("one", volume("x", "a", "b")), bound("two", volume("y", "b", "c"))))
    assert shelf.open_to(asking("one", "two")) == "b"


def test_volumes_that_no_node_reaches_together_blame_the_last_of_them() -> None:
    shelf = Shelf(facts(bound("one", volume("x", "a")), bound("two", volume("y", "b"))))
    assert shelf.problem(asking("one", "two")) == ("ns/two", VolumeProblem.OUT_OF_REACH)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({ZONE: "east"}, "a n"),
        ({ZONE: "east__west"}, "a b c n"),
        ({ZONE: "east__"}, "a b c n o"),
        ({ZONE: "north"}, "n"),
        ({REGION: "here"}, "n"),
        ({OLD_ZONE: "west"}, "b c n o"),
        ({OLD_ZONE: "east"}, "a n"),
        ({"zone": "east"}, "a b c n o"),
    ],
    ids=[
        "one zone",
        "a list of zones",
        "a list that cannot be read says nothing",
        "a zone without nodes",
        "a label that no node has",
        "the old name is matched by the old label or, without it, by the new one",
        "a node with the old label is not asked for the new one",
        "any other label means nothing",
    ],
)
def test_zone_labels_of_a_volume_bind_nodes_that_have_zone_labels(labels: dict[str, str], wanted: str) -> None:
    known = {**THREE, "n": {HOST: "n"}, "o": {OLD_ZONE: "west", HOST: "o"}}
    shelf = Shelf(facts(bound("data", PersistentVolume("pv", labels=labels))), labels=known)
    assert shelf.open_to(asking("data")) == wanted


def test_zone_labels_do_not_count_for_a_claim_that_was_made_for_the_pod() -> None:
    made = bound("p-scratch", PersistentVolume("pv", labels={ZONE: "east"}), owner_uid="uid-of-p")
    shelf = Shelf(facts(made))
    assert shelf.open_to(asking(own=("p-scratch",))) == "a b c"


DRIVER_ZONE = "topology.gke.io/zone"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"node_affinity": only(ZONE, "west")}, "b d"),
        ({"node_affinity": only(OLD_ZONE, "west")}, "d"),
        ({"labels": {ZONE: "west"}}, "b d"),
        ({"node_affinity": only("other", "x")}, ""),
        ({"labels": {ZONE: "west"}, "old_kind": "azureDisk"}, "b c d"),
        ({"node_affinity": only(ZONE, "west"), "old_kind": ""}, "b c"),
    ],
    ids=[
        "the driver's label stands for the zone label",
        "and for its old name",
        "and for a zone label of the volume, beside which the label still counts",
        "all else is asked as before",
        "a driver without topology asks as before",
        "a volume that a driver has had from the start is not translated",
    ],
)
def test_where_a_driver_has_taken_over_its_own_topology_counts(given: dict[str, Any], wanted: str) -> None:
    labels = {**nodes(a="east", b="west", c="west"), "d": {DRIVER_ZONE: "west"}}
    migrated = tuple(
        CSINode(name, migrated_plugins=("kubernetes.io/azure-disk", "kubernetes.io/gce-pd")) for name in "acd"
    )
    disk = {"old_kind": "gcePersistentDisk", "attachment": Attachment("driver", "handle"), **given}
    shelf = Shelf(facts(bound("data", PersistentVolume("pv", **disk)), migrated), labels=labels)
    assert shelf.open_to(asking("data")) == wanted


def test_a_disk_that_its_driver_cannot_name_is_not_used_where_the_driver_has_taken_over() -> None:
    pv = PersistentVolume("pv", old_kind="awsElasticBlockStore")
    taken_over = CSINode("a", migrated_plugins=("kubernetes.io/aws-ebs",))
    assert Shelf(facts(bound("data", pv), taken_over)).open_to(asking("data")) == "b c"
