"""The cases of `allhands bench core`: how large each is, what it may take, and with what it is compared.

A case builds one snapshot; deciding it is what is timed. Sizes are fixed, so that figures of two runs can be compared;
the quick ones only show that everything runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from allhands.measure.core_worlds import hopeless, huge, owed_to_another, waiting_gangs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allhands.core.snapshot import Snapshot


class Case(NamedTuple):
    """`goal_seconds` is what it may take on two shared cores; None where only a ratio or the memory is judged."""

    name: str
    nodes: int
    groups: int
    pods_per_group: int
    shapes: int
    build: Callable[[Case], Snapshot]
    goal_seconds: float | None = None
    goal_mib: int | None = None
    repeat: Literal["cold", "again"] = "cold"
    """`cold`: with an empty memo each time; `again`: the same world once more, a second later."""
    queues: int = 1
    topology: bool = False
    is_judged: bool = True
    """Whether its sizes are those that the goals are about."""

    @property
    def title(self) -> str:
        shapes = f", {self.shapes:,} shapes" if self.shapes > 1 else ""
        return f"{self.name}, {self.nodes:,} nodes, {self.groups:,} × {self.pods_per_group:,} pods{shapes}"

    @property
    def base(self) -> Case | None:
        """The same without what it is about, for cases that are judged by a ratio."""
        if self.topology:
            return self._replace(topology=False)
        if self.queues > 1:
            return self._replace(queues=1)
        if self.name == "shapes" and self.shapes > 1:
            return self._replace(shapes=1)
        return None


class Sizes(NamedTuple):
    few_nodes: int
    many_nodes: int
    splits: tuple[tuple[int, int], ...]
    """The same number of pods as so many groups of so many: singles, small, large, one gang."""
    shapes: tuple[int, ...]
    queues: int
    reclaimed: int
    huge_nodes: int


FULL = Sizes(1_000, 10_000, ((10_000, 1), (500, 20), (20, 500), (1, 10_000)), (1, 100, 1_000), 100, 250, 100_000)
QUICK = Sizes(20, 40, ((60, 1), (12, 5), (3, 20), (1, 60)), (1, 4, 20), 20, 10, 60)


def cases(sizes: Sizes = FULL) -> tuple[Case, ...]:
    if sizes == FULL:
        return tuple(_cases(sizes))
    return tuple(case._replace(goal_seconds=None, goal_mib=None, is_judged=False) for case in _cases(sizes))


def _cases(sizes: Sizes) -> Iterator[Case]:
    singles, small = sizes.splits[:2]
    for nodes, goal in ((sizes.few_nodes, 0.3), (sizes.many_nodes, 1.0)):
        for groups, size in sizes.splits:
            yield Case("gangs", nodes, groups, size, 1, waiting_gangs, goal)
    for groups, size in (small, singles):
        for shapes in sizes.shapes:
            yield Case("shapes", sizes.many_nodes, groups, size, shapes, waiting_gangs)
    for nodes in (sizes.few_nodes, sizes.many_nodes):
        yield Case("topology", nodes, *small, 1, waiting_gangs, topology=True)
    for groups, size in (small, singles):
        yield Case("queues", sizes.few_nodes, groups, size, 1, waiting_gangs, queues=sizes.queues)
    yield Case("reclaim", sizes.few_nodes, 1, sizes.reclaimed, 1, owed_to_another, 0.5)
    yield Case("hopeless", sizes.few_nodes, *singles, 1, hopeless)
    yield Case("unchanged", sizes.few_nodes, *singles, 1, hopeless, 0.02, repeat="again")
    yield Case("huge", sizes.huge_nodes, *small, sizes.shapes[1], huge, goal_mib=2_048)
