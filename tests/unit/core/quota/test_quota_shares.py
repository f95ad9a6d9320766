"""Shares: what each account deserves, and how much of its part it has, in whole numbers."""

from __future__ import annotations

import pytest

from allhands.core.quota.apportion import scale_down, water_fill
from allhands.core.quota.book import QuotaBook
from allhands.core.quota.shares import UNBOUNDED_SHARE, borrowed_share, proportion, use_of_deserved
from allhands.model.queue import Account, Queue
from allhands.model.resources import ResourceVector
from tests.unit.core.quota.books import book_of, gpu, gpus, run


def deserved(book: QuotaBook, requests: dict[str, int] | None = None) -> dict[str, int]:
    asked = None if requests is None else {name: gpus(units) for name, units in requests.items()}
    return {name: units for (name, _, _), units in proportion(book, asked).items()}


@pytest.mark.parametrize(
    ("total", "weights", "floors", "caps", "shares"),
    [
        pytest.param(10, [1, 1], [0, 0], [None, None], [5, 5], id="equal weights share equally"),
        pytest.param(10, [3, 1], [0, 0], [None, None], [8, 2], id="the odd unit goes to the first name"),
        pytest.param(10, [1, 1, 1], [0, 0, 0], [None] * 3, [4, 3, 3], id="odd units go to the first names"),
        pytest.param(10, [1, 1], [0, 0], [2, None], [2, 8], id="what a cap leaves goes to the others"),
        pytest.param(10, [1, 1], [7, 0], [None, None], [7, 3], id="a floor is met at the cost of the others"),
        pytest.param(10, [1, 1], [0, 0], [2, 3], [2, 3], id="what nobody can use is left over"),
        pytest.param(10, [0, 1], [0, 0], [None, None], [0, 10], id="a weight of 0 gets nothing but its floor"),
        pytest.param(10, [0, 0], [3, 0], [None, None], [3, 0], id="all weights 0: floors only"),
        pytest.param(4, [1, 1], [6, 2], [None, None], [3, 1], id="floors that are too much are cut in proportion"),
        pytest.param(10, [1, 1], [6, 0], [2, None], [6, 4], id="a cap below its floor counts as the floor"),
        pytest.param(0, [1, 1], [1, 1], [None, None], [0, 0], id="of nothing everybody gets nothing"),
        pytest.param(12, [1, 1, 1], [8, 0, 0], [None, 1, None], [8, 1, 3], id="floors and caps at once"),
        pytest.param(2**62, [1, 2], [0, 0], [None, None], [1537228672809129302, 3074457345618258602], id="large"),
    ],
)
def test_units_are_shared_out_by_weight_between_floors_and_caps(
    total: int, weights: list[int], floors: list[int], caps: list[int | None], shares: list[int]
) -> None:
    assert water_fill(total, weights, floors, caps) == shares


def test_needs_are_cut_only_where_they_are_too_much() -> None:
    assert scale_down(10, [4, 6]) == [4, 6]
    assert scale_down(9, [4, 6]) == [4, 5]
    assert scale_down(-5, [4, 6]) == [0, 0]


def test_without_a_word_about_deserved_the_cluster_is_shared_by_weight() -> None:
    book = book_of(Queue("a", weight_millis=3000), Queue("b"), total=8)
    assert deserved(book) == {"a": 6, "b": 2}
    assert book.deserved("a", "gpu") == 6


def test_what_is_written_wins_and_weights_share_the_rest() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=5), weight_millis=9000), Queue("b"), Queue("c"), total=9)
    assert deserved(book) == {"a": 5, "b": 2, "c": 2}


def test_a_weight_brings_no_more_than_is_asked_for_but_at_least_the_guarantee() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=2)), Queue("b"), Queue("c", quotas=gpu(capability=4)), total=12)
    assert deserved(book, {"a": 1, "b": 20, "c": 20}) == {"a": 2, "b": 6, "c": 4}
    assert deserved(book, {}) == {"a": 2, "b": 0, "c": 0}


def test_each_level_shares_what_the_level_above_has() -> None:
    book = book_of(
        Account("x", weight_millis=2000),
        Account("y"),
        Queue("x1", "x"),
        Queue("x2", "x", weight_millis=3000),
        Queue("y1", "y"),
        total=12,
    )
    assert deserved(book) == {"x": 8, "y": 4, "x1": 2, "x2": 6, "y1": 4}
    assert deserved(book, {"x1": 5, "x2": 1, "y1": 99}) == {"x": 6, "y": 6, "x1": 5, "x2": 1, "y1": 6}


def test_an_account_deserves_at_least_what_is_written_below_it() -> None:
    book = book_of(Account("x"), Account("y"), Queue("x1", "x", gpu(deserved=7)), Queue("y1", "y"), total=10)
    assert deserved(book) == {"x": 7, "y": 3, "x1": 7, "y1": 3}


def test_what_is_written_is_cut_when_the_cluster_shrinks() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=6)), Queue("b", quotas=gpu(deserved=2)), total=4)
    assert deserved(book) == {"a": 3, "b": 1}


def test_who_states_gpus_alone_is_not_judged_by_other_resources() -> None:
    book = QuotaBook.build(
        [Queue("a", quotas=gpu(deserved=4)), Queue("b")], {"*": ResourceVector.of({"gpu": 8, "cpu": 8000})}
    )
    assert (book.deserved("a", "gpu"), book.deserved("b", "gpu")) == (4, 4)
    assert (book.deserved("a", "cpu"), book.deserved("b", "cpu")) == (None, None)


def test_an_unknown_capacity_leaves_only_what_is_written() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=4)), Queue("b"))
    assert deserved(book) == {"a": 4, "b": 0}
    assert deserved(book_of(Queue("a"), Queue("b"))) == {}


def test_a_dominant_share_is_the_largest_part_of_any_resource_by_weight() -> None:
    capacity = {"*": ResourceVector.of({"cpu": 10_000, "gpu": 8})}
    book = QuotaBook.build([Account("top"), Queue("a", "top", weight_millis=2000), Queue("b", "top")], capacity)
    for name in ("a", "b"):
        book.take(book.bill((name,), (("*", "cpu", 5000), ("*", "gpu", 2))))
    assert (book.share("a"), book.share("b"), book.share("top")) == (250_000, 500_000, 1_000_000)
    assert book.share("nobody") == 0


def test_a_share_follows_every_change_of_its_path_and_of_no_other() -> None:
    book = book_of(Account("top"), Queue("a", "top"), Queue("b"), total=10)
    assert (book.share("top"), book.share("b")) == (0, 0)
    bill = book.bill(("a",), gpus(1))
    book.take(bill)
    assert (book.share("a"), book.share("top"), book.share("b")) == (100_000, 100_000, 0)
    book.give_back(bill)
    assert book.share("top") == 0


def test_any_use_of_what_the_cluster_does_not_have_counts_as_all_of_it() -> None:
    book = QuotaBook.build([Queue("a")], {"*": ResourceVector.of({"cpu": 1000})})
    run(book, ("a", 1))
    assert book.share("a") == 1_000_000


def test_a_weight_of_zero_has_an_unbounded_share() -> None:
    assert book_of(Queue("a", weight_millis=0), total=1).share("a") == UNBOUNDED_SHARE


def test_borrowed_use_is_measured_by_all_that_could_be_lent() -> None:
    book = book_of(
        Account("cohort", quotas=gpu(deserved=2)),
        Queue("a", "cohort", gpu(deserved=4), weight_millis=2000),
        Queue("b", "cohort", gpu(deserved=6, lending=2)),
        Queue("zero", "cohort", weight_millis=0),
    )
    rows = book.layout.row_by_name
    run(book, ("a", 4))
    assert borrowed_share(book, rows["a"]) == 0
    run(book, ("a", 2), ("zero", 1))
    # Lent are 2 of the pool, 4 of a and 2 of b.
    assert borrowed_share(book, rows["a"]) == 2 * 1_000_000 // 8 // 2
    assert borrowed_share(book, rows["zero"]) == UNBOUNDED_SHARE


def test_use_of_what_is_deserved_puts_those_who_deserve_nothing_last() -> None:
    book = book_of(Queue("a", quotas=gpu(deserved=4)), Queue("b", quotas=gpu(deserved=4)), Queue("c"), total=8)
    rows = book.layout.row_by_name
    run(book, ("a", 3), ("c", 1))
    shares = {name: use_of_deserved(book, row) for name, row in rows.items()}
    assert (shares["a"], shares["b"]) == (750_000, 0)
    assert shares["c"] > UNBOUNDED_SHARE


def test_entitlements_can_follow_what_is_asked_for() -> None:
    book = book_of(Queue("a"), Queue("b"), total=8)
    book.entitle(proportion(book, {"a": gpus(1), "b": gpus(99)}))
    assert (book.deserved("a", "gpu"), book.deserved("b", "gpu")) == (1, 7)
    book.entitle({("ghost", "*", "gpu"): 5, ("a", "*", "unheard"): 5})
    assert book.deserved("a", "gpu") == 1
