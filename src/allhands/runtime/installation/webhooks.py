"""Of what the API server asks our webhooks, and what it does when they do not answer.

Our own kinds are refused while nobody can check them. Nothing else ever is: what is not ours and only names one of our
queues goes in unchecked then, and whatever names none is not even asked about. Namespaces of the system and our own are
left alone, and so is what our processes and those of Kubernetes write to objects that are there: a webhook that is down
keeps nothing from ending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.definitions import OURS
from allhands.api.kinds import Resource
from allhands.api.volcano.admission import ADMISSIONS
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.queue import QUEUE
from allhands.api.volcano.surroundings import QUEUE_OF_NAMESPACE
from allhands.dialects.annotations import QUEUE as QUEUE_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = Resource(GROUP, "v1", "mutatingwebhookconfigurations")
VALIDATING: Final = Resource(GROUP, "v1", "validatingwebhookconfigurations")
NAME: Final = f"{OURS}-webhooks"
"""Of the configurations, the service, the Secret, and the service account."""
ANNOTATED_WEBHOOK: Final = f"pods.{OURS}.dev"
"""The one that is asked about what is not ours and names one of our queues."""
SERVICE_PORT: Final = 443
QUEUE_ANNOTATIONS: Final = (QUEUE_ANNOTATION, QUEUE_OF_NAMESPACE)
"""By which pods, and what makes pods, say which queue they go to."""
ANNOTATED: Final = (
    ("", "v1", ("pods",)),
    ("apps", "v1", ("deployments", "replicasets", "statefulsets")),
    ("batch", "v1", ("jobs",)),
)
"""What may name a queue by an annotation: its own, or that of its template of pods."""
SYSTEM_NAMESPACES: Final = ("kube-node-lease", "kube-public", "kube-system")
MUTATE_SECONDS: Final = 5
VALIDATE_SECONDS: Final = 10
PODS_SECONDS: Final = 3
"""Pods that name a queue wait so long for a webhook that does not answer, and then go in."""
_MAKES_JOBS: Final = "jobs"
_USER: Final = "request.userInfo.username"


def accounts_of(namespace: str) -> tuple[str, ...]:
    """The user names of our processes that write objects of our kinds."""
    return tuple(f"system:serviceaccount:{namespace}:{OURS}-{part}" for part in ("controllers", "scheduler"))


def configurations(namespace: str, client: Callable[[str], Manifest]) -> list[Manifest]:
    """Both. `client` says how the webhook of a path is reached."""
    api_version = f"{GROUP}/v1"
    ours = {"matchConditions": _conditions(namespace), "namespaceSelector": _elsewhere(namespace)}
    mutate = {
        **_webhook("mutate", client, MUTATE_SECONDS, "Fail"),
        **ours,
        "reinvocationPolicy": "IfNeeded",
        "rules": [_rule(("CREATE", "UPDATE"), *it) for it in _reviewed()],
    }
    validate = {
        **_webhook("validate", client, VALIDATE_SECONDS, "Fail"),
        **ours,
        "rules": [
            *(_rule(("CREATE", "UPDATE"), *it) for it in _reviewed(JOB_TEMPLATE.resource, COMMAND.resource)),
            _rule(("DELETE",), QUEUE.group, QUEUE.resource.version, [QUEUE.plural]),
        ],
    }
    annotated = {
        **_webhook("validate", client, PODS_SECONDS, "Ignore", "pods"),
        "matchConditions": [_changed(), _not_by_us(namespace), _not_by_kubernetes(""), _names_a_queue()],
        "namespaceSelector": _elsewhere(namespace),
        "rules": [_rule(("CREATE", "UPDATE"), *it) for it in ANNOTATED],
    }
    head = {"apiVersion": api_version, "metadata": {"name": NAME}}
    return [
        {**head, "kind": "MutatingWebhookConfiguration", "webhooks": [mutate]},
        {**head, "kind": "ValidatingWebhookConfiguration", "webhooks": [validate, annotated]},
    ]


def by_service(namespace: str) -> Callable[[str], Manifest]:
    """Reached by the service of an installation."""
    return lambda path: {"service": {"namespace": namespace, "name": NAME, "path": f"/{path}", "port": SERVICE_PORT}}


def by_url(url: str) -> Callable[[str], Manifest]:
    """Reached at an address that API servers know: for a process beside the cluster."""
    return lambda path: {"url": f"{url.rstrip('/')}/{path}"}


def service_names(namespace: str) -> tuple[str, ...]:
    """What the API server calls the service by; the certificate must name it."""
    return (f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local")


def _webhook(
    path: str, client: Callable[[str], Manifest], timeout_seconds: int, failure_policy: str, name: str = ""
) -> Manifest:
    return {
        "name": f"{name or path}.{OURS}.dev",
        "clientConfig": client(path),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "failurePolicy": failure_policy,
        "timeoutSeconds": timeout_seconds,
    }


def _reviewed(*more: Resource) -> list[tuple[str, str, list[str]]]:
    """Group, version and plurals of every kind that has rules, and of those for which only rights are looked at."""
    found: dict[tuple[str, str], list[str]] = {}
    for it in VOLCANO_KINDS:
        if (it.group, it.kind) in ADMISSIONS or it.resource in more:
            found.setdefault((it.group, it.resource.version), []).append(it.plural)
    return [(group, version, sorted(plurals)) for (group, version), plurals in found.items()]


def _rule(operations: Sequence[str], group: str, version: str, plurals: Sequence[str]) -> Manifest:
    return {
        "operations": list(operations),
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(plurals),
        "scope": "*",
    }


def _elsewhere(namespace: str) -> Manifest:
    """By the label that the server itself writes, which nobody can change."""
    names = [*SYSTEM_NAMESPACES, namespace]
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}]}


def _conditions(namespace: str) -> list[Manifest]:
    """Who is who, is what the API server says; nothing in an object makes an exception of it."""
    new_job = f"(request.operation == 'CREATE' && request.resource.resource == '{_MAKES_JOBS}') || "
    return [_changed(), _not_by_us(namespace, new_job), _not_by_kubernetes("request.operation == 'CREATE' || ")]


def _not_by_us(namespace: str, unless: str = "") -> Manifest:
    ours = ", ".join(f"'{it}'" for it in accounts_of(namespace))
    return {"name": "not-by-us", "expression": f"{unless}!({_USER} in [{ours}])"}


def _changed() -> Manifest:
    annotations = "(has({0}.metadata.annotations) ? {0}.metadata.annotations : {{}})"
    return {
        "name": "changed",
        "expression": "request.operation != 'UPDATE' || !has(object.spec) || !has(oldObject.spec) || "
        f"object.spec != oldObject.spec || {annotations.format('object')} != {annotations.format('oldObject')}",
    }


def _not_by_kubernetes(unless: str) -> Manifest:
    """Its controllers make for others what was looked at when those others wrote it."""
    accounts = f"{_USER}.startsWith('system:serviceaccount:kube-system:')"
    return {
        "name": "not-by-kubernetes",
        "expression": f"{unless}!({_USER} == 'system:kube-controller-manager' || {accounts})",
    }


def _names_a_queue() -> Manifest:
    def named(metadata: str) -> str:
        names = " || ".join(f"'{it}' in {metadata}.annotations" for it in QUEUE_ANNOTATIONS)
        return f"(has({metadata}.annotations) && ({names}))"

    template = "object.spec.template.metadata"
    below = f"(has(object.spec.template) && has({template}) && {named(template)})"
    return {"name": "names-a-queue", "expression": f"{named('object.metadata')} || {below}"}
