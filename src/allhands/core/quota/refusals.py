"""Words for a refusal, with the numbers that led to it. Only looked for once the answer is no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import quantity_of_units

if TYPE_CHECKING:
    from allhands.core.quota.bill import Bill
    from allhands.core.quota.book import QuotaBook


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
        used=_text(resource, book.used[cell]),
        limit=_text(resource, capability),
        resource=resource,
        request=_text(resource, units),
        flavor=flavor,
    )


def explain_overflow(book: QuotaBook, bill: Bill, pool: int, ceiling: int, after: int) -> Explanation | None:
    """Why a pool must not grow so. That of the cluster is no matter of quota once no guarantee is left to be kept."""
    layout = book.layout
    number, row = divmod(pool, layout.stride)
    dimension = number % len(layout.limits)
    if row == layout.cluster_row:
        used_after = book.used[dimension * layout.stride + row] + dict(bill.amounts)[dimension]
        return _nobody_lends(book, bill, dimension, row) if after > used_after else None
    capability = layout.limits[dimension].capability[row]
    if ceiling == capability:
        return _nobody_lends(book, bill, dimension, row)
    return _cannot_borrow(book, bill, dimension, row)


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
        used=_text(resource, max(use - limits.deserved[row], 0)),
        limit=_text(resource, borrowing),
        resource=resource,
        request=_text(resource, dict(bill.amounts)[dimension]),
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
        used=_text(resource, book.used[dimension * layout.stride + row]),
        limit=_text(resource, layout.limits[dimension].deserved[row]),
        resource=resource,
        request=_text(resource, dict(bill.amounts)[dimension]),
        flavor=flavor,
        level="" if at == layout.cluster_row else layout.accounts[at].name,
    )


def _text(resource: str, units: int) -> str:
    return str(quantity_of_units(resource, units))
