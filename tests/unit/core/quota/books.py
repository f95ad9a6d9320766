"""Small quota books for tests: one resource, "gpu", counted in whole units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.quota.book import QuotaBook
from allhands.model.queue import Quota
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.quota.bill import Demand
    from allhands.model.queue import Account, Queue


def gpu(
    flavor: str = "*",
    *,
    guarantee: int | None = None,
    deserved: int | None = None,
    capability: int | None = None,
    borrowing: int | None = None,
    lending: int | None = None,
) -> tuple[Quota, ...]:
    return (Quota("gpu", flavor, guarantee, deserved, capability, borrowing, lending),)


def gpus(units: int, flavor: str = "*") -> Demand:
    return ((flavor, "gpu", units),)


def book_of(*accounts: Account | Queue, total: int | None = None, **flavors: int) -> QuotaBook:
    capacity = {flavor: ResourceVector.of({"gpu": units}) for flavor, units in flavors.items()}
    if total is not None:
        capacity["*"] = ResourceVector.of({"gpu": total})
    return QuotaBook.build(accounts, capacity)


def run(book: QuotaBook, *started: tuple[str | tuple[str, ...], int]) -> None:
    """Charges what runs, allowed or not."""
    for accounts, units in started:
        book.take(book.bill((accounts,) if isinstance(accounts, str) else accounts, gpus(units)))


def allows(book: QuotaBook, accounts: str | Iterable[str], units: int, flavor: str = "*") -> bool:
    names = (accounts,) if isinstance(accounts, str) else tuple(accounts)
    return book.refusal(book.bill(names, gpus(units, flavor))) is None


def most(book: QuotaBook, account: str, flavor: str = "*", at_most: int = 64) -> int:
    """The largest group that may start now."""
    return max((units for units in range(at_most + 1) if allows(book, account, units, flavor)), default=-1)


def why(book: QuotaBook, accounts: str | Iterable[str], demand: Demand) -> str:
    names = (accounts,) if isinstance(accounts, str) else tuple(accounts)
    return str(book.refusal(book.bill(names, demand)))
