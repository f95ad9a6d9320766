"""Where a pod may and would like to be: by what its node is, by what runs near it, and by how its kind is spread.

Terms stand as a scheduler uses them: namespaces defaulted, label keys of the pod merged into selectors. Whoever makes
these values has done that; nobody after that looks at the pod to understand a term.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from allhands.model.selector import LabelSelector, Requirement

NAME_FIELD: Final = "metadata.name"


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False):
    """All conditions must hold. An empty term and one that cannot be parsed match no node.

    Where no name is given (a volume asks only about labels), conditions on fields are passed over.
    """

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.match_expressions and not self.match_fields

    @property
    def is_valid(self) -> bool:
        return all(it.is_valid for it in self.match_expressions) and all(map(_is_valid_field, self.match_fields))

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.is_empty:
            return False
        for requirement in self.match_expressions:
            if not requirement.matches(labels):
                return False
        for field in self.match_fields:
            if name and not _field_matches(field, name):
                return False
        return self.is_valid


class PreferredNodeTerm(msgspec.Struct, frozen=True, gc=False):
    weight: int
    term: NodeSelectorTerm


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """`required` None asks for nothing; an empty tuple asks for what no node has. One matching term is enough."""

    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredNodeTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node is allowed. A term that cannot be parsed takes nothing from the others."""
        return self.required is None or any(term.matches(labels, name) for term in self.required)

    @property
    def is_valid(self) -> bool:
        """Whether a preference can be parsed; kube-scheduler places no pod with one that cannot, if its weight counts.

        Of required terms it is not asked: one that cannot be parsed just matches no node.
        """
        return all(it.weight == 0 or it.term.is_valid for it in self.preferred)

    def weight(self, labels: Mapping[str, str], name: str) -> int:
        """The sum of the weights of the preferences that a node meets."""
        return sum(it.weight for it in self.preferred if it.term.matches(labels, name))


NO_NODE_AFFINITY: Final = NodeAffinity()


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """The pods that one affinity term speaks of: those that `selector` matches, in `namespaces` (sorted) or in those
    that `namespace_selector` matches. None matches nothing, in both places."""

    selector: LabelSelector | None
    topology_key: str
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None

    @property
    def is_valid(self) -> bool:
        return all(it is None or it.is_valid for it in (self.selector, self.namespace_selector))

    def matches_namespace(self, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)

    def matches_pod(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if self.selector is None or not self.matches_namespace(namespace, namespace_labels):
            return False
        return self.selector.matches(labels)


class WeightedPodTerm(msgspec.Struct, frozen=True, gc=False):
    weight: int
    term: PodTerm


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which pods must or should be near it (`together`), and which must not or should not (`apart`)."""

    required_together: tuple[PodTerm, ...] = ()
    preferred_together: tuple[WeightedPodTerm, ...] = ()
    required_apart: tuple[PodTerm, ...] = ()
    preferred_apart: tuple[WeightedPodTerm, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.required_together or self.preferred_together or self.required_apart or self.preferred_apart)

    @property
    def is_valid(self) -> bool:
        """Whether every term can be parsed; kube-scheduler places no pod for which this is not so."""
        return all(term.is_valid for term in self.terms())

    def terms(self) -> Iterator[PodTerm]:
        yield from self.required_together
        yield from self.required_apart
        for weighted in (*self.preferred_together, *self.preferred_apart):
            yield weighted.term


NO_POD_AFFINITY: Final = PodAffinity()


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """Keeps the pods of the own namespace that `selector` matches even over the values of `topology_key`.

    `hard` forbids a larger skew than `max_skew`, else it only costs points. `min_domains` None counts as 1.
    """

    max_skew: int
    topology_key: str
    hard: bool
    selector: LabelSelector | None = None
    min_domains: int | None = None
    honor_node_affinity: bool = True
    honor_node_taints: bool = False


def selecting_keys(pod_affinity: PodAffinity, spread: Iterable[SpreadConstraint]) -> frozenset[str] | None:
    """The label keys of pods that these look at; None if they look at no pods at all."""
    selectors = [
        *(term.selector for term in pod_affinity.terms()),
        *(constraint.selector for constraint in spread),
    ]
    if not selectors:
        return None
    return frozenset().union(*(selector.keys for selector in selectors if selector is not None))


def _is_valid_field(requirement: Requirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _field_matches(requirement: Requirement, name: str) -> bool:
    # Only the name is known; any other field reads as an empty text.
    value = name if requirement.key == NAME_FIELD else ""
    found = value in requirement.values
    return found if requirement.operator == "In" else not found
