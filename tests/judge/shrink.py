"""Makes a failing case small: objects, then parts of objects, go as long as the failure stays.

What "fails" means is the caller's question; here it is only asked, a bounded number of times. The answer must be no for
a case that is not valid at all. The result always fails.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tests.judge.clusters import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Manifest = dict[str, Any]
Path = tuple[str | int, ...]

MOST_TRIES = 150
KEPT = {"apiVersion", "kind", "name", "namespace", "containers", "metadata", "spec", "nodeName", "image"}
"""Keys without which an object is not itself any more; what is inside them may go."""


class _Budget:
    def __init__(self, fails: Callable[[Case], bool], tries: int) -> None:
        self._fails = fails
        self.tries = tries

    def fails(self, case: Case) -> bool:
        if self.tries <= 0:
            return False
        self.tries -= 1
        return self._fails(case)


def shrunk(case: Case, position: int, fails: Callable[[Case], bool], tries: int = MOST_TRIES) -> Case:
    """The smallest case found with the pod at `position` alone that still fails."""
    budget = _Budget(fails, tries)
    alone = Case(case.seed, case.world, [case.pods[position]], [case.themes[position]])
    if not budget.fails(alone):
        return case
    fewer = _without_objects(alone, budget)
    return _without_parts(fewer, budget)


def _without_objects(case: Case, budget: _Budget) -> Case:
    """Drops runs of objects, long runs first. Namespaces stay: they are always there."""
    entries = [(kind, each) for kind, found in case.world.items() for each in found if kind != "Namespace"]
    always = case.world.get("Namespace", [])
    length = max(len(entries) // 2, 1)
    while entries and budget.tries > 0:
        start = 0
        while start < len(entries):
            fewer = entries[:start] + entries[start + length :]
            smaller = Case(case.seed, _world(always, fewer), case.pods, case.themes)
            if budget.fails(smaller):
                entries, case = fewer, smaller
            else:
                start += length
        if length == 1:
            break
        length //= 2
    return case


def _world(namespaces: list[Manifest], entries: list[tuple[str, Manifest]]) -> dict[str, list[Manifest]]:
    world: dict[str, list[Manifest]] = {"Namespace": namespaces} if namespaces else {}
    for kind, each in entries:
        world.setdefault(kind, []).append(each)
    return world


def _without_parts(case: Case, budget: _Budget) -> Case:
    """Drops one key or list entry after another, the pod's own first, as long as anything can go."""
    changed = True
    while changed and budget.tries > 0:
        changed = False
        for where in list(_parts(case)):
            smaller = _without(case, where)
            if smaller is not None and budget.fails(smaller):
                case, changed = smaller, True
    return case


def _parts(case: Case) -> Iterator[Path]:
    for path in _paths(case.pods[0]):
        yield ("", 0, *path)
    for kind, found in case.world.items():
        for number, manifest in enumerate(found):
            for path in _paths(manifest):
                yield (kind, number, *path)


def _paths(value: Any, prefix: Path = ()) -> Iterator[Path]:
    """Where something can be taken out; outer parts before inner ones, list entries from the last."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in KEPT:
                yield (*prefix, key)
            yield from _paths(inner, (*prefix, key))
    elif isinstance(value, list):
        for number in reversed(range(len(value))):
            if len(value) > 1:
                yield (*prefix, number)
            yield from _paths(value[number], (*prefix, number))


def _without(case: Case, where: Path) -> Case | None:
    """The case without that part, or nothing if the part went with another one."""
    kind, number, *path = where
    smaller = Case(case.seed, copy.deepcopy(case.world), copy.deepcopy(case.pods), case.themes)
    parent: Any = smaller.world[str(kind)] if kind else smaller.pods
    try:
        for step in (number, *path[:-1]):
            parent = parent[step]
        del parent[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return smaller
