"""What a CronJob does about its Jobs: starts, concurrency, deadlines, history, status."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from allhands.lifecycle.cron_job import CronJob, CronsJob, reconcile
from allhands.lifecycle.instructions import Create, Delete, Outcome, Patch, Record

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC).timestamp()


def cron(status: dict[str, Any] | None = None, created: str = "2026-01-31T11:00:00Z", **spec: Any) -> CronJob:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"note": "x"}},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    manifest = {
        "metadata": {
            "name": "tick",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": created,
        },
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": template, **spec},
        "status": status or {},
    }
    return msgspec.convert(manifest, CronJob)


def job(minutes_ago: int, end: str = "", *, going: bool = False, name: str = "") -> CronsJob:
    at = NOON - minutes_ago * 60
    text = datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = name or f"tick-{int(at) // 60}"
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": text}
    if going:
        metadata["deletionTimestamp"] = text
    status: dict[str, Any] = {"startTime": text}
    if end:
        status["conditions"] = [{"type": end, "status": "True"}]
        status["completionTime"] = text
    return msgspec.convert({"metadata": metadata, "status": status}, CronsJob)


def created(outcome: Outcome) -> list[str]:
    return [it.manifest["metadata"]["name"] for it in outcome.instructions if isinstance(it, Create)]


def deleted(outcome: Outcome) -> list[str]:
    return [it.name for it in outcome.instructions if isinstance(it, Delete)]


def told(outcome: Outcome) -> list[str]:
    return [it.reason for it in outcome.instructions if isinstance(it, Record)]


def status_of(outcome: Outcome) -> dict[str, Any]:
    return next((it.patch["status"] for it in outcome.instructions if isinstance(it, Patch)), {})


def test_a_due_minute_starts_a_job_that_is_named_after_it_and_carries_the_template() -> None:
    outcome = reconcile(cron(timeZone="Asia/Kolkata"), [], NOON + 3)
    (creation,) = [it for it in outcome.instructions if isinstance(it, Create)]
    metadata = creation.manifest["metadata"]
    assert metadata["name"] == f"tick-{int(NOON) // 60}"
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {
        "note": "x",
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-31T17:30:00+05:30",
    }
    assert metadata["ownerReferences"][0]["uid"] == "u"
    assert creation.manifest["spec"] == {"template": {"spec": {"containers": []}}}
    assert outcome.wake_at_seconds == NOON + 600


def test_the_started_job_is_in_the_status_at_the_next_look_and_nothing_starts_again() -> None:
    outcome = reconcile(cron(), [job(0)], NOON + 3)
    assert created(outcome) == []
    assert status_of(outcome)["lastScheduleTime"] == "2026-01-31T12:00:00Z"
    assert [it["name"] for it in status_of(outcome)["active"]] == [f"tick-{int(NOON) // 60}"]


def test_a_status_is_written_only_if_nobody_else_wrote_it_meanwhile() -> None:
    patch = next(it for it in reconcile(cron(), [job(0)], NOON).instructions if isinstance(it, Patch))
    assert patch.version == "7"
    assert patch.subresource == "status"


def test_between_the_minutes_nothing_happens() -> None:
    outcome = reconcile(cron({"lastScheduleTime": "2026-01-31T12:00:00Z"}), [], NOON + 599)
    assert outcome == Outcome((), NOON + 600)


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_a_running_job_is_joined_kept_alone_or_replaced(policy: str) -> None:
    running = job(10)
    outcome = reconcile(cron(concurrencyPolicy=policy), [running], NOON)
    name = f"tick-{int(NOON) // 60}"
    assert created(outcome) == ([] if policy == "Forbid" else [name])
    assert deleted(outcome) == ([running.metadata.name] if policy == "Replace" else [])
    assert ("JobAlreadyActive" in told(outcome)) == (policy == "Forbid")


def test_with_forbid_a_missed_start_is_made_up_for_as_soon_as_the_job_ends() -> None:
    outcome = reconcile(cron(concurrencyPolicy="Forbid"), [job(10, "Complete")], NOON + 120)
    assert created(outcome) == [f"tick-{int(NOON) // 60}"]


def test_a_job_made_by_hand_keeps_nobody_waiting() -> None:
    by_hand = job(5, name="by-hand")
    outcome = reconcile(cron(concurrencyPolicy="Forbid"), [by_hand], NOON)
    assert created(outcome) == [f"tick-{int(NOON) // 60}"]
    assert "active" not in status_of(outcome)


def test_a_job_of_somebody_else_in_the_way_is_told_and_left_alone() -> None:
    outcome = reconcile(cron(), [], NOON, is_taken=lambda _name: True)
    assert created(outcome) == []
    assert told(outcome) == ["FailedCreate"]


def test_of_many_missed_starts_only_the_last_is_made_up_for_and_more_than_a_hundred_are_told() -> None:
    few = reconcile(cron({"lastScheduleTime": "2026-01-31T06:00:00Z"}), [], NOON + 1)
    many = reconcile(cron({"lastScheduleTime": "2020-01-31T06:00:00Z"}), [], NOON + 1)
    assert created(few) == created(many) == [f"tick-{int(NOON) // 60}"]
    assert "TooManyMissedTimes" not in told(few)
    assert "TooManyMissedTimes" in told(many)


def test_a_start_that_is_later_than_its_deadline_is_let_go() -> None:
    late = cron({"lastScheduleTime": "2026-01-31T11:50:00Z"}, startingDeadlineSeconds=30)
    assert created(reconcile(late, [], NOON + 29)) == [f"tick-{int(NOON) // 60}"]
    assert created(reconcile(late, [], NOON + 31)) == []
    assert "TooManyMissedTimes" not in told(reconcile(cron(startingDeadlineSeconds=200), [], NOON))


def test_a_suspended_one_starts_nothing_and_needs_no_look() -> None:
    assert reconcile(cron(suspend=True), [], NOON) == Outcome()


def test_one_that_is_being_deleted_only_keeps_its_status() -> None:
    going = msgspec.structs.replace(
        cron(),
        metadata=msgspec.structs.replace(cron().metadata, deletion_timestamp=datetime.datetime.now(datetime.UTC)),
    )
    assert created(reconcile(going, [], NOON)) == []


def test_finished_jobs_beyond_the_limits_go_oldest_first_after_the_status_is_written() -> None:
    jobs = [job(30, "Complete"), job(20, "Complete"), job(10, "Failed"), job(0, "Complete")]
    outcome = reconcile(cron(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0), jobs, NOON)
    assert deleted(outcome) == [jobs[0].metadata.name, jobs[1].metadata.name, jobs[2].metadata.name]
    kinds = [type(it) for it in outcome.instructions if not isinstance(it, Record)]
    assert kinds[0] is Patch
    assert status_of(outcome)["lastSuccessfulTime"] == "2026-01-31T12:00:00Z"


def test_finished_and_missing_jobs_leave_the_list_of_active_ones() -> None:
    done = job(10, "Complete")
    active = [{"name": done.metadata.name, "uid": done.metadata.uid}, {"name": "gone", "uid": "gone"}]
    status = {"active": active, "lastScheduleTime": "2026-01-31T12:00:00Z"}
    outcome = reconcile(cron(status), [done], NOON)
    assert status_of(outcome)["active"] is None
    assert sorted(told(outcome)) == ["MissingJob", "SawCompletedJob"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "* * *"}, "UnparseableSchedule"),
        ({"timeZone": "Mars/Olympus"}, "UnknownTimeZone"),
        ({"schedule": "0 0 30 2 *"}, "InvalidSchedule"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_told(spec: dict[str, Any], reason: str) -> None:
    outcome = reconcile(cron(**spec), [], NOON)
    assert told(outcome) == [reason]
    assert outcome.wake_at_seconds is None
