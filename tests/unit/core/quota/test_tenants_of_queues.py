"""Users and namespaces in a queue: their shares and their limits."""

from __future__ import annotations

from allhands.core.quota.tenants import Tenants
from allhands.core.quota.usage import UsageKey
from allhands.model.queue import Account, Queue, ShareBy
from allhands.model.reason import Reason
from tests.unit.core.quota.books import book_of, gpu, gpus


def user(queue: str, name: str) -> UsageKey:
    return UsageKey(queue, ShareBy.USER, name)


def test_at_most_so_many_groups_run_in_a_queue() -> None:
    tenants = Tenants(book_of(Queue("q", max_running_groups=2)))
    for name in ("alice", "bob"):
        tenants.take(tenants.ticket("q", name, "default", gpus(1)))
    third = tenants.ticket("q", "carol", "default", gpus(1))
    why = tenants.refusal(third)
    assert str(why) == 'Queue "q" runs 2 groups, and at most 2 may run in it at a time.'
    assert why is not None
    assert why.reason is Reason.QUEUE_RUNNING_LIMIT
    tenants.give_back(tenants.ticket("q", "bob", "default", gpus(1)))
    assert tenants.refusal(third) is None
    assert tenants.running_groups(UsageKey("q")) == 1


def test_a_limit_of_zero_groups_allows_none_and_an_absent_one_any() -> None:
    tenants = Tenants(book_of(Queue("none", max_running_groups=0), Queue("any")))
    assert tenants.refusal(tenants.ticket("none", "alice", "default", ())) is not None
    assert tenants.refusal(tenants.ticket("any", "alice", "default", ())) is None


def test_members_that_join_a_running_group_are_no_group_of_their_own() -> None:
    tenants = Tenants(book_of(Queue("q", max_running_groups=0)))
    assert tenants.refusal(tenants.ticket("q", "alice", "default", gpus(1), groups=0)) is None


def test_one_user_runs_at_most_so_many_groups() -> None:
    tenants = Tenants(book_of(Queue("q", max_running_groups_per_user=1)))
    tenants.take(tenants.ticket("q", "alice", "default", gpus(1)))
    why = tenants.refusal(tenants.ticket("q", "alice", "other", gpus(1)))
    assert str(why) == 'User "alice" runs 1 groups in queue "q", in which one user may run at most 1 at a time.'
    assert why is not None
    assert why.reason is Reason.USER_RUNNING_LIMIT
    assert tenants.refusal(tenants.ticket("q", "bob", "default", gpus(1))) is None


def test_one_user_has_at_most_so_much_of_a_resource_in_a_flavor_and_in_all() -> None:
    queue = Queue("q", per_user=(*gpu(capability=4), *gpu("a100", capability=2)))
    tenants = Tenants(book_of(queue, total=8))
    tenants.take(tenants.ticket("q", "alice", "default", gpus(2, "a100")))
    why = tenants.refusal(tenants.ticket("q", "alice", "default", gpus(1, "a100")))
    assert str(why) == (
        'User "alice" uses 2 of the 2 gpu in flavor "a100" that one user may use in queue "q"; the group asks for 1.'
    )
    assert why is not None
    assert (why.reason, why.number("resource")) == (Reason.USER_LIMIT, "gpu")
    assert tenants.refusal(tenants.ticket("q", "alice", "default", gpus(2, "h100"))) is None
    assert tenants.refusal(tenants.ticket("q", "alice", "default", gpus(3, "h100"))) is not None
    assert tenants.refusal(tenants.ticket("q", "bob", "default", gpus(4))) is None


def test_limits_of_a_queue_hold_for_those_below_it() -> None:
    tenants = Tenants(
        book_of(Queue("top", max_running_groups=2, per_user=gpu(capability=3)), Queue("a", "top"), Queue("b", "top"))
    )
    tenants.take(tenants.ticket("a", "alice", "default", gpus(2)))
    assert 'User "alice" uses 2 of the 3 gpu' in str(tenants.refusal(tenants.ticket("b", "alice", "default", gpus(2))))
    tenants.take(tenants.ticket("b", "bob", "default", gpus(2)))
    assert 'Queue "top" runs 2 groups' in str(tenants.refusal(tenants.ticket("b", "carol", "default", gpus(1))))


def test_shares_are_kept_for_each_user_and_each_namespace_of_a_queue() -> None:
    tenants = Tenants(book_of(Account("top"), Queue("a", "top"), Queue("b", "top"), total=10))
    tenants.take(tenants.ticket("a", "alice", "red", gpus(2)))
    tenants.take(tenants.ticket("b", "alice", "red", gpus(1)))
    tenants.take(tenants.ticket("a", "bob", "red", gpus(3)))
    assert (tenants.share(user("a", "alice")), tenants.share(user("top", "alice"))) == (200_000, 300_000)
    assert tenants.share(UsageKey("a", ShareBy.NAMESPACE, "red")) == 500_000
    assert tenants.use(user("a", "bob"), "gpu") == 3
    assert tenants.share(user("a", "nobody")) == 0


def test_a_user_without_a_name_is_not_the_queue_itself() -> None:
    tenants = Tenants(book_of(Queue("q", max_running_groups_per_user=1)))
    tenants.take(tenants.ticket("q", "alice", "default", ()))
    assert tenants.refusal(tenants.ticket("q", "", "default", ())) is None


def test_giving_back_is_the_inverse_of_taking_and_copies_part_ways() -> None:
    tenants = Tenants(book_of(Queue("q"), total=4))
    before = tenants.state()
    twin = tenants.copy()
    ticket = twin.ticket("q", "alice", "default", gpus(2, "a100"))
    twin.take(ticket)
    assert tenants.state() == before
    tenants.take(ticket)
    assert tenants.state() == twin.state() != before
    tenants.give_back(ticket)
    assert tenants.state() == before


def test_a_queue_that_is_gone_counts_nothing_and_huge_or_negative_numbers_do_no_harm() -> None:
    tenants = Tenants(book_of(Queue("q", per_user=gpu(capability=4))))
    tenants.take(tenants.ticket("ghost", "alice", "default", gpus(2)))
    assert tenants.state() == ()
    tenants.take(tenants.ticket("q", "alice", "default", gpus(-7)))
    assert tenants.use(user("q", "alice"), "gpu") == 0
    assert tenants.refusal(tenants.ticket("q", "alice", "default", gpus(2**64))) is not None
