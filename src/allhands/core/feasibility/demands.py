"""What one shape demands of the pods around it, in terms of counts that are kept elsewhere: where it may go now.

The rules are those of kube-scheduler's filters for inter-pod affinity, topology spreading and host ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from allhands.core.feasibility.labels import ABSENT, ALL

if TYPE_CHECKING:
    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.feasibility.counts import Count
    from allhands.core.feasibility.spread_counts import SpreadCount


class Demands(msgspec.Struct, frozen=True, eq=False):
    node_count: int
    is_valid: bool = True
    """Whether all of its terms can be parsed; kube-scheduler places no pod for which this is not so."""
    apart: tuple[Count, ...] = ()
    """One a topology key: pods that it may not be near, by its own terms or by theirs."""
    together: tuple[Count, ...] = ()
    """One a topology key: pods that all of its affinity terms mean."""
    means_itself: bool = False
    """Whether its own affinity terms mean a pod of its kind: then the first one may go anywhere."""
    spread: tuple[SpreadCount, ...] = ()
    ports: tuple[Count, ...] = ()

    asks_of_pods: bool = False
    """Whether it has required affinity or anti-affinity of its own."""

    def minding_nominated(self) -> tuple[Count, ...]:
        """The counts to which nominated pods are added where they are nominated.

        Kube-scheduler does not look at affinity at all for a pod that asks for none and to which no pod that is there
        forbids any place; then what nominated pods forbid is not seen either.
        """
        if self.asks_of_pods or any(bool(count.values.any()) for count in self.apart):
            return (*self.apart, *self.together, *self.spread, *self.ports)
        return (*self.spread, *self.ports)

    def mask(self, rows: Rows | slice = ALL) -> Mask:
        """Where one more pod may go."""
        if not self.is_valid:
            return np.zeros(self._size(rows), dtype=np.bool_)
        mask: Mask | None = None
        for count in (*self.ports, *self.apart):
            mask = _both(mask, count.spread_out(count.values <= 0, rows))
        for spread in self.spread:
            mask = _both(mask, spread.spread_out(spread.allowed_domains(), rows))
        if self.together:
            mask = _both(mask, self._near(rows))
        return np.ones(self._size(rows), dtype=np.bool_) if mask is None else mask

    def _near(self, rows: Rows | slice) -> Mask:
        mask = self._near_these([count.values for count in self.together], rows)
        if any(count.held is not None for count in self.together):
            # Who is yet to come is no company, and must have some when it comes.
            mask &= self._near_these([count.there for count in self.together], rows)
        return mask

    def _near_these(self, pods: list[Column], rows: Rows | slice) -> Mask:
        # A node must have every topology key, even for the first pod of its kind.
        is_first = self.means_itself and not any(bool(values.any()) for values in pods)
        mask: Mask | None = None
        for count, values in zip(self.together, pods, strict=True):
            near = count.domain_of_row[rows] != ABSENT if is_first else count.spread_out(values > 0, rows)
            mask = _both(mask, near)
        assert mask is not None, "there are terms"
        return mask

    def _size(self, rows: Rows | slice) -> int:
        return self.node_count if isinstance(rows, slice) else len(rows)


def _both(mask: Mask | None, more: Mask) -> Mask:
    if mask is None:
        return more
    mask &= more
    return mask
