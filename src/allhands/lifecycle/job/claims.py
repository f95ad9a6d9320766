"""Which pods belong to a Job: those it controls and selects. It adopts orphans that it selects, and lets go of others.

What is to change is written to the pods first; deciding goes on with what is then observed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.lifecycle.instructions import Patch
from allhands.lifecycle.job.documents import API_VERSION, KIND, PODS
from allhands.lifecycle.job.pod import FINALIZER, Owner
from allhands.model.selector import EVERYTHING as NOTHING_IN_PARTICULAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.pod import JobPod


def claim(job: JobDocument, pods: Sequence[JobPod]) -> tuple[list[JobPod], list[Patch]]:
    """The pods that are the Job's, and what makes it so of those that are not yet, or not any more."""
    selects = _selecting(job)
    uid, going = job.metadata.uid, job.metadata.is_going
    mine: list[JobPod] = []
    changes: list[Patch] = []
    for pod in pods:
        controller = pod.controller
        if controller is not None and controller.uid != uid:
            continue
        if pod.namespace != job.metadata.namespace:
            continue
        if selects(pod.labels):
            if controller is not None:
                mine.append(pod)
            elif not going and not pod.is_going:
                changes.append(_adoption(job, pod))
        elif controller is not None and not going:
            changes.append(_release(job, pod))
    return mine, changes


def untrack(pods: Iterable[JobPod]) -> list[Patch]:
    """Takes our finalizer off pods that nobody will count any more, so that they can go."""
    return [finalizer_removal(pod) for pod in pods if pod.is_tracked]


def finalizer_removal(pod: JobPod) -> Patch:
    """Guarded by the version: the list is written whole, and may not lose what somebody else has put in."""
    return _patch(pod, {"finalizers": _other_finalizers(pod)})


def _selecting(job: JobDocument) -> Callable[[dict[str, str]], bool]:
    """Whether it selects labels. One that selects nothing in particular must not take over everybody's pods."""
    document = job.spec.selector
    selector = NOTHING_IN_PARTICULAR if document is None else document.selector()
    if selector.is_empty or not selector.is_valid:
        return lambda _labels: False
    if selector.match_expressions or len(selector.match_labels) != 1:
        return selector.matches
    ((key, value),) = selector.match_labels
    return lambda labels: labels.get(key) == value


def _adoption(job: JobDocument, pod: JobPod) -> Patch:
    meta = job.metadata
    owner = Owner(API_VERSION, KIND, meta.name, meta.uid, controller=True, block_owner_deletion=True)
    others = [it for it in pod.owners if it.uid != meta.uid]
    finalizers = pod.finalizers if pod.is_tracked else (*pod.finalizers, FINALIZER)
    return _patch(pod, {"ownerReferences": _texts([*others, owner]), "finalizers": list(finalizers)})


def _release(job: JobDocument, pod: JobPod) -> Patch:
    others = [it for it in pod.owners if it.uid != job.metadata.uid]
    return _patch(pod, {"ownerReferences": _texts(others) or None, "finalizers": _other_finalizers(pod)})


def _texts(owners: list[Owner]) -> list[object]:
    return [msgspec.to_builtins(it) for it in owners]


def _other_finalizers(pod: JobPod) -> list[str] | None:
    return [it for it in pod.finalizers if it != FINALIZER] or None


def _patch(pod: JobPod, metadata: dict[str, object]) -> Patch:
    return Patch(PODS, pod.namespace, pod.name, {"metadata": metadata}, version=pod.version)
