"""The one place that turns "name, parent" rows into trees: queues, topology domains and sub-groups all come so.

Rows come from users, so every broken tree is refused with a sentence that names the culprits, and never walked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class TreeError(ValueError):
    """The rows form no tree; the message says which and why."""


def parents_by_name(kind: str, rows: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """Name -> parent, refusing empty and repeated names. `kind` is the word for a row in error texts."""
    parents: dict[str, str | None] = {}
    for name, parent in rows:
        if not name:
            raise TreeError(f"a {kind} must have a name")
        if name in parents:
            raise TreeError(f'{kind} "{name}" is defined twice')
        parents[name] = parent
    return parents


def roots_first(kind: str, parents: Mapping[str, str | None]) -> list[str]:
    """All names, each after its parent and otherwise in the order given; refuses unknown parents and cycles."""
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise TreeError(f'{kind} "{name}" has the parent "{parent}", which does not exist')
    placed: set[str] = set()
    ordered: list[str] = []
    for name in parents:
        branch: list[str] = []
        walked: set[str] = set()
        current: str | None = name
        while current is not None and current not in placed:
            if current in walked:
                raise TreeError(_cycle_text(kind, branch, current))
            branch.append(current)
            walked.add(current)
            current = parents[current]
        placed |= walked
        ordered.extend(reversed(branch))
    return ordered


def children_by_name(parents: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    """Name -> names of its children, in the order given."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent is not None:
            children[parent].append(name)
    return {name: tuple(below) for name, below in children.items()}


def path_to_root(parent_of: Callable[[str], str | None], name: str) -> tuple[str, ...]:
    """The name and all above it, root last. The tree must have passed `roots_first`."""
    path = [name]
    while (parent := parent_of(path[-1])) is not None:
        path.append(parent)
    return tuple(path)


def _cycle_text(kind: str, branch: list[str], repeated: str) -> str:
    cycle = [*branch[branch.index(repeated) :], repeated]
    return f"{kind} parents form a cycle: " + " -> ".join(f'"{name}"' for name in cycle)
