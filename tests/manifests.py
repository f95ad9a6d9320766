"""Small manifests that tests build on, and the resources they belong to."""

from __future__ import annotations

from typing import Any

from allhands.api.kinds import Resource

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
NAMESPACES = Resource("", "v1", "namespaces")
CONFIG_MAPS = Resource("", "v1", "configmaps")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
JOBS = Resource("batch", "v1", "jobs")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")

Manifest = dict[str, Any]


def metadata(name: str, **more: Any) -> Manifest:
    return {"name": name, **more}


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, **({"labels": labels} if labels else {})),
        "spec": {"containers": [container], **spec},
    }


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, **({"labels": labels} if labels else {})),
        **({"data": data} if data else {}),
    }


def owned_by(manifest: Manifest, owner: Manifest, *, blocks: bool = False) -> Manifest:
    """The manifest with `owner`, a stored object, as its owner."""
    reference: Manifest = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    if blocks:
        reference["blockOwnerDeletion"] = True
    owners = [*manifest["metadata"].get("ownerReferences", []), reference]
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": owners}}
