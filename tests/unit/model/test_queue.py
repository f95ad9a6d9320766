"""Quotas and queue states: what is refused, what is kept apart."""

from __future__ import annotations

import msgspec
import pytest

from allhands.model.queue import Account, AccountForest, Queue, QueueOrder, QueueState, Quota, ShareBy


def test_absent_and_zero_are_kept_apart_through_a_dump() -> None:
    queue = Queue("q", quotas=(Quota("cpu", capability=0), Quota("cpu", "a100", deserved=5)), state=QueueState.HOLD)
    forest = AccountForest.build([queue, Account("plain")])
    again = msgspec.json.decode(msgspec.json.encode(forest), type=AccountForest)
    assert again == forest
    read = again.accounts["q"]
    assert isinstance(read, Queue)
    assert not isinstance(again.accounts["plain"], Queue)
    quota = read.quota("cpu")
    assert quota is not None
    assert (quota.capability, quota.deserved) == (0, None)


def test_a_quota_is_found_by_flavor_and_resource_alone() -> None:
    account = Account("a", quotas=(Quota("cpu", deserved=1), Quota("cpu", "a100", deserved=2)))
    found = [account.quota("cpu"), account.quota("cpu", "a100"), account.quota("cpu", "h100"), account.quota("memory")]
    assert [quota and quota.deserved for quota in found] == [1, 2, None, None]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"guarantee": 2, "deserved": 1}, r"guarantee \(2\) must not exceed deserved \(1\)"),
        ({"guarantee": 2, "capability": 1}, r"guarantee \(2\) must not exceed capability \(1\)"),
        ({"deserved": 2, "capability": 0}, r"deserved \(2\) must not exceed capability \(0\)"),
        ({"lending_limit": 2, "deserved": 1}, r"lending_limit \(2\) must not exceed deserved \(1\)"),
        ({"borrowing_limit": -1}, "borrowing_limit must not be negative, got -1"),
        ({"flavor": ""}, "must be named"),
    ],
)
def test_a_quota_that_contradicts_itself_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        msgspec.convert({"resource": "cpu", **fields}, Quota)


def test_limits_that_are_not_said_contradict_nothing() -> None:
    assert Quota("cpu", guarantee=5, lending_limit=9, borrowing_limit=0).deserved is None


def test_an_account_with_two_quotas_for_one_thing_or_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match=r'account "a": two quotas for "cpu" in flavor "\*"'):
        Account("a", quotas=(Quota("cpu"), Quota("cpu", deserved=1)))
    with pytest.raises(ValueError, match="weight must not be negative"):
        Queue("q", weight_millis=-1)


@pytest.mark.parametrize(
    ("state", "accepts", "starts", "empties"),
    [
        (QueueState.OPEN, True, True, False),
        (QueueState.CLOSED, False, False, False),
        (QueueState.HOLD, True, False, False),
        (QueueState.DRAIN, True, False, True),
    ],
)
def test_what_a_queue_does_in_each_state(state: QueueState, accepts: bool, starts: bool, empties: bool) -> None:
    assert (state.accepts_groups, state.starts_groups, state.empties) == (accepts, starts, empties)


@pytest.mark.parametrize(
    "fields",
    [{"max_running_groups": -1}, {"max_running_groups_per_user": -1}, {"default_duration_seconds": -1}],
    ids=str,
)
def test_a_queue_with_a_negative_limit_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f'queue "q": {next(iter(fields))} must not be negative'):
        msgspec.convert({"type": "queue", "name": "q", **fields}, Queue)


def test_a_user_cannot_have_two_limits_for_one_resource() -> None:
    with pytest.raises(ValueError, match='queue "q": for each user: two quotas for "cpu"'):
        Queue("q", per_user=(Quota("cpu", capability=1), Quota("cpu", capability=2)))


def test_what_an_account_must_not_have_a_queue_must_not_have_either() -> None:
    with pytest.raises(ValueError, match="weight must not be negative"):
        Queue("q", weight_millis=-1)


def test_a_plain_queue_lets_small_groups_pass_and_limits_nobody() -> None:
    queue = Queue("q")
    assert queue.order is QueueOrder.FIFO_BEST_EFFORT
    assert queue.share_by is ShareBy.NONE
    assert (queue.preempt_within, queue.can_reclaim, queue.backfill) == (True, True, True)
    assert (queue.max_running_groups, queue.max_running_groups_per_user, queue.per_user) == (None, None, ())
