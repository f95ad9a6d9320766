"""The volumes of a Job: claims that are made for it, once, and the mounts in every container.

A claim without a name gets one that follows from the Job, so that it is the same whenever it is asked for. A claim that
is only named is somebody else's: if it is not there, pods wait for it and say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.instructions import Create
from allhands.lifecycle.volcano_job.names import API_VERSION, CLAIMS, KIND, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest
    from allhands.api.volcano.job import VolumeSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument

LONGEST_BEGINNING: Final = 50
"""Of the name of a volume: a label has 63 letters."""


def claim_name(job: JobDocument, number: int, volume: VolumeSpec) -> str:
    return volume.volume_claim_name or f"{job.metadata.name}-pvc-{made_up(job.metadata.uid, f'claim {number}')}"


def claims(job: JobDocument) -> Iterator[tuple[str, Create | None]]:
    """The name of each claim, and what makes it if it is made for the Job."""
    meta = job.metadata
    for number, volume in enumerate(job.spec.volumes or ()):
        name = claim_name(job, number, volume)
        if volume.volume_claim is None:
            yield name, None
            continue
        metadata = {
            "name": name,
            "namespace": meta.namespace,
            "ownerReferences": [owner_reference(API_VERSION, KIND, meta)],
        }
        manifest = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": volume.volume_claim,
        }
        yield name, Create(CLAIMS, meta.namespace, manifest, unless_there=True)


def _volume_name(job: JobDocument, number: int) -> str:
    """Like the Job, as far as a volume may be called so."""
    name = job.metadata.name.replace(".", "-")[:LONGEST_BEGINNING].rstrip("-")
    return f"{name}-{made_up(job.metadata.uid, f'volume {number}')}"


def with_volumes(job: JobDocument, spec: Manifest) -> Manifest:
    """A pod's spec with the Job's volumes, in every container. A claim that is named twice is mounted once."""
    named: dict[str, str] = {}
    mounts = []
    for number, volume in enumerate(job.spec.volumes or ()):
        claim = claim_name(job, number, volume)
        if claim in named:
            continue
        named[claim] = _volume_name(job, number)
        mounts.append({"name": named[claim], "mountPath": volume.mount_path})
    if not mounts:
        return spec
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in named.items()]
    return {
        **spec,
        "volumes": [*(spec.get("volumes") or ()), *volumes],
        "containers": [
            {**it, "volumeMounts": [*(it.get("volumeMounts") or ()), *mounts]} for it in spec.get("containers") or ()
        ],
    }
