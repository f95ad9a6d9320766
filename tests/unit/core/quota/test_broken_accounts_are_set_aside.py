"""One broken account costs itself and what hangs below it; everything else works."""

from __future__ import annotations

import itertools

from allhands.model.queue import Account, Queue
from tests.unit.core.quota.books import allows, book_of, why


def test_every_kind_of_broken_account_is_set_aside_with_its_reason() -> None:
    book = book_of(
        Queue("good"),
        Queue("below good", "good"),
        Queue("twice"),
        Account("twice"),
        Queue("below twice", "twice"),
        Queue("orphan", "nowhere"),
        Queue("x", "y"),
        Queue("y", "z"),
        Queue("z", "x"),
        Queue("below cycle", "y"),
        Queue("own parent", "own parent"),
        Queue(""),
    )
    assert {name: str(explanation) for name, explanation in book.set_aside.items()} == {
        "": "an account must have a name",
        "below cycle": 'account "below cycle" is below "y", which is set aside',
        "below twice": 'account "below twice" is below "twice", which is set aside',
        "orphan": 'account "orphan" has the parent "nowhere", which does not exist',
        "own parent": 'account parents form a cycle: "own parent" -> "own parent"',
        "twice": 'account "twice" is defined twice',
        "x": 'account parents form a cycle: "x" -> "y" -> "z" -> "x"',
        "y": 'account parents form a cycle: "x" -> "y" -> "z" -> "x"',
        "z": 'account parents form a cycle: "x" -> "y" -> "z" -> "x"',
    }
    assert allows(book, "below good", 1)
    assert why(book, "below cycle", ()) == 'account "below cycle" is below "y", which is set aside'


def test_the_order_in_which_accounts_come_does_not_matter() -> None:
    accounts = [Queue("a", "b"), Queue("b", "a"), Queue("c", "b"), Queue("d", "gone"), Queue("e"), Queue("e")]
    outcomes = {tuple(book_of(*order).set_aside.items()) for order in itertools.permutations(accounts)}
    assert len(outcomes) == 1


def test_a_chain_of_ten_thousand_accounts_is_read_without_recursion() -> None:
    chain = [Queue("0"), *(Queue(str(depth), str(depth - 1)) for depth in range(1, 10_000))]
    assert allows(book_of(*chain), "9999", 1)


def test_what_runs_in_a_queue_that_is_set_aside_counts_for_the_cluster_and_for_its_sound_accounts() -> None:
    book = book_of(Queue("orphan", "nowhere"), Queue("sound"), total=10)
    book.take(book.bill(("orphan", "sound"), (("*", "gpu", 4),)))
    assert (book.use("", "gpu"), book.use("sound", "gpu"), book.use("orphan", "gpu")) == (4, 4, 0)
