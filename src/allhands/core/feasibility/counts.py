"""How many pods of some kind each domain holds: counted once from the table of pods, then kept up to date.

A count knows which shapes it counts (`Watch`) and which domain each node belongs to, nothing of what the number is for.
It is never counted pod by pod: a watch is asked about each distinct shape once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from allhands.core.feasibility.labels import ABSENT, ALL
from allhands.core.snapshot import PodFlag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.snapshot import PodTable
    from allhands.model.selector import LabelSelector
    from allhands.model.shape import PodShape

Pair = tuple[str, str]
"""A label with its value."""


class Watch(Protocol):
    """Which shapes a count counts, and how much one pod of each adds."""

    def weight(self, shape: PodShape) -> int: ...

    def candidates(self, occupants: Occupants) -> Iterable[int]:
        """Numbers of shapes, none missing that has a weight; more than those do no harm."""
        ...


class Count:
    """`values` has one number a domain. Nodes in no domain (`ABSENT`) hold nothing."""

    def __init__(
        self,
        watches: tuple[Watch, ...],
        domain_of_row: NDArray[np.int32],
        size: int,
        *,
        counted: Mask | None = None,
        leaving: bool = True,
    ) -> None:
        """`counted` false leaves the pods of a node out; `leaving` false those that are being deleted."""
        self.watches = watches
        self.domain_of_row = domain_of_row
        self.values: Column = np.zeros(size, dtype=np.int64)
        self.held: Column | None = None
        """Of `values`, those for whom room is held and who are not there yet; None as long as there are none."""
        self.includes_leaving = leaving
        self._adds_to = domain_of_row if counted is None else np.where(counted, domain_of_row, ABSENT)
        self._weights: dict[str, int] = {}

    def weight(self, shape: PodShape) -> int:
        """What one pod of this shape adds."""
        found = self._weights.get(shape.digest)
        if found is None:
            found = self._weights[shape.digest] = sum(watch.weight(shape) for watch in self.watches)
        return found

    def weight_if_nominated(self, shape: PodShape) -> int:
        """The same for a pod that is only nominated."""
        return self.weight(shape)

    def add(self, row: int, amount: int) -> None:
        domain = int(self._adds_to[row])
        if domain != ABSENT:
            self.values[domain] += amount

    def hold(self, row: int, amount: int) -> None:
        """So much of what was added is yet to come."""
        if self.held is None:
            self.held = np.zeros_like(self.values)
        domain = int(self._adds_to[row])
        if domain != ABSENT:
            self.held[domain] += amount

    @property
    def there(self) -> Column:
        """`values` without those who are yet to come."""
        return self.values if self.held is None else self.values - self.held

    def add_all(self, rows: NDArray[np.int32], amount: int) -> None:
        """As much for each of these rows; a row may come several times."""
        self.values += amount * np.bincount(self._adds_to[rows], minlength=len(self.values))
        self.values[ABSENT] = 0

    def spread_out(self, of_domain: Mask, rows: Rows | slice = ALL) -> Mask:
        """What is true of a domain, for each node."""
        return of_domain.take(self.domain_of_row[rows])

    def at_rows(self) -> Column:
        return self.values.take(self.domain_of_row)


class Occupants:
    """The pods of a snapshot by their shape, in columns. Those that are only nominated are not here."""

    def __init__(self, pods: PodTable) -> None:
        self.shapes = pods.shapes
        rows = np.flatnonzero((pods.node >= 0) & ((pods.flags & PodFlag.NOMINATED) == 0))
        rows = rows[np.argsort(pods.shape[rows], kind="stable")]
        self._node = pods.node[rows]
        self._leaving: Mask = (pods.flags[rows] & PodFlag.LEAVING) != 0
        counts = np.bincount(pods.shape[rows], minlength=len(pods.shapes))
        self._starts = np.concatenate(([0], np.cumsum(counts)))
        self.present: list[int] = np.flatnonzero(counts).tolist()
        """Numbers of the shapes that some pod has."""
        self.with_ports = tuple(number for number in self.present if pods.shapes[number].host_ports)
        self._by_pair: dict[Pair, list[int]] | None = None

    def having(self, pair: Pair | None) -> Iterable[int]:
        """The shapes with this label; None asks for all."""
        if pair is None:
            return self.present
        if self._by_pair is None:
            self._by_pair = {}
            for number in self.present:
                for label in self.shapes[number].labels:
                    self._by_pair.setdefault(label, []).append(number)
        return self._by_pair.get(pair, ())

    def fill(self, count: Count) -> None:
        """Adds the pods that are there to an empty count."""
        by_weight: dict[int, list[int]] = {}
        for number in sorted({each for watch in count.watches for each in watch.candidates(self)}):
            weight = count.weight(self.shapes[number])
            if weight:
                by_weight.setdefault(weight, []).append(number)
        for weight, numbers in by_weight.items():
            nodes = np.concatenate([self._nodes(number, count.includes_leaving) for number in numbers])
            count.add_all(nodes, weight)

    def _nodes(self, number: int, leaving: bool) -> NDArray[np.int32]:
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        nodes = self._node[start:end]
        return nodes if leaving else nodes[~self._leaving[start:end]]


def sure_pair(selector: LabelSelector | None) -> Pair | None:
    """A label that whatever the selector matches must have; None if there is no such label."""
    if selector is None:
        return None
    if selector.match_labels:
        return selector.match_labels[0]
    for requirement in selector.match_expressions:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches; an absent one matches nothing."""
    return selector is not None and selector.matches(labels)
