"""Gives each pod its shape, one object for all that are alike, and knows which labels matter for that.

A shape holds only the labels that some pod or budget selects by. Whoever keeps shapes asks `settle` whether that has
changed, and then asks for all of them anew. What is remembered here does not show in the shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.model.shape import PodShape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.model.pod import Pod

MOST_SHAPES_SHARED: Final = 1 << 16
"""Of so many shapes one object each is kept for all pods alike; beyond that it begins anew."""
MOST_KINDS_REMEMBERED: Final = 1 << 12


class PodShapes:
    def __init__(self) -> None:
        self._shapes: dict[str, PodShape] = {}
        self._seen: dict[int, tuple[Pod, PodShape]] = {}
        """By the identity of what it requests: who reads pods gives those that are alike the very same parts. The pod
        is kept, so that no other object can have that identity."""
        self._selecting: dict[str, int] = {}
        self._selecting_pods = 0
        self._label_keys: frozenset[str] | None = None
        self._budget_keys: frozenset[str] | None = None

    def of(self, pod: Pod) -> PodShape:
        """Raises OverflowError for a number beyond 64 bits."""
        seen = self._seen.get(id(pod.requests))
        if seen is not None and self._are_alike(pod, seen[0]):
            return seen[1]
        shape = PodShape.of(pod, self._label_keys, pinned=False)
        if len(self._shapes) >= MOST_SHAPES_SHARED:
            self._shapes.clear()
        shape = self._shapes.setdefault(shape.digest, shape)
        if len(self._seen) >= MOST_KINDS_REMEMBERED:
            self._seen.clear()
        self._seen[id(pod.requests)] = (pod, shape)
        return shape

    def _are_alike(self, pod: Pod, other: Pod) -> bool:
        """Whether it is plain that they have one shape; False says nothing."""
        return (
            pod.requests is other.requests
            and pod.node_selector is other.node_selector
            and pod.node_affinity is other.node_affinity
            and pod.tolerations is other.tolerations
            and pod.images is other.images
            and pod.host_ports is other.host_ports
            and pod.claims is other.claims
            and pod.volumes is other.volumes
            and pod.resource_claims is other.resource_claims
            and pod.container_count == other.container_count
            and pod.namespace == other.namespace
            and not pod.ephemeral_claims
            and not other.ephemeral_claims
            and bool(pod.uid) == bool(other.uid)
            and pod.pod_affinity is other.pod_affinity
            and pod.spread is other.spread
            and (
                pod.labels is other.labels
                or (self._label_keys is None and not pod.spread and pod.pod_affinity.is_empty)
            )
        )

    # -- which labels matter

    def select_for_budgets(self, selectors: Iterable[frozenset[str]]) -> None:
        """The keys that each budget looks at."""
        found = list(selectors)
        self._budget_keys = frozenset().union(*found) if found else None

    def count_selecting(self, keys: frozenset[str] | None, by: int) -> None:
        """So many more pods look at labels with these keys; None: at none."""
        if keys is None:
            return
        self._selecting_pods += by
        for key in keys:
            count = self._selecting.get(key, 0) + by
            if count:
                self._selecting[key] = count
            else:
                del self._selecting[key]

    def settle(self) -> bool:
        """Whether other labels matter than before: then every shape must be asked for anew."""
        keys = frozenset(self._selecting) if self._selecting_pods else None
        if self._budget_keys is not None:
            keys = self._budget_keys if keys is None else keys | self._budget_keys
        if keys == self._label_keys:
            return False
        self._label_keys = keys
        self._shapes.clear()
        self._seen.clear()
        return True
