"""Quotas change while groups run: nothing is killed, and who waits is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.model.queue import Account, Queue
from tests.unit.core.quota.books import allows, book_of, gpu, gpus, most, why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.quota.book import QuotaBook

RUNNING = {"train": (("a",), 6), "serve": (("b",), 2)}


def recharged(book: QuotaBook, running: Mapping[str, tuple[tuple[str, ...], int]] = RUNNING) -> QuotaBook:
    """A book after a change: built anew, with everything that runs charged whether or not it is still allowed."""
    for accounts, units in running.values():
        book.take(book.bill(accounts, gpus(units)))
    return book


def test_a_cap_lowered_below_use_keeps_what_runs_and_starts_nothing_new() -> None:
    book = recharged(book_of(Queue("a", quotas=gpu(capability=4)), Queue("b"), total=10))
    assert book.use("a", "gpu") == 6
    assert most(book, "a") == 0
    assert why(book, "a", gpus(1)) == 'Queue "a" uses 6 of its capability of 4 gpu; the group asks for 1.'
    book.give_back(book.bill(("a",), gpus(6)))
    assert most(book, "a") == 4


def test_the_cap_of_a_parent_lowered_below_use_stops_all_below_it_and_names_the_parent() -> None:
    accounts = [Account("top", quotas=gpu(capability=5)), Queue("a", "top"), Queue("b", "top")]
    book = recharged(book_of(*accounts, total=10))
    assert why(book, "b", gpus(1)) == 'Queue "top" uses 8 of its capability of 5 gpu; the group asks for 1.'


def test_a_guarantee_given_while_the_cluster_is_full_is_first_in_line_for_what_comes_free() -> None:
    book = recharged(book_of(Queue("a"), Queue("b", quotas=gpu(guarantee=4)), total=8))
    assert (most(book, "a"), allows(book, "b", 2)) == (0, True)
    book.give_back(book.bill(("a",), gpus(6)))
    assert most(book, "a") == 4


def test_a_queue_moved_to_another_parent_takes_its_use_along() -> None:
    parents = [Account("x", quotas=gpu(capability=7)), Account("y", quotas=gpu(capability=7))]
    before = recharged(book_of(*parents, Queue("a", "x"), Queue("b", "y")))
    after = recharged(book_of(*parents, Queue("a", "y"), Queue("b", "y")))
    assert (before.use("x", "gpu"), before.use("y", "gpu")) == (6, 2)
    assert (after.use("x", "gpu"), after.use("y", "gpu")) == (0, 8)
    assert why(after, "a", gpus(1)) == 'Queue "y" uses 8 of its capability of 7 gpu; the group asks for 1.'


def test_a_queue_deleted_with_running_groups_is_charged_to_the_cluster_alone() -> None:
    book = recharged(book_of(Account("top"), Queue("b", "top", gpu(guarantee=3)), Queue("c", "top"), total=10))
    assert (book.use("top", "gpu"), book.use("", "gpu")) == (2, 8)
    assert why(book, "a", gpus(1)) == 'Queue "a" does not exist.'
    # The guarantee of b is still kept free next to what runs on.
    assert most(book, "c") == 1
    book.give_back(book.bill(("a",), gpus(6)))
    assert most(book, "c") == 7


def test_a_tree_relabelled_charges_the_new_names_only() -> None:
    moved = {"train": (("new a",), 6), "serve": (("b",), 2)}
    book = recharged(
        book_of(Account("new top", quotas=gpu(capability=9)), Queue("new a", "new top"), Queue("b", "new top")), moved
    )
    assert (book.use("new top", "gpu"), book.use("new a", "gpu")) == (8, 6)
    assert most(book, "b") == 1


def test_a_cycle_made_by_mistake_stops_starts_below_it_and_heals_without_loss() -> None:
    broken = recharged(book_of(Account("x", "y"), Account("y", "x"), Queue("a", "x"), Queue("b"), total=10))
    assert (broken.use("a", "gpu"), broken.use("b", "gpu"), broken.use("", "gpu")) == (0, 2, 8)
    assert "set aside" in why(broken, "a", gpus(1))
    assert allows(broken, "b", 1)
    healed = recharged(book_of(Account("x", "y"), Account("y"), Queue("a", "x"), Queue("b"), total=10))
    assert (healed.use("y", "gpu"), healed.use("", "gpu")) == (6, 8)


def test_nodes_that_leave_shrink_guarantees_and_parts_together() -> None:
    accounts = [Queue("a", quotas=gpu(guarantee=4, deserved=6)), Queue("b", quotas=gpu(guarantee=4, deserved=6))]
    assert book_of(*accounts, total=12).deserved("a", "gpu") == 6
    shrunk = recharged(book_of(*accounts, total=6))
    assert (shrunk.deserved("a", "gpu"), shrunk.deserved("b", "gpu")) == (3, 3)
    assert sorted(shrunk.warnings) == ["a", "b"]
    assert allows(shrunk, "b", 1)
