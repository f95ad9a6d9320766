"""What affinity terms say about pods: which pods a term of the pod to be placed means, which terms of others mean it.

The two are not asked in quite the same way, as in kube-scheduler; both ways are here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from allhands.core.feasibility.counts import Pair, selects, sure_pair

if TYPE_CHECKING:
    from allhands.core.feasibility.counts import Occupants
    from allhands.model.affinity import PodAffinity, PodTerm
    from allhands.model.shape import PodShape

HARD_TERM_POINTS: Final = 1
"""What a pod's required affinity is worth to others that it means, as kube-scheduler is set by default."""
_NO_LABELS: Final[Mapping[str, str]] = {}

WeightedTerms: TypeAlias = "list[tuple[PodTerm, int]]"
TermsOf: TypeAlias = Callable[["PodAffinity"], "list[tuple[PodTerm, int]]"]


def terms_apart(affinity: PodAffinity) -> WeightedTerms:
    """Terms that forbid."""
    return [(term, 1) for term in affinity.required_apart]


def terms_preferred(affinity: PodAffinity) -> WeightedTerms:
    """Terms that make domains better or worse for the pod that has them."""
    return [
        *((it.term, it.weight) for it in affinity.preferred_together),
        *((it.term, -it.weight) for it in affinity.preferred_apart),
    ]


def terms_liked(affinity: PodAffinity) -> WeightedTerms:
    """Terms of a pod that is there that make its domain better or worse for the pods that they mean."""
    return [*((term, HARD_TERM_POINTS) for term in affinity.required_together), *terms_preferred(affinity)]


class Namespaces:
    """The labels of namespaces, and what terms make of them."""

    def __init__(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = labels

    def is_meant(self, term: PodTerm, shape: PodShape) -> bool:
        """Whether the term of a pod that is there means a pod to be placed."""
        namespace_labels = self._labels.get(shape.namespace, _NO_LABELS)
        return term.matches_pod(shape.namespace, dict(shape.labels), namespace_labels)

    def means(self, term: PodTerm, shape: PodShape) -> bool:
        """Whether the term of the pod to be placed means a pod that is there.

        Kube-scheduler 1.36 looks up the namespaces that the selector matches, and then asks the selector once more
        about no labels at all: one that a namespace without labels would meet speaks of every namespace.
        """
        if not selects(term.selector, dict(shape.labels)):
            return False
        namespace_labels = self._labels.get(shape.namespace, _NO_LABELS)
        return term.matches_namespace(shape.namespace, namespace_labels) or selects(term.namespace_selector, _NO_LABELS)


class TermIndex:
    """Terms of many pods, found by the labels of the pods that they mean."""

    def __init__(self) -> None:
        self._owners: dict[PodTerm, list[int]] = {}
        self._by_pair: dict[Pair, list[PodTerm]] = {}
        self._others: list[PodTerm] = []

    def __bool__(self) -> bool:
        return bool(self._owners)

    def add(self, term: PodTerm, owner: int | None = None) -> None:
        """`owner` is the number of a shape of which pods are there; None if the term is only of waiting pods."""
        if term.selector is None:
            return
        owners = self._owners.get(term)
        if owners is None:
            owners = self._owners[term] = []
            pair = sure_pair(term.selector)
            (self._others if pair is None else self._by_pair.setdefault(pair, [])).append(term)
        if owner is not None:
            owners.append(owner)

    def owners(self, term: PodTerm) -> Iterable[int]:
        return self._owners[term]

    def about(self, shape: PodShape, is_about: Callable[[PodTerm, PodShape], bool]) -> Iterator[PodTerm]:
        """The terms that mean a pod of this shape."""
        for term in self._others:
            if is_about(term, shape):
                yield term
        for pair in shape.labels if self._by_pair else ():
            for term in self._by_pair.get(pair, ()):
                if is_about(term, shape):
                    yield term


class MeantByOwn:
    """Watches pods that terms of the pod to be placed mean, each for itself."""

    def __init__(self, terms: WeightedTerms, namespaces: Namespaces) -> None:
        self._terms = terms
        self._namespaces = namespaces

    def weight(self, shape: PodShape) -> int:
        return sum(weight for term, weight in self._terms if self._namespaces.means(term, shape))

    def candidates(self, occupants: Occupants) -> Iterable[int]:
        for term, _ in self._terms:
            if term.selector is not None:
                yield from occupants.having(sure_pair(term.selector))


class MeantByAll:
    """Watches pods that all of these terms of the pod to be placed mean."""

    def __init__(self, terms: tuple[PodTerm, ...], namespaces: Namespaces) -> None:
        self._terms = terms
        self._namespaces = namespaces

    def weight(self, shape: PodShape) -> int:
        return int(all(self._namespaces.means(term, shape) for term in self._terms))

    def candidates(self, occupants: Occupants) -> Iterable[int]:
        if any(term.selector is None for term in self._terms):
            return ()
        sure = next((pair for term in self._terms if (pair := sure_pair(term.selector)) is not None), None)
        return occupants.having(sure)


class MeaningIt:
    """Watches pods by their own terms, those that mean the pod to be placed."""

    def __init__(
        self, it: PodShape, terms_of: TermsOf, topology_key: str, known: TermIndex, namespaces: Namespaces
    ) -> None:
        self._it = it
        self._terms_of = terms_of
        self._topology_key = topology_key
        self._known = known
        self._namespaces = namespaces

    def weight(self, shape: PodShape) -> int:
        return sum(
            weight
            for term, weight in self._terms_of(shape.pod_affinity)
            if term.topology_key == self._topology_key and self._namespaces.is_meant(term, self._it)
        )

    def candidates(self, occupants: Occupants) -> Iterable[int]:  # noqa: ARG002 -- the index knows the owners
        for term in self._known.about(self._it, self._namespaces.is_meant):
            if term.topology_key == self._topology_key:
                yield from self._known.owners(term)
