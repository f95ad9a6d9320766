"""The cells of kinds that own pods. Objects are as a server stores them; the cells are what a real one shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from allhands.api.tables.builtin import printer_for

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
AGO_5_MINUTES = "2026-03-01T11:55:00Z"
AGO_2_HOURS = "2026-03-01T10:00:00Z"
AGE = "3d2h"
CREATED = "2026-02-26T10:00:00Z"
POD_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "a": "b"}},
    "spec": {
        "containers": [{"name": "c1", "image": "i1"}, {"name": "c2", "image": "i2:v2"}],
        "restartPolicy": "Always",
    },
}
JOB_TEMPLATE = {**POD_TEMPLATE, "spec": {**POD_TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "web"}}
Case = tuple[str, str, dict[str, Any], list[Any]]


def condition(type: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": type, "status": status, **more}


CASES: dict[str, Case] = {
    "a deployment shows ready of desired": (
        "apps",
        "Deployment",
        {
            "spec": {"replicas": 3, "selector": SELECTOR, "template": POD_TEMPLATE},
            "status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        },
        ["x", "2/3", 3, 1, AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a deployment scaled to nothing": (
        "apps",
        "Deployment",
        {"spec": {"replicas": 0, "selector": SELECTOR, "template": POD_TEMPLATE}},
        ["x", "0/0", 0, 0, AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a replica set": (
        "apps",
        "ReplicaSet",
        {
            "spec": {"replicas": 2, "selector": SELECTOR, "template": POD_TEMPLATE},
            "status": {"replicas": 2, "readyReplicas": 1},
        },
        ["x", 2, 2, 1, AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a replication controller": (
        "",
        "ReplicationController",
        {
            "spec": {"replicas": 2, "selector": {"app": "web"}, "template": POD_TEMPLATE},
            "status": {"replicas": 2, "readyReplicas": 1},
        },
        ["x", 2, 2, 1, AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a stateful set": (
        "apps",
        "StatefulSet",
        {
            "spec": {"replicas": 3, "selector": SELECTOR, "serviceName": "s", "template": POD_TEMPLATE},
            "status": {"replicas": 3, "readyReplicas": 1},
        },
        ["x", "1/3", AGE, "c1,c2", "i1,i2:v2"],
    ),
    "a daemon set": (
        "apps",
        "DaemonSet",
        {
            "spec": {
                "selector": SELECTOR,
                "template": {**POD_TEMPLATE, "spec": {**POD_TEMPLATE["spec"], "nodeSelector": {"os": "linux"}}},
            },
            "status": {
                "desiredNumberScheduled": 5,
                "currentNumberScheduled": 4,
                "numberReady": 3,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
                "numberMisscheduled": 0,
            },
        },
        ["x", 5, 4, 3, 2, 1, "os=linux", AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a controller revision names its controller": (
        "apps",
        "ControllerRevision",
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u0"},
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True},
                ]
            },
            "revision": 4,
            "data": {"a": 1},
        },
        ["x", "statefulset.apps/s", 4, AGE],
    ),
    "a controller revision of nobody": (
        "apps",
        "ControllerRevision",
        {"revision": 1, "data": {"a": 1}},
        ["x", "<none>", 1, AGE],
    ),
    "a job that runs": (
        "batch",
        "Job",
        {
            "spec": {
                "completions": 5,
                "parallelism": 2,
                "template": JOB_TEMPLATE,
                "selector": {"matchLabels": {"app": "web"}},
                "manualSelector": True,
            },
            "status": {"startTime": AGO_5_MINUTES, "succeeded": 2, "active": 2, "ready": 0},
        },
        ["x", "Running", "2/5", "5m", AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a job without a number of completions shows its parallelism": (
        "batch",
        "Job",
        {
            "spec": {
                "parallelism": 3,
                "template": JOB_TEMPLATE,
                "selector": {"matchLabels": {"app": "web"}},
                "manualSelector": True,
            }
        },
        ["x", "Running", "0/1 of 3", "", AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a suspended job": (
        "batch",
        "Job",
        {
            "spec": {
                "suspend": True,
                "parallelism": 1,
                "completions": 1,
                "template": JOB_TEMPLATE,
                "selector": {"matchLabels": {"app": "web"}},
                "manualSelector": True,
            },
            "status": {"conditions": [condition("Suspended")]},
        },
        ["x", "Suspended", "0/1", "", AGE, "c1,c2", "i1,i2:v2", "app=web"],
    ),
    "a cron job that never ran": (
        "batch",
        "CronJob",
        {
            "spec": {
                "schedule": "*/5 * * * *",
                "suspend": False,
                "concurrencyPolicy": "Allow",
                "jobTemplate": {"spec": {"template": JOB_TEMPLATE}},
            }
        },
        ["x", "*/5 * * * *", "<none>", "False", 0, "<none>", AGE, "c1,c2", "i1,i2:v2", "<none>"],
    ),
    "a suspended cron job in a time zone": (
        "batch",
        "CronJob",
        {
            "spec": {
                "schedule": "0 0 * * *",
                "timeZone": "Etc/UTC",
                "suspend": True,
                "concurrencyPolicy": "Allow",
                "jobTemplate": {"spec": {"template": JOB_TEMPLATE}},
            },
            "status": {"lastScheduleTime": AGO_5_MINUTES, "active": [{"kind": "Job", "name": "j"}]},
        },
        ["x", "0 0 * * *", "Etc/UTC", "True", 1, "5m", AGE, "c1,c2", "i1,i2:v2", "<none>"],
    ),
}


def stored(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **document.get("metadata", {})}
    return {**document, "metadata": metadata}


@pytest.mark.parametrize(("group", "kind", "document", "expected"), CASES.values(), ids=CASES.keys())
def test_cells(group: str, kind: str, document: dict[str, Any], expected: list[Any]) -> None:
    assert printer_for(group, kind).row(stored(document), NOW) == expected


JOB_STATUSES = [
    pytest.param(["Complete", "SuccessCriteriaMet"], "Complete", id="complete wins over the criteria that led to it"),
    pytest.param(["FailureTarget", "Failed"], "Failed", id="failed wins over the target that led to it"),
    pytest.param(["FailureTarget"], "FailureTarget", id="a job about to fail"),
    pytest.param(["SuccessCriteriaMet"], "SuccessCriteriaMet", id="a job about to succeed"),
    pytest.param(["Suspended", "FailureTarget"], "Suspended", id="suspended wins over a failure to come"),
    pytest.param([], "Running", id="no condition at all"),
]


@pytest.mark.parametrize(("conditions", "expected"), JOB_STATUSES)
def test_status_of_a_job(conditions: list[str], expected: str) -> None:
    job = {"metadata": {"name": "x"}, "status": {"conditions": [condition(each) for each in conditions]}}
    assert printer_for("batch", "Job").row(job, NOW)[1] == expected


def test_a_finished_job_shows_how_long_it_took() -> None:
    times = {"startTime": AGO_2_HOURS, "completionTime": AGO_5_MINUTES}
    assert printer_for("batch", "Job").row({"metadata": {"name": "x"}, "status": times}, NOW)[3] == "115m"
