"""Affinity terms against nodes and pods, and how they come out of the JSON of a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.affinity import (
    NO_NODE_AFFINITY,
    NO_POD_AFFINITY,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodTerm,
    PreferredNodeTerm,
    SpreadConstraint,
    WeightedPodTerm,
    selecting_keys,
)
from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.model.selector import EVERYTHING, LabelSelector, Requirement

IN_ZONE_A = Requirement("zone", "In", ("a",))
NODE = {"zone": "a", "disk": "ssd"}


def by_name(operator: str, *names: str) -> Requirement:
    return Requirement("metadata.name", operator, names)


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (NodeSelectorTerm(), False),
        (NodeSelectorTerm((IN_ZONE_A,)), True),
        (NodeSelectorTerm((IN_ZONE_A, Requirement("disk", "NotIn", ("ssd",)))), False),
        (NodeSelectorTerm((), (by_name("In", "n1"),)), True),
        (NodeSelectorTerm((), (by_name("NotIn", "n1"),)), False),
        (NodeSelectorTerm((IN_ZONE_A,), (by_name("In", "n2"),)), False),
        (NodeSelectorTerm((), (by_name("In", "n1", "n2"),)), False),
        (NodeSelectorTerm((), (by_name("Exists"),)), False),
        (NodeSelectorTerm((), (Requirement("spec.other", "In", ("",)),)), True),
        (NodeSelectorTerm((), (Requirement("spec.other", "In", ("x",)),)), False),
        (NodeSelectorTerm((), (Requirement("spec.other", "NotIn", ("x",)),)), True),
        (NodeSelectorTerm((IN_ZONE_A, Requirement("x", "NotIn", ("not a label value",)))), False),
        (NodeSelectorTerm((Requirement("x", "NotIn"),)), False),
    ],
    ids=[
        "an empty term",
        "a label",
        "all conditions must hold",
        "the name",
        "not this name",
        "both labels and fields",
        "a field wants exactly one value",
        "a field cannot exist",
        "an unknown field is empty",
        "and has no value",
        "and is not any value",
        "a condition that cannot be parsed",
        "a list of no values",
    ],
)
def test_a_node_term_against_a_node(term: NodeSelectorTerm, wanted: bool) -> None:
    assert term.matches(NODE, "n1") is wanted


def test_without_a_name_only_labels_are_asked_but_the_term_must_be_parsable() -> None:
    assert NodeSelectorTerm((IN_ZONE_A,), (by_name("In", "n2"),)).matches(NODE, "")
    assert not NodeSelectorTerm((IN_ZONE_A,), (by_name("Exists"),)).matches(NODE, "")


def test_one_required_term_is_enough_and_a_broken_one_takes_nothing_from_it() -> None:
    broken = NodeSelectorTerm((Requirement("zone", "Like"),))
    assert NodeAffinity((broken, NodeSelectorTerm((IN_ZONE_A,)))).matches(NODE, "n")
    assert not NodeAffinity((broken,)).matches(NODE, "n")
    assert NodeAffinity((broken,)).is_valid


def test_no_required_terms_allow_no_node_but_an_absent_requirement_allows_all() -> None:
    assert not NodeAffinity(()).matches(NODE, "n")
    assert NO_NODE_AFFINITY.matches(NODE, "n")


def test_preferences_add_up_and_a_broken_one_counts_unless_it_weighs_nothing() -> None:
    broken = NodeSelectorTerm((Requirement("zone", "Like"),))
    preferred = (
        PreferredNodeTerm(5, NodeSelectorTerm((IN_ZONE_A,))),
        PreferredNodeTerm(3, NodeSelectorTerm((), (by_name("In", "n1"),))),
        PreferredNodeTerm(9, NodeSelectorTerm()),
    )
    assert NodeAffinity(None, preferred).weight(NODE, "n1") == 8
    assert NodeAffinity(None, preferred).is_valid
    assert NodeAffinity(None, (PreferredNodeTerm(0, broken),)).is_valid
    assert not NodeAffinity(None, (PreferredNodeTerm(1, broken),)).is_valid


WEB = LabelSelector.of({"app": "web"})


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (PodTerm(WEB, "zone", ("shop",)), True),
        (PodTerm(WEB, "zone", ("other",)), False),
        (PodTerm(None, "zone", ("shop",)), False),
        (PodTerm(EVERYTHING, "zone", ("shop",)), True),
        (PodTerm(LabelSelector.of({"app": "db"}), "zone", ("shop",)), False),
        (PodTerm(WEB, "zone", (), EVERYTHING), True),
        (PodTerm(WEB, "zone", (), None), False),
        (PodTerm(WEB, "zone", ("other",), LabelSelector.of({"team": "red"})), True),
        (PodTerm(WEB, "zone", ("other",), LabelSelector.of({"team": "blue"})), False),
    ],
    ids=[
        "its namespace",
        "another namespace",
        "no selector matches nothing",
        "an empty one matches everything",
        "other labels",
        "all namespaces",
        "no namespaces",
        "a namespace by its labels",
        "a namespace with other labels",
    ],
)
def test_a_pod_term_against_a_pod(term: PodTerm, wanted: bool) -> None:
    assert term.matches_pod("shop", {"app": "web"}, {"team": "red"}) is wanted


def read(spec: dict[str, Any], labels: dict[str, str] | None = None) -> Pod:
    return Pod.from_document(
        msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "labels": labels}, "spec": spec}, PodDocument)
    )


def affinity(kind: str, required: list[dict[str, Any]] | None = None, preferred: Any = None) -> dict[str, Any]:
    return {
        "affinity": {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
        }
    }


def test_node_affinity_is_read_from_a_pod() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, {}]
    spec = {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": terms[0]}],
            }
        }
    }
    zone = NodeSelectorTerm((IN_ZONE_A,))
    assert read(spec).node_affinity == NodeAffinity((zone, NodeSelectorTerm()), (PreferredNodeTerm(7, zone),))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": None},
        {"affinity": {}},
        {"affinity": {"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": None}},
        affinity("podAffinity", [], []),
    ],
    ids=str,
)
def test_a_pod_that_wants_nothing_shares_the_constants(spec: dict[str, Any]) -> None:
    pod = read(spec)
    assert pod.node_affinity is NO_NODE_AFFINITY
    assert pod.pod_affinity is NO_POD_AFFINITY
    assert pod.spread == ()


def test_an_empty_node_selector_is_not_an_absent_one() -> None:
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}
    assert read(spec).node_affinity == NodeAffinity(())


def test_pod_affinity_is_read_from_a_pod() -> None:
    near = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    far = {"topologyKey": "host", "namespaces": ["b", "a", "b"], "namespaceSelector": {}}
    spec = affinity("podAffinity", [near], [{"weight": 3, "podAffinityTerm": far}])
    spec["affinity"] |= affinity("podAntiAffinity", [far], [{"weight": 4, "podAffinityTerm": near}])["affinity"]
    near_term, far_term = PodTerm(WEB, "zone", ("ns",)), PodTerm(None, "host", ("a", "b"), EVERYTHING)
    assert read(spec).pod_affinity == PodAffinity(
        (near_term,), (WeightedPodTerm(3, far_term),), (far_term,), (WeightedPodTerm(4, near_term),)
    )


def test_a_namespace_selector_alone_does_not_add_the_own_namespace() -> None:
    term = {"labelSelector": {}, "topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "red"}}}
    (found,) = read(affinity("podAffinity", [term])).pod_affinity.required_together
    assert found.namespaces == ()
    assert not found.matches_pod("ns", {}, {})


def merged(term: dict[str, Any], labels: dict[str, str]) -> LabelSelector | None:
    (found,) = read(affinity("podAffinity", [{"topologyKey": "zone", **term}]), labels).pod_affinity.required_together
    return found.selector


def test_label_keys_of_the_pod_are_merged_into_its_terms_once() -> None:
    term = {"labelSelector": {}, "matchLabelKeys": ["v", "absent"], "mismatchLabelKeys": ["t"]}
    wanted = LabelSelector((), (Requirement("v", "In", ("1",)), Requirement("t", "NotIn", ("x",))))
    assert merged(term, {"v": "1", "t": "x"}) == wanted
    by_server = {
        "matchExpressions": [
            {"key": "v", "operator": "In", "values": ["1"]},
            {"key": "t", "operator": "NotIn", "values": ["x"]},
        ]
    }
    assert merged({**term, "labelSelector": by_server}, {"v": "1", "t": "x"}) == wanted


def test_a_pod_that_was_relabelled_keeps_what_the_server_merged() -> None:
    by_server = {"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]}
    term = {"labelSelector": by_server, "matchLabelKeys": ["v"]}
    assert merged(term, {"v": "2"}) == LabelSelector((), (Requirement("v", "In", ("1",)),))


def test_a_term_without_a_selector_still_matches_nothing_with_label_keys() -> None:
    assert merged({"matchLabelKeys": ["v"]}, {"v": "1"}) is None


def test_spread_constraints_are_read_from_a_pod() -> None:
    spec = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["v", "absent"],
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            },
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["v"]},
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "Perhaps"},
        ]
    }
    hard = LabelSelector((("app", "web"),), (Requirement("v", "In", ("1",)),))
    assert read(spec, {"v": "1"}).spread == (
        SpreadConstraint(2, "zone", True, hard, 3, honor_node_affinity=False, honor_node_taints=True),
        SpreadConstraint(1, "host", False),
    )


def test_spreading_merges_the_label_of_now_even_if_the_server_merged_another() -> None:
    by_server = {"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]}
    spec = {
        "topologySpreadConstraints": [
            {
                "topologyKey": "z",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": by_server,
                "matchLabelKeys": ["v"],
            }
        ]
    }
    (same,) = read(spec, {"v": "1"}).spread
    assert same.selector == LabelSelector((), (Requirement("v", "In", ("1",)),))
    (other,) = read(spec, {"v": "2"}).spread
    assert other.selector == LabelSelector((), (Requirement("v", "In", ("1",)), Requirement("v", "In", ("2",))))


def test_the_keys_that_a_pod_looks_at() -> None:
    assert selecting_keys(NO_POD_AFFINITY, ()) is None
    assert selecting_keys(PodAffinity(preferred_apart=(WeightedPodTerm(1, PodTerm(WEB, "z")),)), ()) == frozenset(
        {"app"}
    )
    spread = (SpreadConstraint(1, "z", True, LabelSelector.of({"b": "1"})), SpreadConstraint(1, "z", True, None))
    assert selecting_keys(PodAffinity(required_apart=(PodTerm(WEB, "z"),)), spread) == frozenset({"app", "b"})
    assert selecting_keys(PodAffinity(required_together=(PodTerm(EVERYTHING, "z"),)), ()) == frozenset()


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"affinity": {"nodeAffinity": 3}}, r"\$\.spec\.affinity\.nodeAffinity"),
        (affinity("podAffinity", [{"topologyKey": 1}]), r"podAffinity\.required\w+\[0\]\.topologyKey"),
        (affinity("podAffinity", None, [{"weight": 2**40}]), r"podAffinity\.preferred\w+\[0\]\.weight"),
        ({"topologySpreadConstraints": [{"maxSkew": "2"}]}, r"topologySpreadConstraints\[0\]\.maxSkew"),
    ],
    ids=["node affinity", "a term", "a weight beyond 32 bits", "a skew"],
)
def test_affinity_of_the_wrong_shape_is_refused_with_the_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path):
        msgspec.json.decode(msgspec.json.encode({"spec": spec}), type=PodDocument)


def test_a_term_that_cannot_be_parsed_makes_the_affinity_invalid() -> None:
    broken = LabelSelector.of(None, [Requirement("a", "In")])
    assert PodAffinity(required_apart=(PodTerm(WEB, "z"),)).is_valid
    assert not PodAffinity(preferred_together=(WeightedPodTerm(1, PodTerm(broken, "z")),)).is_valid
    assert not PodAffinity(required_apart=(PodTerm(WEB, "z", (), broken),)).is_valid
