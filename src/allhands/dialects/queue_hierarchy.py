"""The tree of queues that Volcano's hdrf reads from annotations: a path of names from the root, and a weight for each.

`volcano.sh/hierarchy: root/eng/prod` with `volcano.sh/hierarchy-weights: 1/2/8` puts a queue below "eng", which nobody
else has made: names on the way are accounts of their own, whose names no object can have. Only the shares of queues are
compared by it; what a queue may use is not changed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.queue import ROOT
from allhands.api.volcano.surroundings import HIERARCHY, HIERARCHY_WEIGHTS
from allhands.model.queue import Account, Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_MILLIS: Final = 10**9
MOST_LEVELS: Final = 32


class HierarchyError(ValueError):
    """What is wrong with the annotations."""


class Branch(msgspec.Struct, frozen=True):
    """Names from the root down, without it, each with its weight in thousandths. The last is the queue itself."""

    names: tuple[str, ...]
    weights_millis: tuple[int, ...]


def branch_of(annotations: Mapping[str, str]) -> Branch | None:
    """None where nothing is said. Raises a HierarchyError."""
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return None
    names, texts = path.split("/"), weights.split("/")
    if len(names) != len(texts) or not all(names):
        raise HierarchyError(f"metadata.annotations[{HIERARCHY}]: it must have as many names as there are weights")
    if len(names) > MOST_LEVELS:
        raise HierarchyError(f"metadata.annotations[{HIERARCHY}]: more than {MOST_LEVELS} names")
    millis = tuple(_millis(text) for text in texts)
    if names[0] == ROOT:
        names, millis = names[1:], millis[1:]
    return Branch(tuple(names), millis) if names else None


def _millis(text: str) -> int:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= MOST_MILLIS / 1000:
        raise HierarchyError(f"metadata.annotations[{HIERARCHY_WEIGHTS}]: {text[:20]!r} is no weight above 0")
    return max(1, round(1000 * weight))


def with_hierarchy(queues: Iterable[Queue], branches: Mapping[str, Branch]) -> tuple[Account | Queue, ...]:
    """The queues where their annotations put them, and the accounts above them. A queue that names a parent of its own
    stays there. Of different weights for one name the one of the first queue by name counts."""
    above: dict[str, Account] = {}
    placed: list[Queue] = []
    for queue in sorted(queues, key=lambda it: it.name):
        branch = branches.get(queue.name)
        if branch is None or queue.parent not in (ROOT, None) or queue.name == ROOT:
            placed.append(queue)
            continue
        parent = queue.parent
        for depth, (name, weight) in enumerate(zip(branch.names[:-1], branch.weights_millis, strict=False)):
            path = "/".join((ROOT, *branch.names[:depth], name))
            above.setdefault(path, Account(path, parent, weight_millis=weight))
            parent = path
        placed.append(msgspec.structs.replace(queue, parent=parent, weight_millis=branch.weights_millis[-1]))
    return (*above.values(), *placed)
