"""What still fits, by node and by domain, while the parts of a gang are set down one after another.

An estimate for choosing domains, never a placement: it knows counts, not resources. It is kept twice. The hopeful
count takes from the shape that was set down alone; the careful one takes the same fraction of a node from all shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.topology.columns import NOWHERE
from allhands.core.topology.parts import PLENTY
from allhands.core.topology.spread import choose_nodes

if TYPE_CHECKING:
    from allhands.core.columns import Column, Mask
    from allhands.core.topology.columns import TopologyColumns
    from allhands.core.topology.spread import Share


class Count:
    """Fits by (shape, node) and their sums by (shape, domain)."""

    def __init__(self, columns: TopologyColumns, fits: Column, sums: Column) -> None:
        self.columns = columns
        self.fits = fits
        self.sums = sums

    def copy(self) -> Count:
        return Count(self.columns, self.fits.copy(), self.sums.copy())

    def deduct(self, shape: int, rows: Column, loss: Column) -> None:
        self.fits[shape, rows] -= loss
        columns = self.columns
        for homes in columns.home:
            at = homes[rows]
            counted = (at != NOWHERE) & columns.usable[at] if len(columns) else at != NOWHERE
            at, lost = at[counted], loss[counted]
            while len(at):
                np.subtract.at(self.sums[shape], at, lost)
                at = columns.parent[at]
                inside = at != NOWHERE
                at, lost = at[inside], lost[inside]


class Ledger:
    """Both counts. With a single shape they are one."""

    def __init__(self, columns: TopologyColumns, hopeful: Count, careful: Count) -> None:
        self._columns = columns
        self.hopeful = hopeful
        self.careful = careful

    @staticmethod
    def open(columns: TopologyColumns, fits: Column) -> Ledger:
        bounded = fits.clip(0, min(PLENTY, columns.fit_limit - 1))
        hopeful = Count(columns, bounded, columns.sums(bounded))
        return Ledger(columns, hopeful, hopeful.copy() if len(bounded) > 1 else hopeful)

    def copy(self) -> Ledger:
        hopeful = self.hopeful.copy()
        return Ledger(self._columns, hopeful, hopeful if self.careful is self.hopeful else self.careful.copy())

    @property
    def counts(self) -> tuple[Count, ...]:
        """The careful one first."""
        return (self.hopeful,) if self.careful is self.hopeful else (self.careful, self.hopeful)

    def take(self, shape: int, need: int, domain: int | None, within: Mask | None) -> bool:
        """Sets down members of a shape in a domain (None: anywhere), on nodes of the mask alone if there is one."""
        for count in self.counts:
            if within is None:
                share = choose_nodes(self._columns, domain, count.fits[shape], need, sums=count.sums[shape])
            else:
                share = choose_nodes(self._columns, domain, np.where(within, count.fits[shape], 0), need)
            if share is not None:
                self._record(shape, share)
                return True
        return False

    def _record(self, shape: int, share: Share) -> None:
        rows, taken = share
        self.hopeful.deduct(shape, rows, np.minimum(taken, self.hopeful.fits[shape, rows]))
        if self.careful is self.hopeful:
            return
        before = self.careful.fits[shape, rows]
        for other in range(len(self.careful.fits)):
            if other != shape:
                room = self.careful.fits[other, rows]
                # Where the careful count had no room left, nothing is left for the others either.
                self.careful.deduct(other, rows, np.where(before > taken, room * taken // np.maximum(before, 1), room))
        self.careful.deduct(shape, rows, np.minimum(taken, before))
