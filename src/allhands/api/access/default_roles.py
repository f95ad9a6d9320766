"""The roles that a cluster has from the start, as the real server has them, and those of the batch kinds beside them.

Roles that a real cluster needs for its own components are missing on purpose: here those are in the process and ask
nobody. `reconciled` brings what a cluster keeps up to date, and takes nothing away that somebody has added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.access.grants import GROUP
from allhands.api.access.identity import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from allhands.api.access.rules import Rule, missing, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allhands.api.document import Manifest

AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
EDITS_JOBS: Final = "allhands:aggregate-to-edit"
VIEWS_JOBS: Final = "allhands:aggregate-to-view"
VIEWS_QUEUES: Final = "allhands:queue-viewer"
VIEWS_USAGE: Final = "system:aggregated-metrics-reader"
"""As metrics-server calls it."""
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_SCALED: Final = ("deployments", "replicasets", "statefulsets")
_TUNNELS: Final = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")
_HEALTH: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_OLD: Final = ("daemonsets", "deployments", "deployments/scale", "ingresses", "networkpolicies")


def _parts(names: Iterable[str], *parts: str) -> tuple[str, ...]:
    """Each with these of its parts."""
    return tuple(sorted(f"{name}/{part}" if part else name for name in names for part in ("", *parts)))


def _rule(verbs: Iterable[str], groups: str | tuple[str, ...], resources: Iterable[str]) -> Rule:
    return Rule(tuple(verbs), (groups,) if isinstance(groups, str) else groups, tuple(sorted(resources)))


def _view_rules() -> tuple[Rule, ...]:
    plain = ("configmaps", "endpoints", "persistentvolumeclaims", "pods", "replicationcontrollers", "serviceaccounts")
    of_apps = {*_parts((*_SCALED, "daemonsets"), "status"), *_parts(_SCALED, "scale"), "controllerrevisions"}
    old = {*_OLD, *_parts(("replicasets",), "scale", "status"), "replicationcontrollers/scale"}
    return (
        _rule(
            _READ,
            "",
            {*plain, *_parts(("services",), "status"), "persistentvolumeclaims/status", "replicationcontrollers/scale"},
        ),
        _rule(
            _READ,
            "",
            {
                *("bindings", "limitranges", "namespaces/status", "pods/log", "pods/status"),
                *("replicationcontrollers/status", "resourcequotas", "resourcequotas/status"),
            },
        ),
        _rule(_READ, "", ("namespaces",)),
        _rule(_READ, ("", "events.k8s.io"), ("events",)),
        _rule(_READ, "discovery.k8s.io", ("endpointslices",)),
        _rule(_READ, "apps", of_apps),
        _rule(_READ, "autoscaling", _parts(("horizontalpodautoscalers",), "status")),
        _rule(_READ, "batch", _parts(("cronjobs", "jobs"), "status")),
        _rule(_READ, "extensions", {*old, "daemonsets/status", "deployments/status", "ingresses/status"}),
        _rule(_READ, "policy", _parts(("poddisruptionbudgets",), "status")),
        _rule(_READ, "networking.k8s.io", {*_parts(("ingresses",), "status"), "networkpolicies"}),
        _rule(_READ, "resource.k8s.io", {*_parts(("resourceclaims",), "status"), "resourceclaimtemplates"}),
        _rule(_READ, "scheduling.k8s.io", {*_parts(("podgroups",), "status"), "workloads"}),
    )


def _edit_rules() -> tuple[Rule, ...]:
    kept = ("configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services", "services/proxy")
    replication = _parts(("replicationcontrollers",), "scale")
    old = {*_OLD, "deployments/rollback", *_parts(("replicasets",), "scale"), "replicationcontrollers/scale"}
    return (
        _rule(_READ, "", {*_TUNNELS, "secrets", "services/proxy"}),
        _rule(("impersonate",), "", ("serviceaccounts",)),
        _rule(_WRITE, "", {"pods", *_TUNNELS}),
        _rule(("create",), "", ("pods/eviction",)),
        _rule(_WRITE, "", {*kept, *replication}),
        _rule(("create",), "", ("serviceaccounts/token",)),
        _rule(_WRITE, ("", "events.k8s.io"), ("events",)),
        _rule(_WRITE, "apps", {*_parts(_SCALED, "scale"), "daemonsets", "deployments/rollback"}),
        _rule(_WRITE, "autoscaling", ("horizontalpodautoscalers",)),
        _rule(_WRITE, "batch", ("cronjobs", "jobs")),
        _rule(_WRITE, "extensions", old),
        _rule(_WRITE, "policy", ("poddisruptionbudgets",)),
        _rule(_WRITE, "networking.k8s.io", ("ingresses", "networkpolicies")),
        _rule((*_WRITE, *_READ), "coordination.k8s.io", ("leases",)),
        _rule(_WRITE, "resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
        _rule(_WRITE, "scheduling.k8s.io", ("podgroups", "workloads")),
    )


def _batch_view_rules() -> tuple[Rule, ...]:
    return (
        _rule(_READ, "batch.volcano.sh", _parts(("cronjobs", "jobs"), "status")),
        _rule(_READ, "flow.volcano.sh", _parts(("jobflows", "jobtemplates"), "status")),
        _rule(_READ, "scheduling.volcano.sh", _parts(("podgroups",), "status")),
        _rule(_READ, "bus.volcano.sh", ("commands",)),
    )


def _batch_edit_rules() -> tuple[Rule, ...]:
    """Commands too: who may delete a Job may tell it to stop."""
    return (
        _rule(_WRITE, "batch.volcano.sh", ("cronjobs", "jobs")),
        _rule(_WRITE, "flow.volcano.sh", ("jobflows", "jobtemplates")),
        _rule(_WRITE, "scheduling.volcano.sh", ("podgroups",)),
        _rule(_WRITE, "bus.volcano.sh", ("commands",)),
    )


def _admin_rules() -> tuple[Rule, ...]:
    return (
        _rule(("create",), "authorization.k8s.io", ("localsubjectaccessreviews",)),
        _rule((*_WRITE, *_READ), GROUP, ("rolebindings", "roles")),
    )


def _basic_rules() -> tuple[Rule, ...]:
    return (
        _rule(("create",), "authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
        _rule(("create",), "authentication.k8s.io", ("selfsubjectreviews",)),
    )


def _queue_rules() -> tuple[Rule, ...]:
    """Queues, classes and nodes belong to everybody who submits jobs: without seeing them nobody understands a wait."""
    return (
        _rule(_READ, "scheduling.volcano.sh", ("queues",)),
        _rule(_READ, "topology.volcano.sh", ("hypernodes",)),
        _rule(_READ, "scheduling.k8s.io", ("priorityclasses",)),
        _rule(_READ, "", ("nodes",)),
    )


def _document(rule: Rule) -> Manifest:
    fields = {
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
        "nonResourceURLs": rule.urls,
    }
    return {name: list(values) for name, values in fields.items() if values}


def _role(name: str, rules: Iterable[Rule] = (), *, into: str = "", gathers: str = "") -> Manifest:
    """`into` are the roles that gather this one; `gathers` what this one gathers."""
    labels = dict(_LABELS) | {f"{GROUP}/aggregate-to-{it}": "true" for it in into.split()}
    role: Manifest = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels, "annotations": {AUTOUPDATE: "true"}},
    }
    if gathers:
        selector = {"matchLabels": {f"{GROUP}/aggregate-to-{gathers}": "true"}}
        return role | {"aggregationRule": {"clusterRoleSelectors": [selector]}}
    return role | {"rules": [_document(rule) for rule in rules]}


def roles_for_people() -> Iterator[Manifest]:
    """What an installation adds to the roles of a cluster that has its own: who may edit or view a namespace may do the
    same with the jobs in it. Whom queues are shown to is for others to say."""
    own = (EDITS_JOBS, VIEWS_JOBS, VIEWS_QUEUES)
    for role in cluster_roles():
        metadata = role["metadata"]
        if metadata["name"] in own:
            labels = {key: value for key, value in metadata["labels"].items() if key not in _LABELS}
            yield role | {"metadata": {"name": metadata["name"], "labels": labels}}


def cluster_roles() -> Iterator[Manifest]:
    """Every role, new."""
    yield _role("cluster-admin", (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",))))
    discovery = (*_HEALTH, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
    yield _role("system:discovery", (Rule(("get",), urls=tuple(sorted(discovery))),))
    yield _role("system:basic-user", _basic_rules())
    yield _role("system:public-info-viewer", (Rule(("get",), urls=_HEALTH),))
    yield _role("admin", gathers="admin")
    yield _role("edit", gathers="edit", into="admin")
    yield _role("view", gathers="view", into="edit")
    yield _role("system:aggregate-to-admin", _admin_rules(), into="admin")
    yield _role("system:aggregate-to-edit", _edit_rules(), into="edit")
    yield _role("system:aggregate-to-view", _view_rules(), into="view")
    yield _role(EDITS_JOBS, _batch_edit_rules(), into="edit")
    yield _role(VIEWS_JOBS, _batch_view_rules(), into="view")
    yield _role(VIEWS_QUEUES, _queue_rules())


def usage_roles() -> Iterator[Manifest]:
    """What metrics-server adds to the roles of a cluster: who may view a namespace may see what its pods use."""
    rules = (_rule(_READ, "metrics.k8s.io", ("nodes", "pods")),)
    yield _role(VIEWS_USAGE, rules, into="view edit admin")


_BOUND: Final = {
    "cluster-admin": (MASTERS,),
    "system:discovery": (AUTHENTICATED,),
    "system:basic-user": (AUTHENTICATED,),
    "system:public-info-viewer": (AUTHENTICATED, UNAUTHENTICATED),
    "allhands:queue-viewer": (AUTHENTICATED,),
}


def cluster_role_bindings() -> Iterator[Manifest]:
    """Which groups have which of them from the start; `admin`, `edit` and `view` are for people to give."""
    for role, groups in _BOUND.items():
        yield {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role, "labels": dict(_LABELS), "annotations": {AUTOUPDATE: "true"}},
            "subjects": [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups],
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        }


def reconciled(kept: Manifest, wanted: Manifest) -> Manifest | None:
    """What is kept with all that it lacks of what is wanted; None if that is nothing, or if somebody has said that it
    stays as it is."""
    if (kept["metadata"].get("annotations") or {}).get(AUTOUPDATE) != "true":
        return None
    changed = dict(kept)
    if "rules" in wanted:
        lacking = missing(rules_of(kept), rules_of(wanted))
        if lacking:
            changed["rules"] = [*(kept.get("rules") or ()), *(_document(rule) for rule in lacking)]
    if "subjects" in wanted:
        names = {(it.get("kind"), it.get("name")) for it in kept.get("subjects") or ()}
        more = [it for it in wanted["subjects"] if (it["kind"], it["name"]) not in names]
        if more:
            changed["subjects"] = [*(kept.get("subjects") or ()), *more]
    labels = {**(kept["metadata"].get("labels") or {}), **wanted["metadata"]["labels"]}
    if labels != kept["metadata"].get("labels"):
        changed["metadata"] = {**kept["metadata"], "labels": labels}
    return None if changed == kept else changed
