"""The PodGroup of a Job: what it says at first, and what has to be said when the Job is scaled or says more.

It must never ask for more together than can exist together: tasks that wait for others are sub-groups of their own
(`stages`). Fields that others may set are left alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.annotation_names import EXPECTED_DURATION, GROUP_SIZE
from allhands.api.volcano.budget_rules import BUDGETS
from allhands.lifecycle.changes import merge_patch, owner_reference
from allhands.lifecycle.instructions import Create, Patch
from allhands.lifecycle.volcano_job.durations import duration_seconds
from allhands.lifecycle.volcano_job.group_resources import least_resources
from allhands.lifecycle.volcano_job.names import (
    API_VERSION,
    CLOCKS,
    JOB_GENERATION,
    JOB_VERSION,
    KIND,
    PARTITION,
    POD_GROUPS,
    TASK,
    group_name,
)

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.network_topology import NetworkTopology
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.pod_group import PodGroup
    from allhands.lifecycle.volcano_job.tasks import Task, Tasks

DEFAULT_QUEUE: Final = "default"
NOT_COPIED: Final = ("kubectl.kubernetes.io/last-applied-configuration", "allhands.dev/scheduling", CLOCKS)
"""Annotations of a Job that would say something wrong on its PodGroup."""


def new_group(job: JobDocument, tasks: Tasks, version: int) -> Create:
    meta = job.metadata
    metadata: Manifest = {
        "name": group_name(meta.name, meta.uid),
        "namespace": meta.namespace,
        "annotations": _annotations(job, tasks, version),
        "ownerReferences": [owner_reference(API_VERSION, KIND, meta)],
    }
    if meta.labels:
        metadata["labels"] = meta.labels
    manifest = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": _spec(job, tasks),
    }
    return Create(POD_GROUPS, meta.namespace, manifest, unless_there=True)


def group_update(job: JobDocument, tasks: Tasks, group: PodGroup, version: int) -> Patch | None:
    """What it has to be told, None if it says all. Annotations and labels that the Job got or changed are handed on, so
    that what users add to it counts; one that the Job lost stays, since it may be somebody else's."""
    wanted = _spec(job, tasks)
    # A server that knows fields we do not know may have filled them in.
    spec = merge_patch({name: group.spec.get(name) for name in _FIELDS}, {name: wanted.get(name) for name in _FIELDS})
    metadata = group.metadata
    notes = _different(_annotations(job, tasks, version), metadata.annotations)
    labels = _different(job.metadata.labels, metadata.labels)
    if not spec and not notes and not labels:
        return None
    patch: Manifest = {"metadata": {"uid": metadata.uid}}
    if notes:
        patch["metadata"]["annotations"] = notes
    if labels:
        patch["metadata"]["labels"] = labels
    if spec:
        patch["spec"] = spec
    return Patch(POD_GROUPS, metadata.namespace, metadata.name, patch)


def _different(wanted: dict[str, str] | None, present: dict[str, str] | None) -> dict[str, str]:
    present = present or {}
    return {name: text for name, text in (wanted or {}).items() if present.get(name) != text}


_FIELDS: Final = ("minMember", "minTaskMember", "minResources", "priorityClassName", "subGroupPolicy")


def _annotations(job: JobDocument, tasks: Tasks, version: int) -> dict[str, str]:
    annotations = {name: text for name, text in (job.metadata.annotations or {}).items() if name not in NOT_COPIED}
    estimate = duration_seconds(job.spec.running_estimate)
    if estimate:
        annotations.setdefault(EXPECTED_DURATION, f"{math.ceil(estimate)}s")
    return annotations | _notes(job, tasks, version)


def _notes(job: JobDocument, tasks: Tasks, version: int) -> dict[str, str]:
    notes = {JOB_VERSION: str(version), JOB_GENERATION: str(job.metadata.generation)}
    if any(job.metadata.annotation(it) for it in BUDGETS):
        # Who waits for others is not missed before it comes.
        notes[GROUP_SIZE] = str(sum(it.replicas for it in tasks.first))
    return notes


def _spec(job: JobDocument, tasks: Tasks) -> Manifest:
    spec: Manifest = {
        "minMember": tasks.first_minimum,
        "minTaskMember": {it.name: it.minimum for it in tasks.first if it.minimum},
        "queue": job.spec.queue or DEFAULT_QUEUE,
    }
    if resources := least_resources(tasks):
        spec["minResources"] = resources
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    if job.spec.network_topology is not None:
        spec["networkTopology"] = _topology(job.spec.network_topology)
    if policies := _sub_groups(tasks):
        spec["subGroupPolicy"] = policies
    return spec


def _sub_groups(tasks: Tasks) -> list[Manifest]:
    """Partitions, and tasks that wait for others: what such a task needs beside the minimum of the first ones starts
    together or not at all, and is not needed for the first ones to be whole."""
    policies: list[Manifest] = []
    left = tasks.minimum - tasks.first_minimum
    for task in tasks.all:
        size = task.minimum
        if task.after:
            size = max(1, min(task.minimum, left))
            left = max(0, left - size)
        if task.spec.partition_policy is not None and task.partition_size:
            policies.append(_partitions(task))
        elif task.after and task.replicas and task.minimum:
            policies.append(
                {
                    "name": task.name,
                    "labelSelector": {"matchLabels": {TASK: task.name}},
                    "subGroupSize": size,
                    "minSubGroups": 0,
                }
            )
    return policies


def _partitions(task: Task) -> Manifest:
    policy = task.spec.partition_policy
    assert policy is not None
    partitions: Manifest = {
        "name": task.name,
        "labelSelector": {"matchLabels": {TASK: task.name}},
        "matchLabelKeys": [PARTITION],
        "subGroupSize": policy.partition_size,
        "minSubGroups": 0 if task.after else policy.min_partitions,
    }
    if policy.network_topology is not None:
        partitions["networkTopology"] = _topology(policy.network_topology)
    return partitions


def _topology(topology: NetworkTopology) -> Any:
    return {"mode": topology.mode.value, **msgspec.to_builtins(topology)}
