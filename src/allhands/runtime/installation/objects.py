"""The objects of an installation, in the order in which they are brought: kinds, namespace, rights, then what runs.

Pure: the same options give the same objects. What a server would fill in by itself is left out, so that it stays the
server's; what must not be decided by others, such as who may do what in a container, is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands import __version__
from allhands.api.access.default_roles import roles_for_people
from allhands.api.definitions import MANAGED_BY, OURS, PART_OF
from allhands.runtime.installation import rights
from allhands.runtime.installation.webhooks import NAME, by_service, configurations
from allhands.runtime.installation.workloads import disruption_budget, network_policy, webhook_service, workload
from allhands.runtime.installing import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest
    from allhands.runtime.installation.options import InstallOptions
    from allhands.runtime.installation.rights import Rule

_RIGHTS: Final = "rbac.authorization.k8s.io"
_CRITICAL: Final = ("system-cluster-critical",)
PARTS: Final = {
    "scheduler": (rights.SCHEDULER, rights.SCHEDULER_AT_HOME),
    "controllers": (rights.CONTROLLERS, rights.CONTROLLERS_AT_HOME),
    "webhooks": (rights.WEBHOOKS, rights.WEBHOOKS_AT_HOME),
}
"""What runs, with what it may do in the cluster and at home."""


def install_objects(options: InstallOptions) -> list[Manifest]:
    """All of them, in their order."""
    found = [*kind_objects(), _namespace(options)]
    parts = {part: granted for part, granted in PARTS.items() if part != "webhooks" or options.webhooks}
    for part, (everywhere, at_home) in parts.items():
        named = rights.of_controllers(options.scheduler_names) if part == "controllers" else everywhere
        found += _rights_of(options, part, named, at_home)
    found += people_objects()
    found.append(_critical_quota(options))
    if options.policy:
        found.append(_policy(options))
    found.append(network_policy(options))
    for part in parts:
        found += [workload(options, part), disruption_budget(options, part)]
    if options.webhooks:
        found += [_keys(options), webhook_service(options)]
        found += configurations(options.namespace, by_service(options.namespace))
    return [_labelled(it) for it in found]


def kind_objects() -> list[Manifest]:
    """The definitions of our kinds, which is all that a scheduler outside the cluster needs."""
    return [_labelled(definition.manifest()) for definition in KINDS]


def people_objects() -> list[Manifest]:
    """Roles for those who submit jobs."""
    return [_labelled(it) for it in roles_for_people()]


def labels_of(part: str = "") -> dict[str, str]:
    """What every object of ours carries. The version tells a leader of the next release from one of this."""
    component = {"app.kubernetes.io/component": part} if part else {}
    return {
        "app.kubernetes.io/name": OURS,
        **component,
        PART_OF: OURS,
        "app.kubernetes.io/version": __version__,
        MANAGED_BY: OURS,
    }


def _labelled(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    part = metadata.get("labels", {}).get("app.kubernetes.io/component", "")
    return manifest | {"metadata": metadata | {"labels": labels_of(part) | metadata.get("labels", {})}}


def _namespace(options: InstallOptions) -> Manifest:
    secured = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("audit", "enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace, "labels": secured}}


def _rights_of(
    options: InstallOptions, part: str, everywhere: Sequence[Rule], at_home: Sequence[Rule]
) -> list[Manifest]:
    name = f"{OURS}-{part}"
    labels = {"app.kubernetes.io/component": part}
    here = {"name": name, "namespace": options.namespace, "labels": labels}
    anywhere = {"name": name, "labels": labels}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": options.namespace}]
    version = f"{_RIGHTS}/v1"

    def binding(kind: str) -> Manifest:
        return {"roleRef": {"apiGroup": _RIGHTS, "kind": kind, "name": name}, "subjects": subjects}

    def rules(granted: Sequence[Rule]) -> Manifest:
        return {"rules": rights.rule_manifests(granted)}

    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here, "automountServiceAccountToken": False},
        {"apiVersion": version, "kind": "ClusterRole", "metadata": anywhere, **rules(everywhere)},
        {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": anywhere, **binding("ClusterRole")},
        {"apiVersion": version, "kind": "Role", "metadata": here, **rules(at_home)},
        {"apiVersion": version, "kind": "RoleBinding", "metadata": here, **binding("Role")},
    ]


def _critical_quota(options: InstallOptions) -> Manifest:
    """Some clusters allow critical pods only in namespaces that have a quota for them."""
    in_class = {"scopeName": "PriorityClass", "operator": "In", "values": list(_CRITICAL)}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": f"{OURS}-critical-pods", "namespace": options.namespace},
        "spec": {"hard": {"pods": "40"}, "scopeSelector": {"matchExpressions": [in_class]}},
    }


def _keys(options: InstallOptions) -> Manifest:
    """Empty: the webhooks fill it, and may then do without the right to make one."""
    metadata = {"name": NAME, "namespace": options.namespace, "labels": {"app.kubernetes.io/component": "webhooks"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}


def _policy(options: InstallOptions) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{OURS}-policy", "namespace": options.namespace},
        "data": {"policy.yaml": options.policy},
    }
