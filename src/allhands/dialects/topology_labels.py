"""Domains from the labels of nodes: every value of a label is a domain, inside that of the next wider label.

Labels are named from the closest to the widest. A node that lacks the closest ones is directly in the first wider
domain that it names. Equal values in different wider domains are different domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from allhands.model.domain import Domain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.model.node import Node

_Path: TypeAlias = tuple[tuple[int, str], ...]
"""Tier and value of each label that a node has, from the widest to the closest."""

DEFAULT_LABELS: Final = (
    "topology.allhands.dev/rack",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)


def domains_of(nodes: Iterable[Node], labels: tuple[str, ...]) -> tuple[Domain, ...]:
    """The same for the same nodes, in whatever order they come. A node with an empty label is as one without it."""
    homes: dict[_Path, list[str]] = {}
    paths: dict[_Path, None] = {}
    for node in nodes:
        path: _Path = ()
        for tier in range(len(labels), 0, -1):
            if value := node.labels.get(labels[tier - 1]):
                path = (*path, (tier, value))
                paths[path] = None
        if path:
            homes.setdefault(path, []).append(node.name)
    ordered = sorted(paths, key=lambda it: (len(it), [(-tier, value) for tier, value in it]))
    names = _names(ordered, labels)
    domains = (
        Domain(
            names[path],
            path[-1][0],
            names.get(path[:-1]),
            tuple(sorted(homes.get(path, ()))),
            labels[path[-1][0] - 1],
        )
        for path in ordered
    )
    return tuple(sorted(domains, key=lambda it: it.name))


def _names(ordered: Iterable[_Path], labels: tuple[str, ...]) -> dict[_Path, str]:
    """Values from the widest to the closest. Of two that would be called the same, the closer one names its label."""
    names: dict[_Path, str] = {}
    taken: set[str] = set()
    for path in ordered:
        tier, value = path[-1]
        name = f"{names[path[:-1]]}/{value}" if len(path) > 1 else value
        if name in taken:
            name = f"{labels[tier - 1]}={name}"
        taken.add(name)
        names[path] = name
    return names
