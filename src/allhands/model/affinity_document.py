"""Affinity and spreading as they stand in the JSON of a pod, and how they become terms that a scheduler uses.

Lists may be null and anything of the wrong type fails with the path of the field. The label keys of the pod itself
(`matchLabelKeys`, `mismatchLabelKeys`) are merged here, once: a server that merged them already is recognised.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

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
)
from allhands.model.selector import (
    LabelSelector,
    LabelSelectorDocument,
    Operator,
    Requirement,
    RequirementDocument,
    requirements_of,
    selector_of,
)

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""What the API keeps in 32 bits; a larger number in an object is refused as any wrong type is."""

_SPREAD_IS_HARD: Final = {"DoNotSchedule": True, "ScheduleAnyway": False}
_HONOR: Final = "Honor"


class NodeSelectorTermDocument(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[RequirementDocument, ...] | None = None
    match_fields: tuple[RequirementDocument, ...] | None = None

    def term(self) -> NodeSelectorTerm:
        return NodeSelectorTerm(requirements_of(self.match_expressions), requirements_of(self.match_fields))


class NodeSelectorDocument(msgspec.Struct, frozen=True, rename="camel"):
    node_selector_terms: tuple[NodeSelectorTermDocument, ...] | None = None

    def terms(self) -> tuple[NodeSelectorTerm, ...]:
        return tuple(it.term() for it in self.node_selector_terms or ())


class PreferredNodeTermDocument(msgspec.Struct, frozen=True):
    weight: Int32 = 0
    preference: NodeSelectorTermDocument = NodeSelectorTermDocument()


class NodeAffinityDocument(msgspec.Struct, frozen=True, rename="camel"):
    required_during_scheduling_ignored_during_execution: NodeSelectorDocument | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTermDocument, ...] | None = None


class PodTermDocument(msgspec.Struct, frozen=True, rename="camel"):
    label_selector: LabelSelectorDocument | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelectorDocument | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodTermDocument(msgspec.Struct, frozen=True, rename="camel"):
    weight: Int32 = 0
    pod_affinity_term: PodTermDocument = PodTermDocument()


class PodAffinityDocument(msgspec.Struct, frozen=True, rename="camel"):
    """`podAffinity` and `podAntiAffinity` look the same."""

    required_during_scheduling_ignored_during_execution: tuple[PodTermDocument, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodTermDocument, ...] | None = None


class AffinityDocument(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: NodeAffinityDocument | None = None
    pod_affinity: PodAffinityDocument | None = None
    pod_anti_affinity: PodAffinityDocument | None = None


class SpreadDocument(msgspec.Struct, frozen=True, rename="camel"):
    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelectorDocument | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


def node_affinity_of(document: AffinityDocument | None) -> NodeAffinity:
    if document is None or (node := document.node_affinity) is None:
        return NO_NODE_AFFINITY
    required = node.required_during_scheduling_ignored_during_execution
    preferred = tuple(
        PreferredNodeTerm(it.weight, it.preference.term())
        for it in node.preferred_during_scheduling_ignored_during_execution or ()
    )
    if required is None and not preferred:
        return NO_NODE_AFFINITY
    return NodeAffinity(None if required is None else required.terms(), preferred)


def pod_affinity_of(document: AffinityDocument | None, namespace: str, labels: Mapping[str, str]) -> PodAffinity:
    """What a pod of this namespace, with these labels, wants of other pods."""
    if document is None or (document.pod_affinity is None and document.pod_anti_affinity is None):
        return NO_POD_AFFINITY
    together, apart = (
        document.pod_affinity or PodAffinityDocument(),
        document.pod_anti_affinity or PodAffinityDocument(),
    )
    found = PodAffinity(
        required_together=_required(together, namespace, labels),
        preferred_together=_preferred(together, namespace, labels),
        required_apart=_required(apart, namespace, labels),
        preferred_apart=_preferred(apart, namespace, labels),
    )
    return NO_POD_AFFINITY if found.is_empty else found


def spread_of(documents: Iterable[SpreadDocument] | None, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """The constraints of a pod with these labels; one that says neither hard nor soft has no effect."""
    return tuple(
        SpreadConstraint(
            max_skew=document.max_skew,
            topology_key=document.topology_key,
            hard=_SPREAD_IS_HARD[document.when_unsatisfiable],
            selector=_spread_selector(document, labels),
            min_domains=document.min_domains,
            honor_node_affinity=document.node_affinity_policy in (None, _HONOR),
            honor_node_taints=document.node_taints_policy == _HONOR,
        )
        for document in documents or ()
        if document.when_unsatisfiable in _SPREAD_IS_HARD
    )


def looks_at_own_labels(affinity: AffinityDocument | None, spread: Iterable[SpreadDocument] | None) -> bool:
    """Whether what `pod_affinity_of` and `spread_of` make of them can depend on the labels of the pod itself."""
    if any(it.match_label_keys for it in spread or ()):
        return True
    sides = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(
        term.match_label_keys or term.mismatch_label_keys
        for side in sides
        if side is not None
        for term in (
            *(side.required_during_scheduling_ignored_during_execution or ()),
            *(it.pod_affinity_term for it in side.preferred_during_scheduling_ignored_during_execution or ()),
        )
    )


def _required(document: PodAffinityDocument, namespace: str, labels: Mapping[str, str]) -> tuple[PodTerm, ...]:
    terms = document.required_during_scheduling_ignored_during_execution
    return tuple(_pod_term(term, namespace, labels) for term in terms or ())


def _preferred(document: PodAffinityDocument, namespace: str, labels: Mapping[str, str]) -> tuple[WeightedPodTerm, ...]:
    terms = document.preferred_during_scheduling_ignored_during_execution
    return tuple(WeightedPodTerm(it.weight, _pod_term(it.pod_affinity_term, namespace, labels)) for it in terms or ())


def _pod_term(document: PodTermDocument, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    namespaces = tuple(sorted(set(document.namespaces or ())))
    if not namespaces and document.namespace_selector is None:
        namespaces = (namespace,)
    return PodTerm(
        selector=_term_selector(document, labels),
        topology_key=document.topology_key,
        namespaces=namespaces,
        namespace_selector=selector_of(document.namespace_selector),
    )


def _term_selector(document: PodTermDocument, labels: Mapping[str, str]) -> LabelSelector | None:
    """Kube-scheduler leaves the merging to the server, which does it when a pod is made, with the labels of then.

    So a key that was merged keeps its old value even if the pod was relabelled since.
    """
    selector = selector_of(document.label_selector)
    if selector is None:
        return None
    for operator, keys in ((Operator.IN, document.match_label_keys), (Operator.NOT_IN, document.mismatch_label_keys)):
        for key in keys or ():
            if key in labels and not _is_merged(selector, key, operator):
                selector = selector.with_requirement(Requirement(key, operator.value, (labels[key],)))
    return selector


def _is_merged(selector: LabelSelector, key: str, operator: Operator) -> bool:
    return any(it.key == key and it.operator == operator and len(it.values) == 1 for it in selector.match_expressions)


def _spread_selector(document: SpreadDocument, labels: Mapping[str, str]) -> LabelSelector | None:
    """Here kube-scheduler does merge, with the labels of now, whether or not the server did it before."""
    selector = selector_of(document.label_selector)
    if selector is None:
        return None
    for key in document.match_label_keys or ():
        if key in labels:
            selector = selector.with_requirement(Requirement(key, Operator.IN.value, (labels[key],)))
    return selector
