"""Whose turn it is, and that a ranking follows its book."""

from __future__ import annotations

import pytest

from allhands.core.quota.order import QueueRanking
from allhands.model.queue import Account, Queue
from tests.unit.core.quota.books import book_of, gpu, gpus, run


def test_priority_comes_before_share_and_share_before_name() -> None:
    book = book_of(Queue("a"), Queue("b"), Queue("urgent", priority=1), total=10)
    ranking = QueueRanking(book, "drf")
    run(book, ("urgent", 9))
    assert ranking.next() == "urgent"
    ranking.remove("urgent")
    assert ranking.next() == "a"
    run(book, ("a", 1))
    assert ranking.next() == "b"
    assert [ranking.key(name) for name in ("a", "b")] == [((0, 100_000, "a"),), ((0, 0, "b"),)]


def test_turns_follow_the_weights() -> None:
    book = book_of(Queue("a", weight_millis=3000), Queue("b"), total=100)
    ranking = QueueRanking(book, "drf")
    turns = []
    for _ in range(8):
        turns.append(ranking.next() or "")
        run(book, (turns[-1], 1))
    assert turns == ["a", "b", "a", "a", "a", "b", "a", "a"]


def test_a_queue_whose_use_fell_moves_forward_at_once() -> None:
    book = book_of(Queue("a"), Queue("b"), total=10)
    ranking = QueueRanking(book, "drf")
    bill = book.bill(("a",), gpus(5))
    book.take(bill)
    run(book, ("b", 1))
    assert ranking.next() == "b"
    book.give_back(bill)
    assert ranking.next() == "a"


def test_a_queue_can_leave_and_come_back() -> None:
    book = book_of(Queue("a"), Queue("b"), total=10)
    ranking = QueueRanking(book, "drf", queues=["a", "b", "ghost"])
    assert len(ranking) == 2
    ranking.remove("a")
    ranking.remove("a")
    assert ranking.next() == "b"
    ranking.remove("b")
    assert ranking.next() is None
    ranking.add("a")
    ranking.add("a")
    assert (ranking.next(), len(ranking)) == ("a", 1)


def test_the_hierarchy_is_fair_between_parents_first() -> None:
    accounts = [Account("big"), Account("small"), Queue("b1", "big"), Queue("b2", "big"), Queue("s1", "small")]
    book = book_of(*accounts, total=12)
    flat, level = QueueRanking(book, "drf"), QueueRanking(book, "hdrf")
    run(book, ("b1", 2), ("s1", 1))
    # b2 has nothing, but its parent has more than the other one.
    assert (flat.next(), level.next()) == ("b2", "s1")
    run(book, ("s1", 2))
    assert (flat.next(), level.next()) == ("b2", "b2")


def test_use_of_what_is_deserved_ranks_queues_of_unequal_parts() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=8)), Queue("b", quotas=gpu(deserved=2)), total=10)
    ranking = QueueRanking(book, "proportion")
    run(book, ("a", 3), ("b", 1))
    assert ranking.next() == "a"
    book.entitle({("a", "*", "gpu"): 2})
    assert ranking.next() == "b"


def test_between_those_who_do_not_borrow_the_name_decides_and_borrowers_come_after() -> None:
    book = book_of(
        Account("cohort", quotas=gpu(deserved=0)),
        Queue("a", "cohort", gpu(deserved=2)),
        Queue("b", "cohort", gpu(deserved=8)),
    )
    ranking = QueueRanking(book, "fair")
    run(book, ("a", 2), ("b", 5))
    assert ranking.next() == "a"
    run(book, ("a", 1))
    assert ranking.next() == "b"


def test_past_use_counts_as_share() -> None:
    book = book_of(Queue("a"), Queue("b"), total=10)
    ranking = QueueRanking(book, "drf", past={"a": 150_000, "ghost": 1})
    run(book, ("b", 1))
    assert ranking.next() == "b"
    run(book, ("b", 1))
    assert ranking.next() == "a"


def test_an_unknown_policy_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(ValueError, match='"lottery" is not known; there are drf, fair, hdrf, priority, proportion'):
        QueueRanking(book_of(), "lottery")


def test_a_ranking_survives_very_many_roll_backs() -> None:
    book = book_of(Queue("a"), Queue("b"), total=10)
    ranking = QueueRanking(book, "drf")
    bill = book.bill(("a",), gpus(1))
    for _ in range(40_000):
        book.take(bill)
        book.give_back(bill)
    run(book, ("a", 1))
    assert ranking.next() == "b"
    assert len(book.lowered) <= 1 << 14
