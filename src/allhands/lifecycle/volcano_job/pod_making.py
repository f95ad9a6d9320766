"""New pods of a Volcano Job, from the templates of its tasks: named by task and index, with all labels and annotations
that Volcano's users and tools know them by, the Job's volumes, and what its plugins add.

Without plugins, manifests of one task share what is equal in them; nobody may change them afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.volcano.budget_rules import BUDGETS
from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.instructions import Create
from allhands.lifecycle.volcano_job.names import (
    API_VERSION,
    COOLDOWN,
    GROUP_NAME,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRIES,
    JOB_VERSION,
    KIND,
    NUMA_POLICY,
    PARTITION,
    PODS,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE_ZONE,
    TASK,
    TASK_INDEX,
    TEMPLATE,
    group_name,
    pod_name,
)
from allhands.lifecycle.volcano_job.volumes import with_volumes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allhands.api.document import Manifest
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import JobPlugin
    from allhands.lifecycle.volcano_job.tasks import Task

DEFAULT_QUEUE: Final = "default"
_PASSED_ON_ANNOTATIONS: Final = (PREEMPTABLE, COOLDOWN, REVOCABLE_ZONE)
_PASSED_ON_LABELS: Final = (PREEMPTABLE, COOLDOWN)
_manifests: Final = msgspec.json.Decoder(dict[str, Any])


class PodMaker:
    """Makes pods of one Job at one version. `scheduler`: who places them if neither Job nor template says so."""

    def __init__(
        self, job: JobDocument, version: int, retries: int, plugins: tuple[JobPlugin, ...], scheduler: str = ""
    ) -> None:
        self._job = job
        self._version = version
        self._retries = retries
        self._plugins = plugins
        self._scheduler = scheduler

    def pods(self, task: Task, indexes: Iterable[int]) -> Iterator[Create]:
        base = self._base(task)
        raw = msgspec.json.encode(base) if self._plugins else b""
        namespace = self._job.metadata.namespace
        for index in indexes:
            manifest = _manifests.decode(raw) if raw else base
            name = pod_name(self._job.metadata.name, task.name, index)
            manifest = {**manifest, "metadata": self._metadata(manifest["metadata"], task, index, name)}
            for plugin in self._plugins:
                plugin.equip(self._job, task.spec, index, manifest)
            yield Create(PODS, namespace, manifest, unless_there=True)

    def _metadata(self, common: Manifest, task: Task, index: int, name: str) -> Manifest:
        text = str(index)
        labels = {**common["labels"], TASK_INDEX: text}
        if task.spec.partition_policy is not None:
            labels[PARTITION] = str(task.partition_of(index))
        return {**common, "name": name, "labels": labels, "annotations": {**common["annotations"], TASK_INDEX: text}}

    def _base(self, task: Task) -> Manifest:
        """All that the pods of a task have in common."""
        job, meta = self._job, self._job.metadata
        template = task.spec.template or {}
        given = template.get("metadata") or {}
        spec = dict(template.get("spec") or {})
        scheduler = spec.get("schedulerName") or job.spec.scheduler_name or self._scheduler
        if scheduler:
            spec["schedulerName"] = scheduler
        if job.spec.priority_class_name and not spec.get("priorityClassName"):
            spec["priorityClassName"] = job.spec.priority_class_name
        queue = job.spec.queue or DEFAULT_QUEUE
        annotations = {
            **(given.get("annotations") or {}),
            TASK: task.name,
            GROUP_NAME: group_name(meta.name, meta.uid),
            JOB_NAME: meta.name,
            QUEUE_NAME: queue,
            JOB_VERSION: str(self._version),
            TEMPLATE: f"{meta.name}-{task.name}",
            JOB_RETRIES: str(self._retries),
            **_passed_on(meta.annotations, _PASSED_ON_ANNOTATIONS),
            **_budget(meta.annotations),
        }
        if task.spec.topology_policy is not None:
            annotations[NUMA_POLICY] = task.spec.topology_policy.value
        labels = {
            **(given.get("labels") or {}),
            JOB_NAME: meta.name,
            TASK: task.name,
            JOB_NAMESPACE: meta.namespace,
            QUEUE_NAME: queue,
            **_passed_on(meta.labels, _PASSED_ON_LABELS),
        }
        metadata: Manifest = {
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(API_VERSION, KIND, meta)],
        }
        if given.get("finalizers"):
            metadata["finalizers"] = given["finalizers"]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": with_volumes(job, spec)}


def _passed_on(texts: dict[str, str] | None, names: tuple[str, ...]) -> dict[str, str]:
    return {name: texts[name] for name in names if name in texts} if texts else {}


def _budget(annotations: dict[str, str] | None) -> dict[str, str]:
    for name in BUDGETS:
        if annotations and name in annotations:
            return {name: annotations[name]}
    return {}
