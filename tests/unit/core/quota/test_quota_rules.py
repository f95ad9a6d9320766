"""The rule table of quotas, one sentence each: what is limited, what is borrowed, what is kept for whom."""

from __future__ import annotations

import pytest

from allhands.core.quota.book import QuotaBook
from allhands.model.queue import Account, Queue, QueueState, Quota
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector
from tests.unit.core.quota.books import allows, book_of, gpu, gpus, most, run, why

UNLIMITED = 64


def cohort(*queues: Queue, pool: int = 0) -> QuotaBook:
    """Kueue's shape: a closed pool at the top, queues with a nominal quota below it."""
    return book_of(Account("cohort", quotas=gpu(deserved=pool)), *queues)


def test_a_queue_without_quotas_is_not_limited() -> None:
    assert most(book_of(Queue("q"), total=8), "q") == UNLIMITED


def test_a_capability_is_never_exceeded_and_one_of_zero_allows_nothing() -> None:
    assert most(book_of(Queue("q", quotas=gpu(capability=5))), "q") == 5
    assert most(book_of(Queue("q", quotas=gpu(capability=0))), "q") == 0


def test_a_resource_that_no_quota_names_is_not_limited() -> None:
    book = book_of(Queue("q", quotas=gpu(capability=0)))
    assert book.refusal(book.bill(("q",), (("*", "cpu", 10**9),))) is None


def test_a_quota_for_any_resource_caps_those_that_the_account_does_not_name() -> None:
    covered = Queue("q", quotas=(*gpu("a100", capability=4), Quota("*", capability=0)))
    book = book_of(covered, Queue("below", "q"), a100=8)
    for queue in ("q", "below"):
        assert most(book, queue, "a100") == 4
        assert why(book, queue, (("a100", "cpu", 1000),)) == (
            'Queue "q" uses 0 of its capability of 0 cpu; the group asks for 1.'
        )


def test_a_quota_that_says_nothing_limits_nothing() -> None:
    assert most(book_of(Queue("q", quotas=gpu())), "q") == UNLIMITED


def test_the_cap_of_a_parent_holds_for_the_sum_of_its_children() -> None:
    book = book_of(
        Account("top", quotas=gpu(capability=10)),
        Queue("a", "top", gpu(capability=8)),
        Queue("b", "top", gpu(capability=8)),
    )
    run(book, ("a", 7))
    assert (most(book, "a"), most(book, "b")) == (1, 3)


def test_who_asks_for_nothing_of_a_resource_is_not_stopped_by_its_cap() -> None:
    book = book_of(Queue("q", quotas=gpu(capability=2)))
    run(book, ("q", 5))
    assert book.refusal(book.bill(("q",), (("*", "gpu", 0), ("*", "cpu", 100)))) is None


def test_use_in_a_flavor_counts_against_the_quota_for_all_flavors_too() -> None:
    book = book_of(Queue("q", quotas=(*gpu(capability=10), *gpu("a100", capability=6))), a100=8, h100=8)
    assert (most(book, "q", "a100"), most(book, "q", "h100"), most(book, "q")) == (6, 10, 10)
    book.take(book.bill(("q",), gpus(6, "a100")))
    assert (most(book, "q", "a100"), most(book, "q", "h100"), most(book, "q")) == (0, 4, 4)
    assert (book.use("q", "gpu", "a100"), book.use("q", "gpu", "h100"), book.use("q", "gpu")) == (6, 0, 6)


def test_flavors_of_one_demand_add_up_in_the_quota_for_all() -> None:
    book = book_of(Queue("q", quotas=gpu(capability=5)))
    assert book.refusal(book.bill(("q",), (*gpus(3, "a100"), *gpus(2, "h100")))) is None
    assert book.refusal(book.bill(("q",), (*gpus(3, "a100"), *gpus(3, "h100")))) is not None


def test_deserved_alone_is_no_limit_for_a_queue_since_it_borrows_from_the_cluster() -> None:
    assert most(book_of(Queue("q", quotas=gpu(deserved=4)), total=8), "q") == UNLIMITED


def test_a_queue_borrows_at_most_its_borrowing_limit_above_what_it_deserves() -> None:
    book = book_of(Queue("q", quotas=gpu(deserved=4, borrowing=2)), total=100)
    run(book, ("q", 5))
    assert most(book, "q") == 1
    assert why(book, "q", gpus(2)) == 'Queue "q" already borrows 1 gpu of at most 2; the group asks for 2.'


def test_a_borrowing_limit_of_zero_is_a_cap_at_what_is_deserved() -> None:
    assert most(book_of(Queue("q", quotas=gpu(deserved=4, borrowing=0)), total=100), "q") == 4


def test_in_a_closed_pool_queues_borrow_what_their_siblings_do_not_use() -> None:
    book = cohort(Queue("a", "cohort", gpu(deserved=4)), Queue("b", "cohort", gpu(deserved=6)))
    assert (most(book, "a"), most(book, "b")) == (10, 10)
    run(book, ("a", 7))
    assert (most(book, "a"), most(book, "b")) == (3, 3)


def test_the_pool_of_a_plain_account_is_added_to_what_those_below_deserve() -> None:
    book = cohort(Queue("a", "cohort", gpu(deserved=4)), Queue("b", "cohort", gpu(deserved=6)), pool=5)
    assert most(book, "a") == 15


def test_what_a_queue_with_children_deserves_contains_what_they_deserve() -> None:
    book = book_of(
        Queue("top", quotas=gpu(deserved=12, borrowing=0)),
        Queue("a", "top", gpu(deserved=4)),
        Queue("b", "top", gpu(deserved=6)),
    )
    assert most(book, "a") == 12


def test_a_lender_keeps_all_but_its_lending_limit() -> None:
    book = cohort(Queue("a", "cohort", gpu(deserved=4)), Queue("b", "cohort", gpu(deserved=6, lending=1)))
    assert most(book, "a") == 5
    run(book, ("b", 5))
    assert (most(book, "a"), most(book, "b")) == (5, 5)
    run(book, ("b", 1))
    assert (most(book, "a"), most(book, "b")) == (4, 4)


def test_a_lending_limit_of_zero_lends_nothing_and_an_absent_one_everything() -> None:
    nothing = cohort(Queue("a", "cohort", gpu(deserved=4)), Queue("b", "cohort", gpu(deserved=6, lending=0)))
    everything = cohort(Queue("a", "cohort", gpu(deserved=4)), Queue("b", "cohort", gpu(deserved=6)))
    assert (most(nothing, "a"), most(everything, "a")) == (4, 10)


def test_lending_and_borrowing_limits_hold_between_cohorts_too() -> None:
    book = book_of(
        Account("top", quotas=gpu(deserved=0)),
        Account("left", "top", gpu(deserved=3, lending=3)),
        Queue("l", "left", gpu(deserved=6)),
        Account("right", "top", gpu(deserved=1, borrowing=4)),
        Queue("r", "right", gpu(deserved=4)),
    )
    assert most(book, "l") == 9 + 5
    # The right may borrow 4, but the left lends only 3 of its 9.
    assert most(book, "r") == 5 + 3
    run(book, ("l", 7))
    assert most(book, "r") == 5 + 2
    run(book, ("l", 5))
    assert most(book, "r") == 2


def test_a_guarantee_is_kept_free_in_the_cluster_even_while_unused() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=3)), Queue("b"), total=10)
    assert (most(book, "a"), most(book, "b")) == (UNLIMITED, 7)
    run(book, ("a", 1))
    assert most(book, "b") == 7
    run(book, ("b", 7))
    assert allows(book, "a", 2)
    assert most(book, "b") == 0


def test_once_every_guarantee_is_used_only_placement_knows_whether_the_cluster_is_full() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=3)), Queue("b"), total=10)
    run(book, ("a", 3), ("b", 7))
    assert most(book, "b") == UNLIMITED


def test_a_guarantee_is_kept_free_under_the_cap_of_every_level_above() -> None:
    book = book_of(
        Queue("top", quotas=gpu(capability=10)),
        Queue("a", "top", gpu(guarantee=6)),
        Queue("b", "top"),
    )
    assert (most(book, "a"), most(book, "b")) == (10, 4)
    assert why(book, "b", gpus(5)) == (
        'Queue "b" uses 0 gpu and deserves 0; the group asks for 5, but 6 gpu are kept free for queue "a" '
        "(guarantee 6)."
    )


def test_who_holds_it_back_is_named_whatever_it_is_kept_by() -> None:
    book = book_of(
        Queue("a", quotas=gpu(guarantee=3)),
        Queue("b", quotas=gpu(guarantee=2)),
        Queue("big", quotas=gpu(deserved=9)),
        Queue("inner", "big", gpu(guarantee=4)),
        Queue("c"),
        total=12,
    )
    run(book, ("a", 2), ("c", 3))
    told = 'Queue "c" uses 3 gpu and deserves 0; the group asks for 2, but 7 gpu are kept free for queues'
    assert why(book, "c", gpus(2)) == f'{told} "inner" (guarantee 4), "b" (guarantee 2), "a" (guarantee 3).'


def test_who_lends_too_little_is_named_with_what_it_lends() -> None:
    book = cohort(Queue("a", "cohort", gpu(deserved=5, lending=2)), Queue("b", "cohort", gpu(deserved=3)))
    run(book, ("b", 5))
    assert why(book, "b", gpus(1)) == (
        'Queue "b" uses 5 gpu and deserves 3; the group asks for 1, '
        'but 3 gpu are kept free for queue "a" (lends 2 of 5).'
    )


def test_use_by_pods_of_nobodys_queue_counts_against_the_room_for_guarantees() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=3)), Queue("b"), total=10)
    book.take(book.bill((), gpus(4)))
    assert most(book, "b") == 3
    assert book.use("", "gpu") == 4


def test_more_may_be_kept_from_siblings_than_from_the_cluster() -> None:
    book = book_of(
        Account("cohort", quotas=gpu(deserved=0)),
        Queue("a", "cohort", gpu(guarantee=1, deserved=5, lending=2)),
        Queue("b", "cohort", gpu(deserved=5)),
        Queue("alone"),
        total=10,
    )
    assert (most(book, "b"), most(book, "alone")) == (7, 9)


def test_guarantees_beyond_the_cluster_are_cut_in_proportion_with_a_warning() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=30)), Queue("b", quotas=gpu(guarantee=10)), Queue("c"), total=8)
    assert (most(book, "a"), most(book, "b"), most(book, "c")) == (6, 2, 0)
    assert [str(warning) for warning in book.warnings["b"]] == [
        'account "b": of the guarantee of 10 gpu, only 2 can be kept: the guarantees are more than there is'
    ]


def test_guarantees_beyond_the_cap_of_a_parent_are_cut_with_a_warning() -> None:
    book = book_of(
        Queue("top", quotas=gpu(capability=4)),
        Queue("a", "top", gpu(guarantee=6)),
        Queue("b", "top", gpu(guarantee=2)),
        total=100,
    )
    assert sorted(book.warnings) == ["a", "b"]
    assert (most(book, "a"), most(book, "b")) == (3, 1)


def test_a_group_charges_every_account_of_several_trees_and_each_may_refuse() -> None:
    book = book_of(Queue("team", quotas=gpu(capability=5)), Queue("project", quotas=gpu(capability=3)), Queue("other"))
    run(book, (("team", "project"), 2))
    assert (book.use("team", "gpu"), book.use("project", "gpu"), book.use("", "gpu")) == (2, 2, 2)
    assert allows(book, ("team", "project"), 1)
    assert why(book, ("team", "project"), gpus(2)) == (
        'Queue "project" uses 2 of its capability of 3 gpu; the group asks for 2.'
    )


def test_where_two_charged_paths_meet_the_account_is_charged_once() -> None:
    accounts = [
        Queue("top", quotas=gpu(capability=6)),
        Queue("a", "top", gpu(guarantee=2)),
        Queue("b", "top", gpu(guarantee=2)),
        Queue("c", "top"),
    ]
    book = book_of(*accounts, total=6)
    run(book, (("a", "b"), 2))
    assert (book.use("top", "gpu"), book.use("a", "gpu"), book.use("b", "gpu")) == (2, 2, 2)
    assert most(book, "c") == 4


def test_an_account_may_be_charged_though_nobody_is_queued_in_it() -> None:
    assert most(book_of(Account("budget", quotas=gpu(capability=3))), "budget") == 3


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (QueueState.CLOSED, Reason.QUEUE_CLOSED),
        (QueueState.HOLD, Reason.QUEUE_HELD),
        (QueueState.DRAIN, Reason.QUEUE_DRAINING),
    ],
)
def test_a_queue_that_is_not_open_starts_nothing_and_neither_does_one_below_it(
    state: QueueState, reason: Reason
) -> None:
    book = book_of(Queue("top", state=state), Queue("below", "top"), Queue("open"))
    for name in ("top", "below"):
        refusal = book.refusal(book.bill((name,), ()))
        assert refusal is not None
        assert (refusal.reason, refusal.number("queue")) == (reason, "top")
    assert book.refusal(book.bill(("open",), ())) is None


def test_a_queue_that_does_not_exist_is_named() -> None:
    assert why(book_of(), "ghost", ()) == 'Queue "ghost" does not exist.'
    assert why(book_of(), (), ()) == 'Queue "" does not exist.'


def test_amounts_in_a_refusal_are_written_as_people_write_them() -> None:
    quotas = (Quota("memory", capability=8 << 30), Quota("cpu", capability=4000))
    book = QuotaBook.build([Queue("q", quotas=quotas)], {"*": ResourceVector.of({"memory": 1 << 40})})
    book.take(book.bill(("q",), (("*", "memory", 3 << 30), ("*", "cpu", 500))))
    assert why(book, "q", (("*", "memory", 6 << 30),)) == (
        'Queue "q" uses 3Gi of its capability of 8Gi memory; the group asks for 6Gi.'
    )
    assert why(book, "q", (("*", "cpu", 3600),)) == (
        'Queue "q" uses 0.5 of its capability of 4 cpu; the group asks for 3.6.'
    )


@pytest.mark.parametrize("units", [-1, 2**63, 10**40])
def test_a_request_that_is_negative_or_beyond_64_bits_is_refused_and_never_frees_anything(units: int) -> None:
    book = book_of(Queue("q", quotas=gpu(capability=5)))
    bill = book.bill(("q",), gpus(units))
    assert f"the request for {units} gpu" in str(book.refusal(bill))
    book.take(bill)
    assert book.use("q", "gpu") == max(units, 0)
    book.give_back(bill)
    assert book.use("q", "gpu") == 0


def test_many_huge_requests_do_not_wrap_around() -> None:
    book = book_of(Queue("q", quotas=gpu(capability=2**63 - 1)))
    for _ in range(3):
        run(book, ("q", 2**63 - 1))
    assert not allows(book, "q", 1)


def test_equal_questions_get_the_same_bill_and_a_copy_goes_its_own_way() -> None:
    book = book_of(Queue("q", quotas=gpu(guarantee=1, capability=5)), total=9)
    assert book.bill(("q",), gpus(2)) is book.bill(("q",), gpus(2))
    run(book, ("q", 2))
    twin = book.copy()
    assert twin.state() == book.state()
    late = twin.bill(("q",), (("*", "cpu", 5), *gpus(1)))
    twin.take(late)
    assert (twin.use("q", "gpu"), book.use("q", "gpu"), book.use("q", "cpu")) == (3, 2, 0)
    book.take(late)
    assert book.state() == twin.state()


def test_a_quota_in_a_flavor_that_no_node_has_still_holds_and_is_warned_about() -> None:
    book = book_of(Queue("q", quotas=gpu("b200", capability=2)), a100=8)
    assert (most(book, "q", "b200"), most(book, "q", "a100")) == (2, UNLIMITED)
    assert "b200" in str(book.warnings["q"][0])


def test_the_whole_cluster_is_the_sum_of_its_flavors_unless_said_otherwise() -> None:
    book = book_of(Queue("a", quotas=gpu(guarantee=3)), Queue("b"), a100=4, h100=4)
    assert most(book, "b") == 5
