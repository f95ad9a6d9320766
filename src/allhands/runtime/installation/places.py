"""Where the objects of an installation are found: kind by kind, in which collection, in namespaces or not.

The visible list of all kinds that an installation makes; what is not in it is neither brought nor taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.definitions import DEFINITIONS, MANAGED_BY, OURS, PART_OF
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.runtime.installation.webhooks import MUTATING, VALIDATING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.api.document import Manifest
    from allhands.ports import Document, Objects

HELM: Final = "Helm"
SHARED: Final = frozenset({"CustomResourceDefinition", "Namespace"})
"""Kinds of which an object of somebody else serves as well as ours, and of which Helm leaves some behind."""
NOT_FOUND: Final = 404
_RIGHTS: Final = "rbac.authorization.k8s.io"
COLLECTIONS: Final[dict[str, tuple[Resource, bool]]] = {
    "CustomResourceDefinition": (DEFINITIONS, False),
    "Namespace": (Resource("", "v1", "namespaces"), False),
    "ClusterRole": (Resource(_RIGHTS, "v1", "clusterroles"), False),
    "ClusterRoleBinding": (Resource(_RIGHTS, "v1", "clusterrolebindings"), False),
    "Role": (Resource(_RIGHTS, "v1", "roles"), True),
    "RoleBinding": (Resource(_RIGHTS, "v1", "rolebindings"), True),
    "ServiceAccount": (Resource("", "v1", "serviceaccounts"), True),
    "ResourceQuota": (Resource("", "v1", "resourcequotas"), True),
    "ConfigMap": (Resource("", "v1", "configmaps"), True),
    "Secret": (Resource("", "v1", "secrets"), True),
    "Service": (Resource("", "v1", "services"), True),
    "NetworkPolicy": (Resource("networking.k8s.io", "v1", "networkpolicies"), True),
    "PodDisruptionBudget": (Resource("policy", "v1", "poddisruptionbudgets"), True),
    "Deployment": (Resource("apps", "v1", "deployments"), True),
    # Last to come and first to go: while they are there, somebody must answer.
    "MutatingWebhookConfiguration": (MUTATING, False),
    "ValidatingWebhookConfiguration": (VALIDATING, False),
}
"""Each kind, its collection, and whether it lives in namespaces; in the order in which they can be brought."""
OURS_BY_LABEL: Final = f"{PART_OF}={OURS}"


class InstallationError(RuntimeError):
    """Why nothing, or nothing more, was done."""


class Place(msgspec.Struct, frozen=True):
    """One object's address."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def resource(self) -> Resource:
        return COLLECTIONS[self.kind][0]

    def __str__(self) -> str:
        """As kubectl prints it."""
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.kind.lower()}{group}/{self.name}"


def place_of(manifest: Manifest) -> Place:
    metadata = manifest["metadata"]
    return Place(manifest["kind"], metadata["name"], metadata.get("namespace", ""))


def manager_of(manifest: Manifest) -> str:
    """Who says that it is his."""
    return str((manifest["metadata"].get("labels") or {}).get(MANAGED_BY) or "")


def is_ours(manifest: Manifest) -> bool:
    """Also what a release of our chart has left behind: Helm keeps kinds. A release that lives is another matter, and
    is looked for by its other objects."""
    labels = manifest["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == OURS or (labels.get(MANAGED_BY) == HELM and labels.get(PART_OF) == OURS)


def helm_release_of(manifest: Manifest) -> str:
    """The release that it belongs to, and where that is kept."""
    annotations = manifest["metadata"].get("annotations") or {}
    name = annotations.get("meta.helm.sh/release-name", "?")
    return f"{name} -n {annotations.get('meta.helm.sh/release-namespace', '?')}"


def check_no_release(found: Iterable[Manifest]) -> None:
    """Raises if Helm brought it: then Helm has to change it, and to take it away."""
    for it in found:
        if manager_of(it) == HELM:
            release = helm_release_of(it)
            raise InstallationError(
                f"it was installed by Helm; use `helm upgrade {release}` or `helm uninstall {release}`"
            )


async def find(objects: Objects, place: Place) -> Document | None:
    """As it is now; None if it is not there."""
    try:
        return await objects.get(place.resource, place.name, place.namespace)
    except StatusError as refusal:
        if refusal.code != NOT_FOUND:
            raise
        return None
