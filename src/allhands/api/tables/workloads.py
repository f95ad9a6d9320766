"""How kinds that own pods are shown: deployments and their relatives, jobs, cron jobs and replication controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import (
    NONE,
    UNSET,
    age_of,
    at,
    condition_is_true,
    container_cells,
    integer_at,
    is_terminating,
    labels_text,
    list_at,
    mapping_at,
    name_of,
    or_default,
    selector_cell,
    selector_text,
    text_at,
)
from allhands.api.tables.column import (
    AGE,
    APPS,
    BATCH,
    CONTAINERS,
    CORE,
    IMAGES,
    NAME,
    Column,
    Printers,
    TablePrinter,
    described,
    documented,
)
from allhands.api.tables.duration import human_duration, human_since, time_or_none

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest

_JOB_FINISHED: Final = ("Complete", "Failed")
_JOB_UNFINISHED: Final = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _desired(document: Manifest) -> int:
    return int(or_default(at(document, "spec", "replicas"), 1))


def _template_cells(document: Manifest) -> list[Json]:
    return container_cells(at(document, "spec", "template", "spec"))


def _replica_cells(document: Manifest, now: datetime) -> list[Json]:
    status = mapping_at(document, "status")
    return [
        name_of(document),
        _desired(document),
        integer_at(status, "replicas"),
        integer_at(status, "readyReplicas"),
        age_of(document, now),
        *_template_cells(document),
    ]


def replica_set_row(replica_set: Manifest, now: datetime) -> list[Json]:
    return [*_replica_cells(replica_set, now), selector_cell(at(replica_set, "spec", "selector"))]


def replication_controller_row(controller: Manifest, now: datetime) -> list[Json]:
    # Its selector is a plain map of labels, which is no label selector.
    return [*_replica_cells(controller, now), labels_text(at(controller, "spec", "selector"))]


def deployment_row(deployment: Manifest, now: datetime) -> list[Json]:
    status = mapping_at(deployment, "status")
    selector = selector_text(at(deployment, "spec", "selector"))
    return [
        name_of(deployment),
        f"{integer_at(status, 'readyReplicas')}/{_desired(deployment)}",
        integer_at(status, "updatedReplicas"),
        integer_at(status, "availableReplicas"),
        age_of(deployment, now),
        *_template_cells(deployment),
        "<invalid>" if selector is None else selector,
    ]


def stateful_set_row(stateful_set: Manifest, now: datetime) -> list[Json]:
    ready = integer_at(stateful_set, "status", "readyReplicas")
    return [
        name_of(stateful_set),
        f"{ready}/{_desired(stateful_set)}",
        age_of(stateful_set, now),
        *_template_cells(stateful_set),
    ]


def daemon_set_row(daemon_set: Manifest, now: datetime) -> list[Json]:
    status = mapping_at(daemon_set, "status")
    numbers = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(daemon_set),
        *(integer_at(status, number) for number in numbers),
        labels_text(at(daemon_set, "spec", "template", "spec", "nodeSelector")),
        age_of(daemon_set, now),
        *_template_cells(daemon_set),
        selector_cell(at(daemon_set, "spec", "selector")),
    ]


def controller_revision_row(revision: Manifest, now: datetime) -> list[Json]:
    return [name_of(revision), _controller_of(revision), integer_at(revision, "revision"), age_of(revision, now)]


def _controller_of(document: Manifest) -> str:
    for owner in list_at(document, "metadata", "ownerReferences"):
        if owner.get("controller"):
            group = text_at(owner, "apiVersion").rpartition("/")[0]
            kind = text_at(owner, "kind")
            return f"{kind}.{group}".lower().rstrip(".") + f"/{text_at(owner, 'name')}"
    return NONE


def _job_completions(job: Manifest) -> str:
    succeeded, wanted = integer_at(job, "status", "succeeded"), at(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = integer_at(job, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Manifest, now: datetime) -> str:
    started = time_or_none(at(job, "status", "startTime"))
    if started is None:
        return ""
    return human_duration((time_or_none(at(job, "status", "completionTime")) or now) - started)


def _job_status(job: Manifest) -> str:
    for status in _JOB_FINISHED:
        if condition_is_true(job, status):
            return status
    if is_terminating(job):
        return "Terminating"
    return next((status for status in _JOB_UNFINISHED if condition_is_true(job, status)), "Running")


def job_row(job: Manifest, now: datetime) -> list[Json]:
    return [
        name_of(job),
        _job_status(job),
        _job_completions(job),
        _job_duration(job, now),
        age_of(job, now),
        *_template_cells(job),
        selector_cell(at(job, "spec", "selector")),
    ]


def cron_job_row(cron_job: Manifest, now: datetime) -> list[Json]:
    last, suspended = at(cron_job, "status", "lastScheduleTime"), at(cron_job, "spec", "suspend")
    job = mapping_at(cron_job, "spec", "jobTemplate")
    return [
        name_of(cron_job),
        text_at(cron_job, "spec", "schedule"),
        or_default(at(cron_job, "spec", "timeZone"), NONE),
        UNSET if suspended is None else str(bool(suspended)),
        len(list_at(cron_job, "status", "active")),
        NONE if last is None else human_since(last, now),
        age_of(cron_job, now),
        *_template_cells(job),
        selector_cell(at(job, "spec", "selector")),
    ]


def scale_row(scale: Manifest, now: datetime) -> list[Json]:
    replicas = (integer_at(scale, part, "replicas") for part in ("spec", "status"))
    return [name_of(scale), *replicas, age_of(scale, now)]


def _replica_columns(kind: str) -> tuple[Column, ...]:
    spec, status = f"{kind}Spec", f"{kind}Status"
    return (
        NAME,
        documented("Desired", spec, "replicas", type="integer"),
        documented("Current", status, "replicas", type="integer"),
        documented("Ready", status, "readyReplicas", type="integer"),
        AGE,
        CONTAINERS,
        IMAGES,
        documented("Selector", spec, "selector", priority=1),
    )


_DAEMON_STATUS: Final = APPS + "DaemonSetStatus"
_CRON_SPEC: Final = BATCH + "CronJobSpec"
_CRON_STATUS: Final = BATCH + "CronJobStatus"
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"

PRINTERS: Final[Printers] = {
    ("", "ReplicationController"): TablePrinter(
        _replica_columns(CORE + "ReplicationController"), replication_controller_row
    ),
    ("apps", "ReplicaSet"): TablePrinter(_replica_columns(APPS + "ReplicaSet"), replica_set_row),
    ("apps", "Deployment"): TablePrinter(
        (
            NAME,
            described("Ready", "Number of the pod with ready state"),
            documented("Up-to-date", APPS + "DeploymentStatus", "updatedReplicas"),
            documented("Available", APPS + "DeploymentStatus", "availableReplicas"),
            AGE,
            CONTAINERS,
            IMAGES,
            documented("Selector", APPS + "DeploymentSpec", "selector", priority=1),
        ),
        deployment_row,
    ),
    ("apps", "StatefulSet"): TablePrinter(
        (NAME, described("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES), stateful_set_row
    ),
    ("apps", "DaemonSet"): TablePrinter(
        (
            NAME,
            documented("Desired", _DAEMON_STATUS, "desiredNumberScheduled", type="integer"),
            documented("Current", _DAEMON_STATUS, "currentNumberScheduled", type="integer"),
            documented("Ready", _DAEMON_STATUS, "numberReady", type="integer"),
            documented("Up-to-date", _DAEMON_STATUS, "updatedNumberScheduled", type="integer"),
            documented("Available", _DAEMON_STATUS, "numberAvailable", type="integer"),
            documented("Node Selector", CORE + "PodSpec", "nodeSelector"),
            AGE,
            CONTAINERS,
            IMAGES,
            documented("Selector", APPS + "DaemonSetSpec", "selector", priority=1),
        ),
        daemon_set_row,
    ),
    ("apps", "ControllerRevision"): TablePrinter(
        (
            NAME,
            described("Controller", "Controller of the object"),
            documented("Revision", APPS + "ControllerRevision", "revision"),
            AGE,
        ),
        controller_revision_row,
    ),
    ("batch", "Job"): TablePrinter(
        (
            NAME,
            described("Status", "Status of the job."),
            documented("Completions", BATCH + "JobStatus", "succeeded"),
            described("Duration", "Time required to complete the job."),
            AGE,
            CONTAINERS,
            IMAGES,
            documented("Selector", BATCH + "JobSpec", "selector", priority=1),
        ),
        job_row,
    ),
    ("batch", "CronJob"): TablePrinter(
        (
            NAME,
            documented("Schedule", _CRON_SPEC, "schedule"),
            documented("Timezone", _CRON_SPEC, "timeZone"),
            documented("Suspend", _CRON_SPEC, "suspend", type="boolean"),
            documented("Active", _CRON_STATUS, "active", type="integer"),
            documented("Last Schedule", _CRON_STATUS, "lastScheduleTime"),
            AGE,
            CONTAINERS,
            IMAGES,
            documented("Selector", BATCH + "JobSpec", "selector", priority=1),
        ),
        cron_job_row,
    ),
    ("autoscaling", "Scale"): TablePrinter(
        (
            Column("Name", description=NAME.description),
            documented("Desired", _SCALE + "Spec", "replicas", type="integer"),
            documented("Available", _SCALE + "Status", "replicas", type="integer"),
            AGE,
        ),
        scale_row,
    ),
}
