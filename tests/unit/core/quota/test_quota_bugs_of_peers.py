"""Bugs that other systems had in their quotas, each by its number, as what must happen here instead."""

from __future__ import annotations

import pytest

from allhands.core.quota.order import QueueRanking
from allhands.core.quota.reclaim import may_take_from
from allhands.model.queue import Account, Queue
from tests.unit.core.quota.books import allows, book_of, gpu, gpus, most, run


@pytest.mark.parametrize("units", [2**63 - 1, 2**63, -1, -(2**63)])
def test_kueue_11140_12897_13391_no_request_overflows_or_bypasses_a_quota(units: int) -> None:
    book = book_of(Queue("q", quotas=gpu(capability=10)))
    run(book, ("q", 8))
    assert not allows(book, "q", units)
    run(book, ("q", units))
    assert book.use("q", "gpu") >= 8


def test_kueue_804_two_queues_do_not_both_get_the_room_of_one_victim() -> None:
    book = book_of(
        Queue("a", quotas=gpu(deserved=4)),
        Queue("b", quotas=gpu(deserved=4)),
        Queue("c", quotas=gpu(deserved=4)),
        total=12,
    )
    run(book, ("c", 8), ("b", 4))
    victim, newcomer = book.bill(("c",), gpus(4)), book.bill(("a",), gpus(4))
    assert may_take_from(book, ("a",), ("c",), newcomer, victim)
    book.give_back(victim)
    book.take(newcomer)
    # The second queue sees the state after the first: nobody is above its part any more.
    assert not may_take_from(book, ("b",), ("c",), book.bill(("b",), gpus(1)), victim)


def test_kueue_3779_6947_queues_of_weight_zero_do_not_take_from_each_other_for_ever() -> None:
    book = book_of(Queue("a", weight_millis=0), Queue("b", weight_millis=0), Queue("c"), total=8)
    run(book, ("a", 8))
    for taker, victim in (("b", "a"), ("a", "b")):
        assert not may_take_from(book, (taker,), (victim,), book.bill((taker,), gpus(1)), book.bill((victim,), gpus(1)))
    assert may_take_from(book, ("c",), ("a",), book.bill(("c",), gpus(8)), book.bill(("a",), gpus(8)))
    assert QueueRanking(book, "drf").next() == "c"


def test_kueue_10510_a_group_that_asks_for_nothing_is_counted_once_and_does_no_harm() -> None:
    book = book_of(Queue("q", quotas=gpu(capability=0)))
    nothing = book.bill(("q",), ())
    assert book.refusal(nothing) is None
    before = book.state()
    book.take(nothing)
    assert book.state() == before


def test_volcano_3301_4261_giving_back_more_than_was_taken_does_not_crash() -> None:
    book = book_of(Queue("q", quotas=gpu(guarantee=2, capability=4)), Queue("b"), total=8)
    book.give_back(book.bill(("q",), gpus(3)))
    book.take(book.bill(("q",), gpus(3)))
    assert (most(book, "q"), most(book, "b")) == (4, 6)


def test_volcano_81424b8_d02fda2_guarantees_above_parent_or_cluster_do_not_crash() -> None:
    book = book_of(
        Queue("top", quotas=gpu(guarantee=4, capability=4)),
        Queue("a", "top", gpu(guarantee=9)),
        Queue("b", quotas=gpu(guarantee=9)),
        total=2,
    )
    assert sorted(book.warnings) == ["a", "b", "top"]
    assert not book.set_aside


def test_yunikorn_2795_siblings_do_not_take_turns_in_evicting_each_other() -> None:
    book = book_of(
        Queue("top", quotas=gpu(deserved=6)),
        Queue("a", "top", gpu(deserved=3)),
        Queue("b", "top", gpu(deserved=3)),
        Queue("other"),
        total=6,
    )
    run(book, ("a", 4), ("b", 2))
    # One more is owed to b, but both groups have 2: b would then be above its part itself.
    two_of_b, two_of_a = book.bill(("b",), gpus(2)), book.bill(("a",), gpus(2))
    assert not may_take_from(book, ("b",), ("a",), two_of_b, two_of_a)
    assert may_take_from(book, ("b",), ("a",), book.bill(("b",), gpus(1)), two_of_a)


def test_yunikorn_251_a_bill_without_accounts_gives_back_only_itself() -> None:
    book = book_of(Account("top"), Queue("q", "top"), total=8)
    run(book, ("q", 4), ((), 1))
    book.give_back(book.bill((), gpus(1)))
    assert (book.use("q", "gpu"), book.use("top", "gpu"), book.use("", "gpu")) == (4, 4, 4)


def test_kai_1863_a_queue_at_the_top_of_its_tree_is_like_any_other() -> None:
    book = book_of(Queue("alone"), total=4)
    run(book, ("alone", 1))
    for policy in ("drf", "hdrf", "fair", "proportion"):
        assert QueueRanking(book, policy).next() == "alone"


def test_koordinator_enable_min_quota_scale_a_shrinking_cluster_shrinks_every_minimum_alike() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=6)), Queue("b", quotas=gpu(guarantee=3)), Queue("c"), total=6)
    assert (most(book, "a"), most(book, "b"), most(book, "c")) == (4, 2, 0)
