"""The visible list of built-in kinds. One row each: names, scope, sub-resources, selectable fields, behaviour.

Schemas, merge keys and descriptions come with the definition's name; rules and printers are found by kind. Adding a
kind is one row here, and a file in `builtin` if it has rules of its own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from allhands.api import names
from allhands.api.apply.schema_types import definition_type
from allhands.api.builtin import (
    apps,
    batch,
    coordination,
    core,
    definitions,
    endpointslice,
    events,
    networking,
    nodes,
    pods,
    policy,
    rbac,
    runtimeclass,
    scheduling,
    storage,
)
from allhands.api.kinds import Kind, Resource, ScalePlaces, selector_by_paths
from allhands.api.rules import Rules
from allhands.api.schema.merge import DefinitionMerge
from allhands.api.schema.shape import TypedShape
from allhands.api.tables.builtin import printer_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest

_RULES: Mapping[str, Rules] = (
    core.RULES
    | pods.RULES
    | nodes.RULES
    | batch.RULES
    | apps.RULES
    | policy.RULES
    | scheduling.RULES
    | coordination.RULES
    | definitions.RULES
    | storage.RULES
    | runtimeclass.RULES
    | endpointslice.RULES
    | networking.RULES
    | rbac.RULES
)

_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)


def _select_pod(pod: Manifest) -> tuple[str, ...]:
    spec, status = pod["spec"], pod.get("status", {})
    return (
        spec.get("nodeName", ""),
        spec.get("restartPolicy", ""),
        spec.get("schedulerName", ""),
        spec.get("serviceAccountName", ""),
        "true" if spec.get("hostNetwork") else "false",
        status.get("phase", ""),
        status.get("podIP", ""),
        status.get("nominatedNodeName", ""),
    )


def _select_node(node: Manifest) -> tuple[str, ...]:
    return ("true" if node["spec"].get("unschedulable") else "false",)


def _select_job(job: Manifest) -> tuple[str, ...]:
    return (str(job.get("status", {}).get("succeeded", 0)),)


def _kind(group: str, version: str, kind: str, plural: str, **more: Any) -> Kind:
    package = group.partition(".")[0] or "core"
    definition = more.pop("definition", f"io.k8s.api.{package}.{version}.{kind}")
    selectable = more.get("selectable", ())
    if selectable and "select" not in more:
        more["select"] = selector_by_paths(selectable)
    resource = Resource(group, version, plural)
    return Kind(
        resource=resource,
        kind=kind,
        singular=kind.lower(),
        rules=more.pop("rules", None) or _RULES.get(kind, Rules()),
        shape=TypedShape(definition),
        merge_schema=DefinitionMerge(definition),
        field_types={resource.api_version: functools.partial(definition_type, definition)},
        scales={resource.api_version: ScalePlaces()} if "scale" in more.get("subresources", ()) else {},
        printer=printer_for(group, kind),
        definition=definition,
        **more,
    )


_STATUS = ("status",)
_SCALED = ("scale", "status")
_PARTS_OF_PODS = (
    *("attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize"),
    "status",
)
_ALL = ("all",)


def builtin_kinds() -> list[Kind]:
    """Every kind that is served without a definition of its own, in the order of discovery."""
    return [*_core(), *_workloads(), *_cluster(), *_access()]


def _core() -> list[Kind]:
    return [
        _kind("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
        _kind(
            "",
            "v1",
            "Endpoints",
            "endpoints",
            short_names=("ep",),
            allow_create_on_update=True,
            deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        _kind(
            "",
            "v1",
            "Event",
            "events",
            name_check=names.path_segment_name,
            any_finalizer=True,
            short_names=("ev",),
            allow_create_on_update=True,
            selectable=events.STORED_SELECTABLE,
            select=events.select,
            indexed=("involvedObject.uid", "involvedObject.name"),
        ),
        _kind("", "v1", "LimitRange", "limitranges", short_names=("limits",), allow_create_on_update=True),
        _kind(
            "",
            "v1",
            "Namespace",
            "namespaces",
            namespaced=False,
            short_names=("ns",),
            subresources=("finalize", "status"),
            selectable=("status.phase",),
            name_check=names.dns1123_label,
            returns_deleted=True,
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        _kind(
            "",
            "v1",
            "Node",
            "nodes",
            namespaced=False,
            short_names=("no",),
            subresources=("proxy", "status"),
            selectable=("spec.unschedulable",),
            select=_select_node,
            keeps_first_status=True,
        ),
        _kind(
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            short_names=("pvc",),
            subresources=_STATUS,
            returns_deleted=True,
        ),
        _kind(
            "",
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            namespaced=False,
            short_names=("pv",),
            subresources=_STATUS,
            returns_deleted=True,
        ),
        _kind(
            "",
            "v1",
            "Pod",
            "pods",
            short_names=("po",),
            categories=_ALL,
            has_generation=True,
            subresources=_PARTS_OF_PODS,
            graceful_deletion=True,
            returns_deleted=True,
            selectable=_POD_FIELDS,
            select=_select_pod,
            indexed=("spec.nodeName",),
        ),
        _kind("", "v1", "PodTemplate", "podtemplates", has_generation=True, returns_deleted=True),
        _kind(
            "",
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            short_names=("rc",),
            categories=_ALL,
            subresources=_SCALED,
            has_generation=True,
            selectable=("status.replicas",),
            orphans_by_default=True,
        ),
        _kind(
            "",
            "v1",
            "ResourceQuota",
            "resourcequotas",
            short_names=("quota",),
            subresources=_STATUS,
            returns_deleted=True,
        ),
        _kind("", "v1", "Secret", "secrets", selectable=("type",)),
        _kind(
            "",
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            short_names=("sa",),
            subresources=("token",),
            returns_deleted=True,
        ),
        _kind(
            "",
            "v1",
            "Service",
            "services",
            short_names=("svc",),
            categories=_ALL,
            subresources=("proxy", "status"),
            selectable=("spec.clusterIP", "spec.type"),
            name_check=names.dns1123_label,
            returns_deleted=True,
            allow_create_on_update=True,
        ),
    ]


def _workloads() -> list[Kind]:
    return [
        _kind("apps", "v1", "ControllerRevision", "controllerrevisions"),
        _kind(
            "apps",
            "v1",
            "DaemonSet",
            "daemonsets",
            short_names=("ds",),
            categories=_ALL,
            subresources=_STATUS,
            has_generation=True,
        ),
        _kind(
            "apps",
            "v1",
            "Deployment",
            "deployments",
            short_names=("deploy",),
            categories=_ALL,
            subresources=_SCALED,
            has_generation=True,
            generation_follows=("annotations",),
        ),
        _kind(
            "apps",
            "v1",
            "ReplicaSet",
            "replicasets",
            short_names=("rs",),
            categories=_ALL,
            subresources=_SCALED,
            has_generation=True,
        ),
        _kind(
            "apps",
            "v1",
            "StatefulSet",
            "statefulsets",
            short_names=("sts",),
            categories=_ALL,
            subresources=_SCALED,
            has_generation=True,
            name_check=names.dns1123_label,
        ),
        _kind(
            "batch",
            "v1",
            "CronJob",
            "cronjobs",
            short_names=("cj",),
            categories=_ALL,
            subresources=_STATUS,
            has_generation=True,
        ),
        _kind(
            "batch",
            "v1",
            "Job",
            "jobs",
            categories=_ALL,
            subresources=_STATUS,
            has_generation=True,
            selectable=("status.successful",),
            select=_select_job,
            orphans_by_default=True,
        ),
        _kind(
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
            short_names=("netpol",),
            has_generation=True,
        ),
        _kind(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            any_finalizer=True,
            name_check=names.path_segment_name,
            short_names=("pdb",),
            subresources=_STATUS,
            has_generation=True,
            allow_unconditional_update=False,
        ),
        _kind(
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
            namespaced=False,
            short_names=("pc",),
            has_generation=True,
            generation_rises=False,
        ),
        _kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", subresources=_STATUS),
        _kind("scheduling.k8s.io", "v1alpha2", "Workload", "workloads"),
    ]


def _cluster() -> list[Kind]:
    return [
        _kind(
            "coordination.k8s.io",
            "v1",
            "Lease",
            "leases",
            any_finalizer=True,
            allow_create_on_update=True,
            allow_unconditional_update=False,
        ),
        _kind(
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
            has_generation=True,
            generation_follows=("labels",),
        ),
        _kind(
            "events.k8s.io",
            "v1",
            "Event",
            "events",
            name_check=names.path_segment_name,
            any_finalizer=True,
            short_names=("ev",),
            allow_create_on_update=True,
            rules=events.RULES["Event"],
            selectable=events.SELECTABLE,
            storage=Resource("", "v1", "events"),
            stored_names=events.STORED_NAMES,
        ),
        _kind(
            "node.k8s.io",
            "v1",
            "RuntimeClass",
            "runtimeclasses",
            any_finalizer=True,
            namespaced=False,
            allow_create_on_update=True,
            allow_unconditional_update=False,
        ),
        _kind(
            "storage.k8s.io",
            "v1",
            "CSIDriver",
            "csidrivers",
            namespaced=False,
            allow_unconditional_update=False,
            returns_deleted=True,
        ),
        _kind(
            "storage.k8s.io",
            "v1",
            "CSINode",
            "csinodes",
            namespaced=False,
            allow_unconditional_update=False,
            returns_deleted=True,
        ),
        _kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", allow_unconditional_update=False),
        _kind(
            "storage.k8s.io",
            "v1",
            "StorageClass",
            "storageclasses",
            namespaced=False,
            short_names=("sc",),
            returns_deleted=True,
        ),
        _kind(
            "storage.k8s.io",
            "v1",
            "VolumeAttachment",
            "volumeattachments",
            namespaced=False,
            subresources=_STATUS,
            allow_unconditional_update=False,
            returns_deleted=True,
        ),
        _kind(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=_STATUS,
            has_generation=True,
            definition="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        ),
    ]


def _access() -> list[Kind]:
    """Who may do what; and questions about that, which are answered at once and kept nowhere."""
    roles = [
        _kind(
            "rbac.authorization.k8s.io",
            "v1",
            kind,
            f"{kind.lower()}s",
            namespaced=not kind.startswith("Cluster"),
            name_check=rbac.role_name,
            allow_create_on_update=True,
        )
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ]
    questions = [
        _kind(
            f"{group}.k8s.io",
            "v1",
            kind,
            f"{kind.lower()}s",
            namespaced=kind.startswith("Local"),
            verbs=("create",),
            is_question=True,
        )
        for group, kind in (
            ("authentication", "SelfSubjectReview"),
            ("authentication", "TokenReview"),
            ("authorization", "LocalSubjectAccessReview"),
            ("authorization", "SelfSubjectAccessReview"),
            ("authorization", "SelfSubjectRulesReview"),
            ("authorization", "SubjectAccessReview"),
        )
    ]
    return roles + questions
