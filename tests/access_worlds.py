"""Random roles, bindings and questions about them, and who may what by the plainest reading of them.

The reading shares nothing with the program: it walks every binding for every question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

GROUP = "rbac.authorization.k8s.io"
NAMESPACES = ("red", "blue")
USERS = ("ada", "bob", "system:serviceaccount:red:bot")
GROUPS = ("team", "system:authenticated", "ops")
VERBS = ("get", "list", "delete", "use")
API_GROUPS = ("", "apps", "batch.volcano.sh")
RESOURCES = ("pods", "jobs", "deployments")
SUBRESOURCES = ("", "", "status", "log")
NAMES = ("", "one", "two")
PATHS = ("/metrics", "/metrics/slis", "/api", "/apis/x")


def _some(rng: random.Random, values: tuple[str, ...], *, empty: bool = False) -> list[str]:
    return rng.sample(values, rng.randint(0 if empty else 1, min(2, len(values))))


def random_rule(rng: random.Random, *, of_paths: bool) -> dict[str, Any]:
    verbs = ["*"] if rng.random() < 0.15 else _some(rng, VERBS)
    if of_paths and rng.random() < 0.25:
        return {"verbs": verbs, "nonResourceURLs": _some(rng, (*PATHS, "/metrics*", "/api*", "*"))}
    parts = (*RESOURCES, "pods/status", "pods/log", "*/status", "jobs/status")
    rule: dict[str, Any] = {
        "verbs": verbs,
        "apiGroups": ["*"] if rng.random() < 0.15 else _some(rng, API_GROUPS),
        "resources": ["*"] if rng.random() < 0.15 else _some(rng, parts),
    }
    names = _some(rng, NAMES[1:], empty=True) if rng.random() < 0.4 else []
    return rule | ({"resourceNames": names} if names else {})


def random_role(rng: random.Random, name: str, namespace: str) -> dict[str, Any]:
    rules = [random_rule(rng, of_paths=not namespace) for _ in range(rng.randint(0, 3))]
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _subject(rng: random.Random, namespace: str) -> dict[str, Any]:
    kind = rng.choice(("User", "Group", "ServiceAccount"))
    if kind == "User":
        return {"kind": kind, "name": rng.choice(USERS)}
    if kind == "Group":
        return {"kind": kind, "name": rng.choice(GROUPS)}
    home = {} if namespace and rng.random() < 0.5 else {"namespace": rng.choice(NAMESPACES)}
    return {"kind": kind, "name": "bot"} | home


def random_binding(rng: random.Random, name: str, namespace: str, roles: list[str]) -> dict[str, Any]:
    role_kind = rng.choice(("Role", "ClusterRole")) if namespace else "ClusterRole"
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": rng.choice([*roles, "absent"])},
        "subjects": [_subject(rng, namespace) for _ in range(rng.randint(0, 3))],
    }


def random_question(rng: random.Random) -> dict[str, Any]:
    """The spec of a SubjectAccessReview."""
    spec: dict[str, Any] = {"user": rng.choice(USERS), "groups": _some(rng, GROUPS, empty=True)}
    if rng.random() < 0.15:
        return spec | {"nonResourceAttributes": {"verb": rng.choice(VERBS), "path": rng.choice(PATHS)}}
    attributes = {
        "verb": rng.choice(VERBS),
        "group": rng.choice(API_GROUPS),
        "resource": rng.choice(RESOURCES),
        "subresource": rng.choice(SUBRESOURCES),
        "name": rng.choice(NAMES),
        "namespace": rng.choice(("", *NAMESPACES)),
    }
    return spec | {"resourceAttributes": attributes}


def plainly_allowed(objects: list[dict[str, Any]], question: dict[str, Any]) -> bool:
    """Whether the objects grant it, read one after the other."""
    wanted = question.get("resourceAttributes")
    where = wanted["namespace"] if wanted is not None else ""
    for binding in objects:
        if not binding["kind"].endswith("Binding"):
            continue
        home = binding["metadata"].get("namespace", "")
        if home not in ("", where) or not any(_is_meant(it, question, home) for it in binding["subjects"]):
            continue
        reference = binding["roleRef"]
        for role in objects:
            is_it = role["kind"] == reference["kind"] and role["metadata"]["name"] == reference["name"]
            if is_it and role["metadata"].get("namespace", home) == home and _grants(role, question):
                return True
    return False


def _is_meant(subject: dict[str, Any], question: dict[str, Any], home: str) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in question["groups"]
    if subject["kind"] == "User":
        return bool(subject["name"] == question["user"])
    return bool(question["user"] == f"system:serviceaccount:{subject.get('namespace', home)}:{subject['name']}")


def _grants(role: dict[str, Any], question: dict[str, Any]) -> bool:
    of_path: Any = question.get("nonResourceAttributes")
    wanted: Any = question.get("resourceAttributes")
    for rule in role["rules"]:
        verb = (of_path or wanted)["verb"]
        if not {"*", verb} & set(rule["verbs"]):
            continue
        if of_path is not None:
            for url in rule.get("nonResourceURLs", ()):
                if url == of_path["path"] or (url[-1] == "*" and of_path["path"].startswith(url[:-1])):
                    return True
            continue
        part = wanted["resource"] + (f"/{wanted['subresource']}" if wanted["subresource"] else "")
        names = {"*", part} | ({f"*/{wanted['subresource']}"} if wanted["subresource"] else set())
        fits = bool({"*", wanted["group"]} & set(rule.get("apiGroups", ()))) and bool(
            names & set(rule.get("resources", ()))
        )
        if fits and ("resourceNames" not in rule or wanted["name"] in rule["resourceNames"]):
            return True
    return False
