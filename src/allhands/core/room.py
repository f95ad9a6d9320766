"""The room of the cluster during one cycle: what each node has free, with everything speculative already taken off.

It is a private copy, so that nothing a cycle tries can reach the snapshot. Every touched row is noted in a log; those
who cache something per node look at the log from where they last read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.extension import SCORE_SCALE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.columns import Column, NodeColumns, Request, Rows

FEW = 8
"""Up to so many rows, plain loops are faster than arrays."""


class Room:
    def __init__(self, columns: NodeColumns) -> None:
        self.columns = columns
        self.free: Column = columns.allocatable - columns.used
        with np.errstate(divide="ignore"):
            inverse = SCORE_SCALE / columns.allocatable
        inverse[~np.isfinite(inverse)] = 0.0
        self.share_of_unit = inverse
        """(R, N) float64: what one unit is of a node's allocatable, in score points; 0 where a node has none."""
        self.log: list[int] = []

    def take(self, request: Request, picks: Sequence[int], sign: int = 1) -> None:
        """One pod on each row of `picks`; a row may come several times. `sign` -1 gives back."""
        free = self.free
        self.log.extend(picks)
        if len(picks) == 1:
            row = picks[0]
            for column, units in request:
                free[column, row] -= sign * units
            return
        counts: dict[int, int] = {}
        for row in picks:
            counts[row] = counts.get(row, 0) + sign
        if len(counts) <= FEW:
            for row, number in counts.items():
                for column, units in request:
                    free[column, row] -= number * units
            return
        rows = np.array(list(counts), dtype=np.int64)
        numbers = np.array(list(counts.values()), dtype=np.int64)
        for column, units in request:
            free[column, rows] -= units * numbers

    def fit(self, request: Request, rows: Rows | slice, most: int) -> Column:
        """How many such pods fit on each row, by resources alone, at most `most`."""
        counts: Column | None = None
        for column, units in request:
            here = self.free[column, rows] // units
            counts = here if counts is None else np.minimum(counts, here)
        assert counts is not None, "every request has its pod slot"
        return np.minimum(np.maximum(counts, 0), most)
