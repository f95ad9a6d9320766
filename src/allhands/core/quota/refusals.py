"""Words for a refusal, with the numbers that led to it. Only looked for once the answer is no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.quota.forest import NO_PARENT
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import text_of_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.quota.bill import Bill
    from allhands.core.quota.book import QuotaBook

NAMES_LISTED: Final = 3
KEPT_FOR_OTHERS: Final = (
    'Queue "{queue}" uses {used} {resource} and deserves {limit}; the group asks for {request}, but {kept} {resource} '
    "are kept free for {keepers}."
)
"""Who deserves too little for the group is told who has what it lacks, where that is somebody's."""


def explain_headroom(book: QuotaBook, bill: Bill, cell: int) -> Explanation:
    """Why the use in this cell leaves no room for the bill: its cap, or else what it may borrow."""
    dimension, row = divmod(cell, book.layout.stride)
    capability = book.layout.capability(dimension, row)
    units = dict(bill.amounts)[dimension]
    if capability is None or book.used[cell] + units <= capability:
        return _cannot_borrow(book, bill, dimension, row)
    flavor, resource = book.layout.dimension_names[dimension]
    return explain(
        Reason.QUEUE_OVER_CAPABILITY,
        queue=book.layout.accounts[row].name,
        used=text_of_units(resource, book.used[cell]),
        limit=text_of_units(resource, capability),
        resource=resource,
        request=text_of_units(resource, units),
        flavor=flavor,
    )


def explain_overflow(
    book: QuotaBook, pools: Sequence[int], bill: Bill, pool: int, ceiling: int, after: int
) -> Explanation | None:
    """Why a pool must not grow so. That of the cluster is no matter of quota once no guarantee is left to be kept."""
    layout = book.layout
    number, row = divmod(pool, layout.stride)
    dimension = number % len(layout.limits)
    keepers = _Keepers(book, pools, number, row, bill)
    if row == layout.cluster_row:
        used_after = book.used[dimension * layout.stride + row] + dict(bill.amounts)[dimension]
        return keepers.named(_nobody_lends(book, bill, dimension, row)) if after > used_after else None
    capability = layout.limits[dimension].capability[row]
    if ceiling == capability:
        return keepers.named(_nobody_lends(book, bill, dimension, row))
    why = _cannot_borrow(book, bill, dimension, row)
    return keepers.named(why) if why.reason is Reason.QUEUE_OVER_DESERVED else why


def _cannot_borrow(book: QuotaBook, bill: Bill, dimension: int, row: int) -> Explanation:
    limits = book.layout.limits[dimension]
    borrowing = limits.borrowing[row]
    if not borrowing:
        return _nobody_lends(book, bill, dimension, row)
    flavor, resource = book.layout.dimension_names[dimension]
    use = book.used[dimension * book.layout.stride + row]
    return explain(
        Reason.BORROWING_LIMIT,
        queue=book.layout.accounts[row].name,
        used=text_of_units(resource, max(use - limits.deserved[row], 0)),
        limit=text_of_units(resource, borrowing),
        resource=resource,
        request=text_of_units(resource, dict(bill.amounts)[dimension]),
        flavor=flavor,
    )


def _nobody_lends(book: QuotaBook, bill: Bill, dimension: int, at: int) -> Explanation:
    """In terms of the account that is charged, since what it lacks is held for others somewhere above it."""
    layout = book.layout
    starts = [layout.row_by_name[name] for name in bill.names]
    row = next((start for start in starts if at in layout.path(start)), starts[0])
    flavor, resource = layout.dimension_names[dimension]
    return explain(
        Reason.QUEUE_OVER_DESERVED,
        queue=layout.accounts[row].name,
        used=text_of_units(resource, book.used[dimension * layout.stride + row]),
        limit=text_of_units(resource, layout.limits[dimension].deserved[row]),
        resource=resource,
        request=text_of_units(resource, dict(bill.amounts)[dimension]),
        flavor=flavor,
        level="" if at == layout.cluster_row else layout.accounts[at].name,
    )


class _Keepers:
    """For whom something is kept free at one level that its use alone would leave to the bill."""

    def __init__(self, book: QuotaBook, pools: Sequence[int], number: int, at: int, bill: Bill) -> None:
        self._book = book
        self._at = at
        self._bill = bill
        dimension = number % len(book.layout.limits)
        self._limits = book.layout.limits[dimension]
        self._is_guard = number >= len(book.layout.limits)
        self._pools = pools
        self._base = number * book.layout.stride
        self._lending_base = dimension * book.layout.stride

    def named(self, why: Explanation) -> Explanation:
        """The same with their names; as it is, if nothing is kept for anybody."""
        resource = str(why.number("resource"))
        found = self._found()
        if not found:
            return why
        most = sorted(found, key=lambda it: (-it[1], it[0]))
        names = [f'"{self._book.layout.accounts[row].name}" ({self._why(row, resource)})' for row, _ in most]
        more = f" and {len(names) - NAMES_LISTED} more" if len(names) > NAMES_LISTED else ""
        keepers = f"queue{'s' if len(names) > 1 else ''} {', '.join(names[:NAMES_LISTED])}{more}"
        numbers = {
            **dict(why.numbers),
            "kept": text_of_units(resource, sum(units for _, units in found)),
            "keepers": keepers,
        }
        return Explanation(why.reason, KEPT_FOR_OTHERS, tuple(sorted(numbers.items())))

    def _found(self) -> list[tuple[int, int]]:
        """Accounts with what is kept for each that it does not use; what is kept for those below it is theirs."""
        layout, keep = self._book.layout, self._kept_by_row
        own = {row for row in self._bill.rows if row != self._at}
        below = layout.children.get(NO_PARENT if self._at == layout.cluster_row else self._at, [])
        found: list[tuple[int, int]] = []
        pending = list(below)
        while pending:
            row = pending.pop()
            pending.extend(layout.children.get(row, ()))
            if row not in own and (unused := keep[row] - self._pool(row)) > 0:
                found.append((row, unused))
        return found

    def _pool(self, row: int) -> int:
        """A tree that keeps the same from siblings as from the cluster has one pool for both."""
        is_one = self._is_guard and self._book.layout.tops[row] not in self._limits.split_tops
        return self._pools[(self._lending_base if is_one else self._base) + row]

    @property
    def _kept_by_row(self) -> Sequence[int]:
        return self._limits.guarantee if self._is_guard else self._limits.keep

    def _why(self, row: int, resource: str) -> str:
        if self._is_guard or self._limits.guarantee[row] >= self._limits.keep[row]:
            return f"guarantee {text_of_units(resource, self._limits.guarantee[row])}"
        lent = self._limits.deserved[row] - self._limits.keep[row]
        return f"lends {text_of_units(resource, lent)} of {text_of_units(resource, self._limits.deserved[row])}"
