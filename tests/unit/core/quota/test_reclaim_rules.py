"""Who may take back what from whom, one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.quota.book import QuotaBook
from allhands.core.quota.reclaim import may_take_from, owed, owed_amounts, surplus
from allhands.model.queue import Account, Queue, QueueState, Quota
from allhands.model.resources import ResourceVector
from tests.unit.core.quota.books import book_of, gpu, gpus, run

if TYPE_CHECKING:
    from allhands.core.quota.bill import Demand


def takes(
    book: QuotaBook,
    taker: str | tuple[str, ...],
    asked: int | Demand,
    victim: str | tuple[str, ...],
    freed: int | Demand,
    *,
    gently: bool = False,
) -> bool:
    takers = (taker,) if isinstance(taker, str) else taker
    victims = (victim,) if isinstance(victim, str) else victim
    return may_take_from(
        book,
        takers,
        victims,
        book.bill(takers, gpus(asked) if isinstance(asked, int) else asked),
        book.bill(victims, gpus(freed) if isinstance(freed, int) else freed),
        may_cut_into_deserved=not gently,
    )


def halves(**use: int) -> QuotaBook:
    book = book_of(Queue("a", quotas=gpu(deserved=4)), Queue("b", quotas=gpu(deserved=4)), total=8)
    run(book, *use.items())
    return book


def test_a_group_is_owed_what_its_queue_deserves_and_does_not_use() -> None:
    book = halves(a=1, b=7)
    assert owed(book, book.bill(("a",), gpus(3)))
    assert not owed(book, book.bill(("a",), gpus(4)))
    assert not owed(book, book.bill(("b",), gpus(1)))
    assert (owed_amounts(book, "a"), surplus(book, "a")) == (gpus(3), ())
    assert (owed_amounts(book, "b"), surplus(book, "b")) == ((), gpus(3))
    assert (owed_amounts(book, "ghost"), surplus(book, "ghost")) == ((), ())


def test_a_group_is_owed_something_only_if_every_level_above_is() -> None:
    book = book_of(
        Queue("x", quotas=gpu(deserved=4)),
        Queue("x1", "x", gpu(deserved=3)),
        Queue("x2", "x", gpu(deserved=1)),
        Queue("y", quotas=gpu(deserved=4)),
        total=8,
    )
    run(book, ("x2", 3))
    assert owed(book, book.bill(("x1",), gpus(1)))
    assert not owed(book, book.bill(("x1",), gpus(2)))


def test_nothing_is_owed_where_nothing_is_shared_out_or_the_queue_is_gone_or_shut() -> None:
    unknown = book_of(Queue("a"), Queue("b"))
    assert not owed(unknown, unknown.bill(("a",), gpus(1)))
    book = book_of(Queue("a", quotas=gpu(deserved=4), state=QueueState.HOLD), total=8)
    assert not owed(book, book.bill(("a",), gpus(1)))
    assert not owed(book, book.bill(("ghost",), gpus(1)))


def test_what_is_owed_may_be_taken_from_a_queue_that_is_above_its_part() -> None:
    book = halves(a=0, b=8)
    assert takes(book, "a", 4, "b", 4)
    assert takes(book, "a", 4, "b", 1)


def test_no_more_is_taken_than_is_owed() -> None:
    book = halves(a=1, b=7)
    assert takes(book, "a", 3, "b", 3)
    assert not takes(book, "a", 4, "b", 3)


def test_a_queue_within_its_part_loses_nothing() -> None:
    assert not takes(halves(a=0, b=4), "a", 2, "b", 2)


def test_a_victim_larger_than_the_surplus_is_taken_only_where_units_do_not_allow_better() -> None:
    book = halves(a=2, b=6)
    assert takes(book, "a", 2, "b", 2, gently=True)
    assert not takes(book, "a", 2, "b", 6, gently=True)
    assert takes(book, "a", 2, "b", 6)


def test_a_guarantee_is_never_cut() -> None:
    quotas = gpu(guarantee=3, deserved=4)
    book = book_of(Queue("a", quotas=gpu(deserved=4)), Queue("b", quotas=quotas), total=8)
    run(book, ("b", 8))
    assert takes(book, "a", 4, "b", 5)
    assert not takes(book, "a", 4, "b", 6)


def test_who_took_back_what_it_is_owed_cannot_be_made_to_return_it() -> None:
    book = halves(a=0, b=8)
    assert takes(book, "a", 4, "b", 8)
    book.give_back(book.bill(("b",), gpus(8)))
    run(book, ("a", 4))
    for size in range(1, 9):
        assert not takes(book, "b", size, "a", 4)


def test_flags_forbid_to_give_and_to_take() -> None:
    keeps = book_of(Queue("a", quotas=gpu(deserved=4)), Queue("b", quotas=gpu(deserved=4), reclaimable=False), total=8)
    run(keeps, ("b", 8))
    assert not takes(keeps, "a", 1, "b", 1)
    meek = book_of(Queue("a", quotas=gpu(deserved=4), can_reclaim=False), Queue("b", quotas=gpu(deserved=4)), total=8)
    run(meek, ("b", 8))
    assert not takes(meek, "a", 1, "b", 1)


def test_one_that_is_not_reclaimable_protects_all_below_it() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=4)), Account("top", reclaimable=False), Queue("b", "top"), total=8)
    run(book, ("b", 8))
    assert not takes(book, "a", 1, "b", 1)


def test_within_a_queue_and_between_it_and_its_parent_nothing_is_reclaimed() -> None:
    book = book_of(Queue("top", quotas=gpu(deserved=8)), Queue("a", "top", gpu(deserved=4)), total=8)
    run(book, ("a", 8))
    assert not takes(book, "a", 1, "a", 1)
    assert not takes(book, "top", 1, "a", 1)
    assert not takes(book, "a", 1, "top", 1)


def forest(**use: int) -> QuotaBook:
    book = book_of(
        Queue("x", quotas=gpu(deserved=6)),
        Queue("x1", "x", gpu(deserved=3)),
        Queue("x2", "x", gpu(deserved=3)),
        Queue("y", quotas=gpu(deserved=6)),
        Queue("y1", "y", gpu(deserved=3)),
        Queue("y2", "y", gpu(deserved=3)),
        total=12,
    )
    run(book, *use.items())
    return book


def test_queues_are_compared_where_their_paths_part() -> None:
    book = forest(x1=3, y1=9)
    # x1 has its own part already, but x has not: it borrows from x2, which nobody in y may hold against it.
    assert takes(book, "x1", 3, "y1", 3)
    assert not takes(book, "x1", 4, "y1", 3)
    # Within x, the two are compared with each other.
    book = forest(x1=6, y1=6)
    assert takes(book, "x2", 3, "x1", 3)
    assert not takes(book, "x2", 3, "y1", 3)


def test_a_queue_within_its_part_is_spared_though_its_parent_is_above() -> None:
    book = forest(y1=6, y2=3)
    assert takes(book, "x1", 3, "y1", 3)
    assert not takes(book, "x1", 3, "y2", 3)


def test_a_queue_that_deserves_nothing_gives_to_those_who_do() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=8)), Queue("scavenger"), total=8)
    run(book, ("scavenger", 8))
    assert takes(book, "a", 8, "scavenger", 2)
    assert not takes(book, "scavenger", 1, "a", 1)


def test_by_weight_alone_queues_reclaim_their_share() -> None:
    book = book_of(Queue("a", weight_millis=3000), Queue("b"), total=8)
    run(book, ("b", 8))
    assert takes(book, "a", 6, "b", 2)
    assert not takes(book, "a", 7, "b", 2)


def test_a_victim_must_free_something_of_which_its_queue_has_too_much_and_that_is_asked_for() -> None:
    quotas = (Quota("gpu", deserved=4), Quota("cpu", deserved=4000))
    capacity = {"*": ResourceVector.of({"gpu": 8, "cpu": 8000})}
    book = QuotaBook.build([Queue("a", quotas=quotas), Queue("b", quotas=quotas)], capacity)
    book.take(book.bill(("b",), (("*", "gpu", 2), ("*", "cpu", 8000))))
    cpus: Demand = (("*", "cpu", 1000),)
    assert takes(book, "a", cpus, "b", cpus)
    assert not takes(book, "a", gpus(1), "b", gpus(1))
    assert not takes(book, "a", gpus(1), "b", cpus)


def test_flavors_are_judged_apart() -> None:
    quotas = (*gpu("a100", deserved=4), *gpu("h100", deserved=4))
    book = book_of(Queue("a", quotas=quotas), Queue("b", quotas=quotas), a100=8, h100=8)
    book.take(book.bill(("b",), gpus(8, "a100")))
    assert takes(book, "a", gpus(4, "a100"), "b", gpus(4, "a100"))
    assert not takes(book, "a", gpus(4, "h100"), "b", gpus(4, "a100"))


def test_who_charges_several_trees_must_be_owed_it_in_each_that_it_shares() -> None:
    book = book_of(
        Account("teams"),
        Queue("team a", "teams", gpu(deserved=4)),
        Queue("team b", "teams", gpu(deserved=4)),
        Account("projects"),
        Queue("project a", "projects", gpu(deserved=4)),
        Queue("project b", "projects", gpu(deserved=4)),
    )
    run(book, (("team b", "project b"), 6))
    assert takes(book, ("team a", "project a"), 2, ("team b", "project b"), 2)
    # In the second tree both are of one project: only the first decides.
    assert takes(book, ("team a", "project b"), 2, ("team b", "project b"), 2)
    run(book, (("team a", "project a"), 1), ("project a", 3))
    assert not takes(book, ("team a", "project a"), 1, ("team b", "project b"), 2)


def test_what_runs_in_a_queue_that_is_gone_or_set_aside_is_never_taken() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=8)), Queue("orphan", "nowhere"), total=8)
    run(book, ("gone", 4), ("orphan", 4))
    assert not takes(book, "a", 1, "gone", 4)
    assert not takes(book, "a", 1, "orphan", 4)
