"""What happens to objects of Volcano's kinds before they are stored: the visible list, one row for each kind.

The embedded server and the webhook use these very functions. Pure: documents in, field errors out; a function that
completes a document does so in place, and is safe to run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano import (
    cron_job_rules,
    hyper_node_rules,
    job_defaults,
    job_flow_rules,
    job_rules,
    podgroup_rules,
    queue_admission,
)
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.definitions import Definition
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.volcano.surroundings import Surroundings


def _leave(_document: Manifest, _around: Surroundings) -> None:
    return None


def _may_go(_document: Manifest, _around: Surroundings) -> str:
    return ""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The admission of one kind."""

    complete: Callable[[Manifest, Surroundings], None] = _leave
    """Fills in a new object, before its schema is held against it."""
    completes_updates: bool = False
    """Whether the same is done to an object that is written again, so that a whole manifest may be applied twice."""
    create_errors: Callable[[Manifest, Surroundings], list[FieldError]]
    update_errors: Callable[[Manifest, Manifest, Surroundings], list[FieldError]]
    """(new, old, surroundings). Never about an object whose spec stays as it was."""
    deletion_error: Callable[[Manifest, Surroundings], str] = _may_go
    """Why it must not be deleted, or ""."""


class _PartitionForm(msgspec.Struct, rename="camel"):
    min_partitions: int | None = None
    partition_size: int | None = None


class _PodForm(msgspec.Struct, rename="camel"):
    host_network: bool | None = None
    dns_policy: str | None = None


class _TemplateForm(msgspec.Struct):
    spec: _PodForm | None = None


class _TaskForm(msgspec.Struct, rename="camel"):
    name: str | None = None
    replicas: int | None = None
    min_available: int | None = None
    max_retry: int | None = None
    template: _TemplateForm | None = None
    partition_policy: _PartitionForm | None = None


class _JobForm(msgspec.Struct, rename="camel"):
    """What must hold for a spec to be completed. An empty name is no mistake yet, and a negative number not ours."""

    queue: str | None = None
    scheduler_name: str | None = None
    min_available: int | None = None
    max_retry: int | None = None
    tasks: list[_TaskForm] | None = None
    plugins: dict[str, list[str] | None] | None = None


class _GroupForm(msgspec.Struct):
    queue: str | None = None


def _complete_job(job: Manifest, around: Surroundings) -> None:
    if _has_form(job, _JobForm):
        job_defaults.complete_job(job, around.scheduler_name)


def _complete_group(group: Manifest, around: Surroundings) -> None:
    if _has_form(group, _GroupForm):
        podgroup_rules.complete_group(group, around)


def _has_form(document: Manifest, form: type[msgspec.Struct]) -> bool:
    """Whether its spec can be completed. If not, its schema says why; that is held against it only afterwards."""
    try:
        msgspec.convert(document.get("spec", {}), form)
    except msgspec.ValidationError:
        return False
    return True


_ROWS: Final[tuple[tuple[Definition, Admission], ...]] = (
    (
        JOB,
        Admission(
            complete=_complete_job,
            completes_updates=True,
            create_errors=job_rules.create_errors,
            update_errors=job_rules.update_errors,
        ),
    ),
    (
        CRON_JOB,
        Admission(
            create_errors=lambda new, around: cron_job_rules.cron_job_errors(new, None, around),
            update_errors=cron_job_rules.cron_job_errors,
        ),
    ),
    (
        JOB_FLOW,
        Admission(
            create_errors=lambda new, _around: job_flow_rules.job_flow_errors(new),
            update_errors=lambda new, old, _around: job_flow_rules.job_flow_errors(new, old),
        ),
    ),
    (
        HYPER_NODE,
        Admission(
            create_errors=lambda new, _around: hyper_node_rules.hyper_node_errors(new),
            update_errors=lambda new, old, _around: hyper_node_rules.hyper_node_errors(new, old),
        ),
    ),
    (
        POD_GROUP,
        Admission(
            complete=_complete_group,
            create_errors=podgroup_rules.create_errors,
            update_errors=podgroup_rules.update_errors,
        ),
    ),
    (
        QUEUE,
        Admission(
            complete=queue_admission.complete_queue,
            create_errors=lambda new, around: queue_admission.queue_errors(new, None, around),
            update_errors=queue_admission.queue_errors,
            deletion_error=queue_admission.deletion_error,
        ),
    ),
)
ADMISSIONS: Final = {(definition.group, definition.kind): admission for definition, admission in _ROWS}
"""By group and kind."""
