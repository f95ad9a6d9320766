"""The spreading that kube-scheduler gives to pods that ask for none: softly over hosts and zones, by who manages them.

Which services and controllers there are is known only to whoever reads the API: it completes a pod with this before it
hands the pod to `World`, and again when a service or the controller's selector has changed. Nothing is read here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from allhands.core.scores.spread import system_default_spread
from allhands.model.selector import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.model.affinity import SpreadConstraint
    from allhands.model.pod import Pod


def with_default_spread(pod: Pod, services: Iterable[Mapping[str, str]], owner: LabelSelector | None = None) -> Pod:
    """The pod with the system's default constraints, where they hold for it; else the pod as it is.

    `services` are the selectors of the services of its namespace that have one; those that do not select the pod do not
    count. `owner` is the selector of the ReplicaSet, StatefulSet or ReplicationController that controls it, None for
    any other owner. A pod that is on a node is spread no more.
    """
    if pod.spread or pod.is_bound:
        return pod
    pairs = {
        pair
        for selector in services
        if all(pod.labels.get(key) == value for key, value in selector.items())
        for pair in selector.items()
    }
    of_owner = owner if owner is not None and owner.is_valid else LabelSelector()
    selector = LabelSelector(tuple(sorted(pairs.union(of_owner.match_labels))), of_owner.match_expressions)
    return pod if selector.is_empty else msgspec.structs.replace(pod, spread=_shared(selector))


@functools.lru_cache(maxsize=1 << 12)
def _shared(selector: LabelSelector) -> tuple[SpreadConstraint, ...]:
    """One value for all pods that are managed by the same."""
    return system_default_spread(selector)
