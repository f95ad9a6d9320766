"""How many pods of one shape fit on each node while units come and go: counted over all nodes at once.

Numbers only: nothing here touches a Statement, a right or a price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from allhands.core.actions.pool import Pool
    from allhands.core.columns import Column, Mask, Request

UNLIMITED: Final = 1 << 30


class Stock:
    """How many pods of a shape fit on each node while units come and go. Numbers only; no Statement is touched."""

    def __init__(
        self, pool: Pool, free: Column, request: Request, mask: Mask, most: int = UNLIMITED, shut: Mask | None = None
    ) -> None:
        """`mask` are the nodes that count; at most `most` on each. Those of `shut` open when all on them are gone."""
        columns = [column for column, _ in request]
        self.pool = pool
        self.mask = mask
        self.most = most
        self.free: Column = free[columns]
        self.asked: Column = np.array([units for _, units in request], dtype=np.int64)[:, np.newaxis]
        self.amounts: Column = pool.amounts[columns]
        self.shut = shut
        self.staying: Column = np.bincount(pool.row, minlength=len(mask)) if shut is not None else np.zeros(0, np.int64)
        self.fit: Column = self.fit_of(self.free, slice(None))
        self.total = int(self.fit.sum())

    def copy(self) -> Stock:
        """Another with the same numbers; the two part ways from here."""
        twin = Stock.__new__(Stock)
        vars(twin).update(vars(self))
        twin.free, twin.fit, twin.staying = self.free.copy(), self.fit.copy(), self.staying.copy()
        return twin

    def fit_of(self, free: Column, rows: Column | slice) -> Column:
        """With so much free on these rows."""
        counts: Column = np.minimum.reduce(free // self.asked, axis=0).clip(0, self.most)
        counts[~self.mask[rows]] = 0
        if self.shut is not None:
            counts[self.shut[rows] & (self.staying[rows] > 0)] = 0
        return counts

    def release(self, unit: int, sign: int = 1) -> None:
        """The unit is evicted; with the sign -1 it is not."""
        entries = self.pool.entries(unit)
        rows = self.pool.row[entries]
        self.free[:, rows] += sign * self.amounts[:, entries]
        if self.shut is not None:
            self.staying[rows] -= sign
        fresh = self.fit_of(self.free[:, rows], rows)
        self.total += int(fresh.sum()) - int(self.fit[rows].sum())
        self.fit[rows] = fresh

    def release_all(self, units: list[int], sign: int = 1) -> None:
        """All of them at once."""
        entries = self._entries_of(units)
        rows = self.pool.row[entries]
        for number, amounts in enumerate(self.amounts):
            np.add.at(self.free[number], rows, sign * amounts[entries])
        if self.shut is not None:
            np.subtract.at(self.staying, rows, sign)
        touched = np.unique(rows)
        fresh = self.fit_of(self.free[:, touched], touched)
        self.total += int(fresh.sum()) - int(self.fit[touched].sum())
        self.fit[touched] = fresh

    def total_with(self, units: list[int]) -> int:
        """How many would fit in all if these were evicted too."""
        if self.shut is not None:
            self.release_all(units)
            total = self.total
            self.release_all(units, -1)
            return total
        entries = self._entries_of(units)
        rows, at = np.unique(self.pool.row[entries], return_inverse=True)
        free = self.free[:, rows]
        for number, amounts in enumerate(self.amounts):
            np.add.at(free[number], at, amounts[entries])
        return self.total + int(self.fit_of(free, rows).sum()) - int(self.fit[rows].sum())

    def losses(self, units: list[int]) -> list[int]:
        """How many places each of these evicted units would cost if it alone stayed after all."""
        entries = self._entries_of(units)
        rows = self.pool.row[entries]
        free = self.free[:, rows] - self.amounts[:, entries]
        left = np.minimum.reduce(free // self.asked, axis=0).clip(0, self.most)
        left[~self.mask[rows]] = 0
        if self.shut is not None:
            left[self.shut[rows]] = 0
        lost = np.zeros(len(self.pool), dtype=np.int64)
        np.add.at(lost, self.pool.unit[entries], self.fit[rows] - left)
        found: list[int] = lost[units].tolist()
        return found

    def _entries_of(self, units: list[int]) -> Column:
        chosen = np.zeros(len(self.pool), dtype=np.bool_)
        chosen[units] = True
        return np.flatnonzero(chosen[self.pool.unit])
