"""The scheduler's copy of all pods. There may be a hundred thousand, so each is looked at once: what it says and whose
it is come from one reading. Nothing is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.dialects.pods import PodRecord, read_pod, read_versioned_pod
from allhands.ports import Head
from allhands.runtime.informer import Informer, key_of
from allhands.runtime.scheduling import resources

if TYPE_CHECKING:
    from allhands.ports import Objects


def watched_pods(objects: Objects) -> Informer[PodRecord]:
    """Found by their "job" and their "group", which may be one that they are about to join."""
    return Informer(
        objects,
        resources.PODS,
        read_pod,
        decode_headed=_read_headed,
        in_pages=True,
        indexes={
            "job": lambda it: (key_of(it.pod.namespace, it.job_name),) if it.job_name else (),
            "group": lambda it: (
                (key_of(it.pod.namespace, it.group_name or it.group_to_be),) if it.group_name or it.group_to_be else ()
            ),
        },
    )


def _read_headed(raw: bytes) -> tuple[PodRecord, Head]:
    record, version = read_versioned_pod(raw)
    pod = record.pod
    return record, Head(pod.key, pod.uid, int(version or 0))
