"""What is owed across queues: who may take back what others use beyond what they deserve, and how far.

Two accounts are compared where their paths part: the two children of their lowest common ancestor, of the cluster if
they share none. The taker's side must stay within what it deserves; the victim's side, and every level of it below,
must use more than it deserves of something that the taker asks for and the victim frees, and never falls below its
guarantee. So what was taken cannot be taken back by the one who lost it: the taker's side is not above its part.
What a group of a queue that is gone or set aside uses is never taken: a slip of the pen must not end running work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.model.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.quota.bill import Bill, Demand
    from allhands.core.quota.book import QuotaBook


def owed(book: QuotaBook, bill: Bill) -> bool:
    """Whether the group, once started, would still be within what each account it charges deserves, at every level.

    Dimensions that are not shared out do not count; if none is, nothing is owed.
    """
    if not bill.rows or bill.refused is not None:
        return False
    judged = [_is_within(book, row, bill.amounts) for row in bill.rows]
    return any(answer is not None for answer in judged) and all(answer is not False for answer in judged)


def owed_amounts(book: QuotaBook, account: str) -> Demand:
    """What the account deserves and does not use, by flavor and resource."""
    return _differences(book, account, 1)


def surplus(book: QuotaBook, account: str) -> Demand:
    """What the account uses and does not deserve, by flavor and resource."""
    return _differences(book, account, -1)


def may_take_from(
    book: QuotaBook,
    reclaimer_accounts: tuple[str, ...],
    victim_accounts: tuple[str, ...],
    bill: Bill,
    victim_bill: Bill,
    *,
    may_cut_into_deserved: bool = True,
) -> bool:
    """Whether a group may start on what a victim of another queue gives up, as the book stands.

    `may_cut_into_deserved` allows a victim that is larger than its queue's surplus; ask without it first, so that
    such a one is taken only where units do not allow better. Within a queue, and between a queue and one above it,
    nothing is reclaimed. Who charges several trees must be owed it in each that it shares with the victim.
    """
    row_by_name, accounts = book.layout.row_by_name, book.layout.accounts
    if any(name not in row_by_name for name in (*reclaimer_accounts, *victim_accounts)):
        return False
    takers = [row_by_name[name] for name in reclaimer_accounts]
    for taker in takers:
        account = accounts[taker]
        if isinstance(account, Queue) and not account.can_reclaim:
            return False
    facing = _facing(book, takers, [row_by_name[name] for name in victim_accounts])
    return bool(facing) and all(
        _is_within(book, taker, bill.amounts) is True
        and _may_lose(book, victims, dict(bill.amounts), victim_bill.amounts, may_cut_into_deserved)
        for taker, victims in facing
    )


def _facing(book: QuotaBook, takers: Sequence[int], victims: Sequence[int]) -> list[tuple[int, list[int]]]:
    """For each pair: the taker's side at the level where the paths part, and the victim's path from there down."""
    tops = book.layout.tops
    pairs = [(taker, victim) for taker in takers for victim in victims]
    sharing = [(taker, victim) for taker, victim in pairs if tops[taker] == tops[victim]]
    facing = []
    for taker, victim in sharing or pairs:
        mine, theirs = book.layout.path(taker)[::-1], book.layout.path(victim)[::-1]
        parted = next((level for level, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
        if parted is not None:
            facing.append((mine[parted], theirs[parted:]))
    return facing


def _is_within(book: QuotaBook, row: int, amounts: Sequence[tuple[int, int]]) -> bool | None:
    """Whether so much more would leave the account within its part; None if no part of it is shared out."""
    stride, answer = book.layout.stride, None
    for dimension, units in amounts:
        deserved = book.entitlements.of(dimension, row)
        if deserved is not None:
            if _use(book, dimension * stride + row) + units > deserved:
                return False
            answer = True
    return answer


def _may_lose(
    book: QuotaBook, path: Sequence[int], asked: dict[int, int], freed: Sequence[tuple[int, int]], may_cut: bool
) -> bool:
    layout = book.layout
    for row in path:
        if not layout.accounts[row].reclaimable:
            return False
        # At the first level somebody must be above its part; a level below that shares nothing out does not object.
        judged, above = row == path[0], False
        for dimension, units in freed:
            use = _use(book, dimension * layout.stride + row)
            if use - units < _guarantee(book, dimension, row):
                return False
            deserved = book.entitlements.of(dimension, row)
            if deserved is None or dimension not in asked:
                continue
            judged = True
            above = above or use > deserved
            if not may_cut and use - units < deserved:
                return False
        if judged and not above:
            return False
    return True


def _guarantee(book: QuotaBook, dimension: int, row: int) -> int:
    limits = book.layout.limits
    return limits[dimension].guarantee[row] if dimension < len(limits) else 0


def _use(book: QuotaBook, cell: int) -> int:
    return book.used[cell] if cell < len(book.used) else 0


def _differences(book: QuotaBook, account: str, sign: int) -> Demand:
    layout, row = book.layout, book.layout.row_by_name.get(account)
    if row is None:
        return ()
    found = []
    for (flavor, resource), dimension in sorted(layout.dimensions.items()):
        deserved = book.entitlements.of(dimension, row)
        if deserved is not None:
            units = sign * (deserved - _use(book, dimension * layout.stride + row))
            if units > 0:
                found.append((flavor, resource, units))
    return tuple(found)
