"""Objects that plugins put beside the pods: their metadata, and the labels by which pods of a Job are found.

Every one of them belongs to the Job and goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.kinds import Resource
from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.volcano_job.names import API_VERSION, JOB_NAME, JOB_NAMESPACE, KIND

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.lifecycle.volcano_job.documents import JobDocument

SERVICES: Final = Resource("", "v1", "services")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
SECRETS: Final = Resource("", "v1", "secrets")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies")

MOST_BYTES: Final = 1_048_576
"""What a ConfigMap or a Secret may hold."""


def beside(job: JobDocument, api_version: str, kind: str, name: str, **fields: Manifest | str) -> Manifest:
    owner = owner_reference(API_VERSION, KIND, job.metadata)
    metadata = {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def pod_labels(job: JobDocument) -> dict[str, str]:
    """What all pods of the Job have, and no others."""
    return {JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace}
