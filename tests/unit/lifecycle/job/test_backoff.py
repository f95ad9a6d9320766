"""How long a Job waits after failures, and what it remembers of them."""

from __future__ import annotations

from typing import Any

from allhands.lifecycle.job.backoff import delay_seconds, failures_since_success
from allhands.lifecycle.job.documents import decode_job
from allhands.lifecycle.job.pod import JobPod


def failed(uid: str, at: float, **more: Any) -> JobPod:
    return JobPod(name=uid, uid=uid, phase="Failed", ended_at_seconds=at, **more)


PLAIN = decode_job(b'{"metadata": {}}')


def test_pauses_double_up_to_ten_minutes() -> None:
    assert [delay_seconds(it) for it in (0, 1, 2, 3, 6, 7, 1000)] == [0, 10, 20, 40, 320, 600, 600]


def test_to_see_a_failure_twice_changes_nothing() -> None:
    once = failures_since_success(PLAIN, [failed("a", 5)])
    assert failures_since_success(PLAIN, [failed("a", 5)], once) == once
    assert once.retry_at_seconds() == 15


def test_failures_of_pods_that_are_gone_are_remembered_until_a_success() -> None:
    before = failures_since_success(PLAIN, [failed("a", 5)])
    now = failures_since_success(PLAIN, [failed("b", 20)], before)
    assert now.retry_at_seconds() == 40
    success = JobPod(name="c", uid="c", phase="Succeeded", ended_at_seconds=30)
    assert failures_since_success(PLAIN, [success], now).retry_at_seconds() == 0


def test_a_pod_that_the_job_did_not_need_any_more_is_no_failure() -> None:
    assert failures_since_success(PLAIN, [failed("a", 5, is_going=True)]).retry_at_seconds() == 0
    assert failures_since_success(PLAIN, [failed("a", 5, is_going=True, is_tracked=True)]).retry_at_seconds() == 15
