"""Puts equal members into a domain so that they cross as few closer domains as possible.

Where the tree says nothing more, the nodes are chosen as for any pods. If the closest domains do not do after all (they
were found by counting, which does not see other pods), the whole domain is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.topology.spread import closest_rows, is_closest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.columns import Rows
    from allhands.core.shapes import ShapeState
    from allhands.core.work import Work


class Region:
    """A domain (None: anywhere, as it lies in the tree), those of its nodes that may be used, and where members are."""

    def __init__(
        self, work: Work, domain: int | None, within: Rows | None, near: Sequence[int] = (), tree: str | None = None
    ) -> None:
        self._work = work
        self._domain = domain
        self._tree = tree
        rows = None if domain is None else work.topology.rows(domain)
        self.rows = within if rows is None else rows if within is None else rows[np.isin(rows, within)]
        self._near = list(near)

    def place(self, state: ShapeState, count: int) -> list[int]:
        """Places all of them, or none. What is placed is near for the next."""
        picks = self._place_closest(state, count) or self._work.place(state, count, self.rows)
        self._near += picks
        return picks

    def _place_closest(self, state: ShapeState, count: int) -> list[int]:
        if is_closest(self._work.topology, self._domain) or (count == 1 and not self._near):
            return []
        fit = state.fit(self._work.room)
        if self.rows is not None:
            inside = np.zeros_like(fit)
            inside[self.rows] = fit[self.rows]
            fit = inside
        topology = self._work.topology
        rows = closest_rows(topology, self._domain, fit, count, near=self._near, tree=self._tree)
        if rows is None:
            return []
        if self.rows is not None:
            rows = rows[fit[rows] > 0]
        return self._work.place(state, count, rows)
