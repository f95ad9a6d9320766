"""How much of its part each account has, in whole millionths: the numbers that fairness compares.

Three measures: the dominant share (the largest part of any resource of the cluster, by weight), the use of what is
deserved, and what is borrowed of all that is lent. Each depends on the account's own use and on fixed numbers only, so
it changes only when the account is charged. Nothing here is a float.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.quota.entitlement import share_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.quota.bill import Demand
    from allhands.core.quota.book import QuotaBook

MILLION: Final = 1_000_000
_BY_WEIGHT: Final = MILLION * 1000
"""A share is divided by a weight in thousandths."""

UNBOUNDED_SHARE: Final = 1 << 100
"""Of one whose weight is 0: after everybody else."""


def dominant_share(book: QuotaBook, row: int) -> int:
    """The largest part of any resource of the cluster, divided by the weight.

    Of a resource that the cluster does not have, any use counts as all of it.
    """
    weight = book.layout.accounts[row].weight_millis
    if weight <= 0:
        return UNBOUNDED_SHARE
    used, size, largest = book.used, len(book.used), 0
    for base, total in book.layout.whole_cluster:
        cell = base + row
        if cell < size and (units := used[cell]) > 0:
            share = units * _BY_WEIGHT // (total * weight) if total else _BY_WEIGHT // weight
            if share > largest:
                largest = share
    return largest


def use_of_deserved(book: QuotaBook, row: int) -> int:
    """The largest part of what it deserves that it uses. What deserves nothing comes after, by dominant share."""
    used, largest = book.used, 0
    cells = book.entitlements.cells(row)
    if not cells:
        return book.share_of_row(row)
    for cell, deserved in cells:
        if (units := used[cell]) > 0:
            if not deserved:
                return UNBOUNDED_SHARE + book.share_of_row(row)
            share = units * MILLION // deserved
            if share > largest:
                largest = share
    return largest


def borrowed_share(book: QuotaBook, row: int) -> int:
    """What it uses above what it and those below deserve, as a part of all that could be lent to it, by weight."""
    used, largest = book.used, 0
    for cells, lendable in book.layout.lending.measures(row):
        borrowed = 0
        for cell, deserved in cells:
            if used[cell] > deserved:
                borrowed += used[cell] - deserved
        if borrowed:
            largest = max(largest, borrowed * _BY_WEIGHT // lendable if lendable else _BY_WEIGHT)
    if largest == 0:
        return 0
    weight = book.layout.accounts[row].weight_millis
    return largest // weight if weight > 0 else UNBOUNDED_SHARE


def proportion(book: QuotaBook, requests: Mapping[str, Demand] | None = None) -> dict[tuple[str, str, str], int]:
    """What each account deserves, by (account, flavor, resource), for `QuotaBook.entitle`.

    Written amounts stand; the rest is shared by weight, level by level, at least the guarantee, at most the
    capability and what the account and those below ask for (running and waiting; absent accounts ask for nothing).
    At every level the amounts add up to no more than the level above has.
    """
    layout = book.layout
    asked: dict[int, list[int]] = {}
    for name, demand in sorted((requests or {}).items()):
        row = layout.row_by_name.get(name)
        for dimension, units in layout.bill((name,), demand).amounts if row is not None else ():
            asked.setdefault(dimension, [0] * len(layout.accounts))[row or 0] += units
    nothing = [0] * len(layout.accounts)
    deserved: dict[tuple[str, str, str], int] = {}
    for (flavor, resource), dimension in sorted(layout.dimensions.items()):
        amounts = share_out(layout, dimension, None if requests is None else asked.get(dimension, nothing))
        for account, amount in zip(layout.accounts, amounts, strict=True):
            if amount is not None:
                deserved[account.name, flavor, resource] = amount
    return deserved
