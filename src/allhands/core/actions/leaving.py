"""Pods that are on their way out: being deleted, or chosen as victims in this cycle. What they hold is free soon.

Nobody may use that room before they are gone; whoever asks what will fit then releases it on the Statement, looks,
and rolls back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.actions.victims import Charged, occupied
from allhands.core.snapshot import PodFlag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.core.charges import Charge, Charges
    from allhands.core.work import Work


class Leaving:
    def __init__(self, work: Work) -> None:
        self._work = work
        pods = work.snapshot.pods
        here = ((pods.flags & PodFlag.LEAVING) != 0) & (pods.node >= 0)
        self._rows: list[int] = np.flatnonzero(here).tolist()
        self._already = len(self._rows)
        """Those before are being deleted; those after were chosen in this cycle."""
        self._charged: list[Charge] | None = None
        self._more_charged: list[Charge] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Iterable[int], charge: Charge) -> None:
        """These pods of the table are victims from here on."""
        self._rows.extend(rows)
        self._more_charged.append(charge)

    def release(self, *, old: bool = True) -> None:
        """Gives all their room back, on the Statement. Without `old`, only that of those chosen in this cycle."""
        if old:
            release_pods(self._work, self._rows[: self._already], leaving=True)
        release_pods(self._work, self._rows[self._already :], leaving=False)

    def without(self, charges: Charges, *, old: bool = True) -> Charges:
        """Charges of one's own in which they are not charged."""
        copy = charges.copy()
        for charge in (*(self._old(charges) if old else ()), *self._more_charged):
            copy.give_back(charge)
        return copy

    def on(self, nodes: Iterable[int]) -> int:
        """How many of them are on these nodes."""
        wanted = set(nodes)
        node = self._work.snapshot.pods.node
        return sum(1 for row in self._rows if int(node[row]) in wanted)

    def _old(self, charges: Charges) -> list[Charge]:
        if self._charged is None:
            charged = Charged(self._work)
            # A group counts as one until its last pod is gone.
            self._charged = [
                charges.charge(entry, charged.demand(entry.leaving), joins=bool(entry.bound))
                for entry in self._work.snapshot.groups.values()
                if entry.leaving
            ]
        return self._charged


def release_pods(work: Work, rows: Sequence[int], *, leaving: bool = False) -> None:
    """Gives the room of these pods of the table back on the Statement, as if they were gone."""
    pods = work.snapshot.pods
    nodes_by_shape: dict[int, list[int]] = {}
    for row in rows:
        nodes_by_shape.setdefault(int(pods.shape[row]), []).append(int(pods.node[row]))
    for number in sorted(nodes_by_shape):
        shape, nodes = pods.shapes[number], nodes_by_shape[number]
        request = occupied(shape, work.snapshot.columns)
        if not work.neighbours.is_noticed(shape):
            work.statement.release(request, nodes)
            continue
        for node in nodes:
            work.neighbours.placed(shape, node, -1, leaving=leaving)

        def restore(shape=shape, nodes=nodes) -> None:  # type: ignore[no-untyped-def]
            for node in reversed(nodes):
                work.neighbours.placed(shape, node, 1, leaving=leaving)

        work.statement.release(request, nodes, restore)
