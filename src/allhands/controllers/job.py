"""The shell of batch/v1 Jobs: a pod's change is its Job's business, and an orphan's that of the Jobs that select it.

Changes of pods are gathered for a moment, longer for bigger Jobs, so that the work on a Job grows with its pods and not
with their square. Where nothing follows from a success but that it is counted, all Jobs are counted together, once a
second. What is remembered here (failures of pods that are gone) may be lost; it only makes pauses right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.builtin.job import UID_LABEL
from allhands.controllers.gathering import count_seconds, gather_seconds
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.job import (
    JOBS,
    NO_FAILURES,
    PODS,
    Failures,
    JobDocument,
    JobPod,
    decode_job,
    decode_pod,
    failures_since_success,
    reconcile,
    untrack,
)
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

POD: Final = "pod:"
"""Begins the key of a pod without a Job that still has the finalizer."""
_API_VERSION: Final = JOBS.api_version
_UNSPOKEN: Final = frozenset(("Conflict", "AlreadyExists"))
"""Refusals that are nobody's fault and say nothing to a user."""


class JobController:
    name: Final = "job"

    def __init__(self, objects: Objects) -> None:
        self._jobs: Informer[JobDocument] = Informer(objects, JOBS, decode_job, indexes={"selecting": _selecting})
        self._pods: Informer[JobPod] = Informer(objects, PODS, decode_pod, indexes={"job": _job, "orphan": _orphan})
        self._failures: dict[str, tuple[str, Failures]] = {}
        """By key of the Job: its uid, and the pods that failed since the last success."""
        self._refusals: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        """How many pods a Job had when it was last looked at."""
        self._active: dict[str, int] = {}
        """How many of them were active, less those that have ended since."""
        self._writing: dict[str, str] = {}
        """By key of the Job that is being looked at: the version for which its new status was made."""

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._jobs, self._pods)

    def wire(self, queue: WorkQueue) -> None:
        self._jobs.on_change(lambda key, old, new: self._see_job(queue, key, old, new))
        self._pods.on_change(lambda key, old, new: self._see_pod(queue, key, old, new))

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._writing.pop(key, None)
        if refusal is None:
            self._refusals.pop(key, None)
        elif refusal.reason not in _UNSPOKEN:
            self._refusals[key] = refusal.message

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        if key.startswith(POD):
            return self._reconcile_orphan(key.removeprefix(POD))
        job = self._jobs.get(key)
        named = self._pods.by("job", key)
        if job is None:
            # The garbage collector has told them to go; nobody counts them any more.
            return Outcome(tuple(untrack(it for it in named if it.is_going)))
        uid, namespace = job.metadata.uid, job.metadata.namespace
        mine = [it for it in named if it.controller is not None and it.controller.uid == uid]
        self._sizes[key] = len(mine)
        self._active[key] = sum([it.is_active for it in mine])
        self._writing[key] = job.metadata.resource_version
        outcome = reconcile(
            job,
            [*mine, *(orphan for value in _selecting(job) for orphan in self._pods.by("orphan", value))],
            now_seconds,
            failures=self._remembered_failures(key, job, mine),
            is_taken=lambda name: f"{namespace}/{name}" in self._pods,
            refused=self._refusals.get(key, ""),
        )
        if len(mine) == len(named) or not job.is_ours:
            return outcome
        strangers = untrack(
            it for it in named if it.is_going and it.controller is not None and it.controller.uid != uid
        )
        return msgspec.structs.replace(outcome, instructions=(*strangers, *outcome.instructions))

    def _reconcile_orphan(self, key: str) -> Outcome:
        pod = self._pods.get(key)
        return NOTHING_TO_DO if pod is None or pod.controller is not None else Outcome(tuple(untrack((pod,))))

    def _remembered_failures(self, key: str, job: JobDocument, mine: list[JobPod]) -> Failures:
        uid, before = self._failures.get(key, ("", NO_FAILURES))
        failures = failures_since_success(job, mine, before if uid == job.metadata.uid else NO_FAILURES)
        if failures.ended_at_seconds:
            self._failures[key] = (job.metadata.uid, failures)
        else:
            self._failures.pop(key, None)
        return failures

    # -- what concerns whom

    def _see_job(self, queue: WorkQueue, key: str, old: JobDocument | None, new: JobDocument | None) -> None:
        if new is None:
            for memory in (self._failures, self._refusals, self._sizes, self._active, self._writing):
                memory.pop(key, None)
        elif old is not None and self._writing.get(key) == old.metadata.resource_version:
            # What we write ourselves is no news: the machine says when to look again. Should it be another's word,
            # then ours, which is meant for the version before, is refused, and we look again because of that.
            return
        queue.add(key)

    def _see_pod(self, queue: WorkQueue, key: str, old: JobPod | None, new: JobPod | None) -> None:
        if old is not None and new is not None:
            if _is_no_news(old, new):
                return
            if old.is_active and new.phase == "Succeeded" and old.owners == new.owners and old.labels == new.labels:
                for job_key in _job(new):
                    queue.add_after(job_key, self._count_seconds(job_key))
                return
        for pod in (old, new):
            if pod is None:
                continue
            for job_key in _job(pod):
                queue.add_after(job_key, gather_seconds(self._sizes.get(job_key, 0)))
        if new is None or new.controller is not None:
            return
        if new.is_tracked:
            queue.add(POD + key)
        for value in _orphan(new):
            for job_key in self._jobs.keys_by("selecting", value):
                queue.add(job_key)

    def _count_seconds(self, job_key: str) -> float:
        """In how many seconds to look at a Job of which a pod has succeeded."""
        pods = self._sizes.get(job_key, 0)
        left = self._active[job_key] = self._active.get(job_key, 0) - 1
        job = self._jobs.get(job_key)
        if left <= 0 or job is None or not _only_counts(job):
            return gather_seconds(pods)
        return count_seconds(pods)


def _only_counts(job: JobDocument) -> bool:
    """Whether nothing is to be done about a success while other pods are active: no pod comes after it."""
    spec = job.spec
    if spec.completions is None or spec.success_policy is not None or job.is_suspended:
        return False
    return (1 if spec.parallelism is None else spec.parallelism) >= spec.completions


def _job(pod: JobPod) -> tuple[str, ...]:
    """Key of the Job that manages it."""
    controller = pod.controller
    if controller is not None and controller.kind == "Job" and controller.api_version == _API_VERSION:
        return (f"{pod.namespace}/{controller.name}",)
    return ()


def _orphan(pod: JobPod) -> tuple[str, ...]:
    """Where Jobs look for a pod that nobody manages: under its namespace and the Job's uid, or just its namespace."""
    if pod.controller is not None:
        return ()
    if UID_LABEL in pod.labels:
        return (pod.namespace, f"{pod.namespace}/{pod.labels[UID_LABEL]}")
    return (pod.namespace,)


def _selecting(job: JobDocument) -> Iterator[str]:
    """Where it looks for orphans. Nearly every Job selects by its uid, and need not look at all pods."""
    selector = job.spec.selector
    wanted = None if selector is None else (selector.match_labels or {}).get(UID_LABEL)
    yield job.metadata.namespace if wanted is None else f"{job.metadata.namespace}/{wanted}"


def _is_no_news(old: JobPod, new: JobPod) -> bool:
    """Whether nothing changed that a Job decides by; most reports of a kubelet are such."""
    return (
        old.uid == new.uid
        and old.phase == new.phase
        and old.is_going == new.is_going
        and old.is_ready == new.is_ready
        and old.finalizers == new.finalizers
        and old.restarts == new.restarts
        and old.labels == new.labels
        and old.owners == new.owners
        and old.conditions == new.conditions
        and old.exits == new.exits
    )
