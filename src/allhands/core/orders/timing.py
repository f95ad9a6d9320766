"""Orders that change with time alone say when, so that nobody relies on an order that is no longer right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.core.work import Work


class TimedOrder(Protocol):
    """A GroupOrder whose rank depends on the time."""

    name: str

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int: ...

    def next_change(self, entries: Iterable[GroupEntry], snapshot: Snapshot, now: int) -> int | None:
        """When the rank of any of these groups changes next, after now; None if never."""


def wake_for_orders(work: Work, entries: Iterable[GroupEntry]) -> None:
    """Has the cycle run again when an order changes."""
    for order in work.policy.orders:
        # Asking for the method is far cheaper than asking whether it is a TimedOrder, and says the same.
        next_change = getattr(order, "next_change", None)
        if next_change is not None:
            change = next_change(entries, work.snapshot, work.now)
            if change is not None:
                work.wake_at(change)
