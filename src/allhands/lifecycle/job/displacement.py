"""Pods that the cluster took away from a batch job: by preemption, a drain, or with their node. It is not their fault.

Kubernetes counts such a pod as failed unless the Job's pod failure policy ignores it; so a gang larger than its
`backoffLimit` would fail by one preemption. Jobs that use this batch system are spared that; all others are as in
Kubernetes. docs/annotations.md tells it to people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.pod import JobPod

QUEUE: Final = "allhands.dev/queue"
MIN_AVAILABLE: Final = "allhands.dev/min-available"


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    pod_group_name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_group: _Group | None = None


class _Template(msgspec.Struct, frozen=True):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


_templates: Final = msgspec.json.Decoder(_Template)


def is_displaced(job: JobDocument, pod: JobPod) -> bool:
    """Whether this end neither uses up a retry nor delays the next attempt."""
    return pod.was_taken_away and is_batch(job)


def is_batch(job: JobDocument) -> bool:
    """Whether it says that it is a gang, or in a queue, by an annotation of ours or by the PodGroup of its pods."""
    annotations = job.metadata.annotations or {}
    if MIN_AVAILABLE in annotations or QUEUE in annotations:
        return True
    template = _templates.decode(job.spec.template)
    if template.spec is not None and template.spec.scheduling_group is not None:
        return True
    return template.metadata is not None and QUEUE in (template.metadata.annotations or {})
