"""What is different about CronJobs of Volcano: their Jobs, how those end, and how they are marked."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from allhands.lifecycle.cron_job import reconcile
from allhands.lifecycle.instructions import Create, Delete, Outcome, Patch, Record
from allhands.lifecycle.volcano_cron_job import VOLCANO, VolcanoCronJob, VolcanoCronsJob

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC).timestamp()


def cron(status: dict[str, Any] | None = None, **spec: Any) -> VolcanoCronJob:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"tasks": [{"name": "t", "replicas": 1}]}}
    created = "2026-01-31T11:00:00Z"
    metadata = {"name": "tick", "namespace": "ns", "uid": "u", "resourceVersion": "7", "creationTimestamp": created}
    whole = {"schedule": "*/10 * * * *", "jobTemplate": template, **spec}
    return msgspec.convert({"metadata": metadata, "spec": whole, "status": status or {}}, VolcanoCronJob)


def job(minutes_ago: int, phase: str = "") -> VolcanoCronsJob:
    at = NOON - minutes_ago * 60
    text = datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"tick-{int(at) // 60}"
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": text}
    state = {"phase": phase, "lastTransitionTime": text} if phase else None
    return msgspec.convert({"metadata": metadata, "status": {"state": state}}, VolcanoCronsJob)


def status_of(outcome: Outcome) -> dict[str, Any]:
    return next((it.patch["status"] for it in outcome.instructions if isinstance(it, Patch)), {})


def test_a_due_minute_starts_a_volcano_job_with_the_marks_of_volcano() -> None:
    outcome = reconcile(cron(timeZone="Asia/Kolkata"), [], NOON + 3)
    (creation,) = [it for it in outcome.instructions if isinstance(it, Create)]
    assert creation.resource == VOLCANO.jobs
    manifest, metadata = creation.manifest, creation.manifest["metadata"]
    assert (manifest["apiVersion"], manifest["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    assert metadata["name"] == f"tick-{int(NOON) // 60}"
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"volcano.sh/cronjob-scheduled-timestamp": "2026-01-31T17:30:00+05:30"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["controller"]) == ("batch.volcano.sh/v1alpha1", "CronJob", True)
    assert manifest["spec"] == {"tasks": [{"name": "t", "replicas": 1}]}
    told = [it for it in outcome.instructions if isinstance(it, Record)]
    assert {it.involved["apiVersion"] for it in told} == {"batch.volcano.sh/v1alpha1"}


@pytest.mark.parametrize(
    ("phase", "is_active"),
    [
        ("", True),
        ("Pending", True),
        ("Restarting", True),
        ("Aborted", True),
        ("Completed", False),
        ("Terminated", False),
    ],
)
def test_a_job_is_active_until_it_is_completed_failed_or_terminated(phase: str, is_active: bool) -> None:
    status = status_of(reconcile(cron(), [job(0, phase)], NOON + 3))
    assert status["lastScheduleTime"] == "2026-01-31T12:00:00Z"
    assert [it["apiVersion"] for it in status.get("active", [])] == ["batch.volcano.sh/v1alpha1"] * is_active


def test_the_last_success_is_when_a_job_became_completed() -> None:
    status = status_of(reconcile(cron(), [job(10, "Completed"), job(0, "Failed")], NOON + 3))
    assert status["lastSuccessfulTime"] == "2026-01-31T11:50:00Z"


def test_of_those_that_failed_or_were_terminated_so_many_are_kept() -> None:
    jobs = [job(30, "Terminated"), job(20, "Failed"), job(10, "Completed"), job(0, "Failed")]
    outcome = reconcile(cron(failedJobsHistoryLimit=1, successfulJobsHistoryLimit=1), jobs, NOON + 3)
    gone = [it for it in outcome.instructions if isinstance(it, Delete)]
    assert [it.name for it in gone] == [jobs[0].metadata.name, jobs[1].metadata.name]
    assert {it.resource for it in gone} == {VOLCANO.jobs}


@pytest.mark.parametrize(("policy", "starts", "stops"), [("Allow", 1, 0), ("Forbid", 0, 0), ("Replace", 1, 1)])
def test_a_running_job_is_joined_kept_alone_or_replaced(policy: str, starts: int, stops: int) -> None:
    outcome = reconcile(cron(concurrencyPolicy=policy), [job(10, "Running")], NOON + 3)
    assert sum(isinstance(it, Create) for it in outcome.instructions) == starts
    assert sum(isinstance(it, Delete) for it in outcome.instructions) == stops


def test_why_the_last_attempt_was_refused_is_told_before_the_next() -> None:
    outcome = reconcile(cron(), [], NOON + 3, refusal="queue team is closed")
    told = [it.message for it in outcome.instructions if isinstance(it, Record) and it.type == "Warning"]
    assert told == ["Error creating job: queue team is closed"]
