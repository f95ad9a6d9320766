"""What the server does to a new object because of other objects: the default admission of a Kubernetes server.

Namespaces must exist and live, priority classes are looked up, default tolerations, taints and protection finalizers
are added. Each step is small and in the order of the real chain; a step refuses by raising a `StatusError`. A cluster
that brings webhooks for custom kinds gives the store their functions, which run here as if the webhook were always up.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from allhands.api.errors import StatusError, invalid_object, no_such_object, not_allowed
from allhands.api.volcano.surroundings import QueueFacts, Surroundings, queue_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.kinds import Kind
    from allhands.api.volcano.admission import Admission
    from allhands.store.record import Record

NAMESPACES_THAT_STAY = frozenset({"default", "kube-system", "kube-public"})
DEFAULT_TOLERATION_SECONDS = 300
SYSTEM_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NO_WEBHOOKS: Mapping[tuple[str, str], Admission] = {}
_UNREADY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Lookup:
    """The few questions that admission asks about other objects."""

    def __init__(
        self,
        find: Callable[[str, str, str, str], Record | None],
        every: Callable[[str, str], list[Manifest]],
        version: Callable[[str, str], int],
        records: Callable[[str, str], Iterable[Record]],
        webhooks: Mapping[tuple[str, str], Admission],
    ) -> None:
        self.record = find
        """(group, plural, namespace, name) -> the object, undecoded."""
        self.every = every
        """(group, plural) -> all objects."""
        self._version = version
        self._records = records
        self.webhooks = webhooks
        """By group and kind, who admits objects of custom kinds."""
        self._queues: dict[str, tuple[int, QueueFacts]] = {}
        self._default_class: tuple[int, Manifest | None] = (-1, None)

    def default_priority_class(self) -> Manifest | None:
        """The class of pods that name none; worked out again only when classes changed."""
        version = self._version("scheduling.k8s.io", "priorityclasses")
        if self._default_class[0] != version:
            every = self.every("scheduling.k8s.io", "priorityclasses")
            defaults = [each for each in every if each.get("globalDefault")]
            self._default_class = (version, min(defaults, key=lambda each: int(each["value"]), default=None))
        return self._default_class[1]

    def manifest(self, group: str, plural: str, namespace: str, name: str) -> Manifest | None:
        record = self.record(group, plural, namespace, name)
        return None if record is None else record.manifest()

    @functools.cached_property
    def around(self) -> Surroundings:
        """What the rules of our own kinds may ask."""
        return Surroundings(queues=self._queue_facts, namespace_annotations=self._namespace_annotations)

    def _queue_facts(self) -> Mapping[str, QueueFacts]:
        """Of all queues; only those that have changed are read again."""
        known, self._queues = self._queues, {}
        for record in self._records("scheduling.volcano.sh", "queues"):
            name = record.key[1]
            before = known.get(name)
            fresh = before is None or before[0] != record.version
            self._queues[name] = (record.version, queue_facts(record.manifest())) if fresh else before  # type: ignore[assignment]
        return {name: facts for name, (_, facts) in self._queues.items()}

    def _namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        found = self.manifest("", "namespaces", "", namespace)
        return {} if found is None else found["metadata"].get("annotations") or {}


def admit_create(kind: Kind, document: Manifest, lookup: Lookup) -> None:
    """Completes or refuses a new object, before it is validated. Its namespace was looked at before."""
    step = _STEPS.get((kind.group, kind.kind))
    if step is not None:
        step(document, lookup)
    elif kind.custom and (webhook := lookup.webhooks.get((kind.group, kind.kind))) is not None:
        webhook.complete(document, lookup.around)


def admit_valid(kind: Kind, document: Manifest, lookup: Lookup) -> None:
    """Refuses a new object that is valid in itself, for the sake of others."""
    if (kind.group, kind.kind) == ("scheduling.k8s.io", "PodGroup"):
        _check_workload(document, lookup)
    elif kind.custom and (webhook := lookup.webhooks.get((kind.group, kind.kind))) is not None:
        _refuse(kind, document, webhook.create_errors(document, lookup.around))


def admit_custom_update(kind: Kind, new: Manifest, lookup: Lookup) -> None:
    """Completes a changed object of a custom kind, before it is validated."""
    webhook = lookup.webhooks.get((kind.group, kind.kind)) if kind.custom else None
    if webhook is not None and webhook.completes_updates:
        webhook.complete(new, lookup.around)


def admit_valid_update(kind: Kind, new: Manifest, old: Manifest, lookup: Lookup) -> None:
    """Refuses a changed object that is valid in itself."""
    if kind.custom and (webhook := lookup.webhooks.get((kind.group, kind.kind))) is not None:
        _refuse(kind, new, webhook.update_errors(new, old, lookup.around))


def admit_delete(kind: Kind, record: Record, lookup: Lookup) -> None:
    """Refuses the end of an object that others need."""
    if kind.custom and (webhook := lookup.webhooks.get((kind.group, kind.kind))) is not None:
        why = webhook.deletion_error(record.manifest(), lookup.around)
        if why:
            raise not_allowed(kind.group, kind.resource.plural, record.key[1], why)


def _refuse(kind: Kind, document: Manifest, errors: list[FieldError]) -> None:
    if errors:
        raise invalid_object(kind.group, kind.kind, document["metadata"].get("name", ""), errors)


def admit_namespace(kind: Kind, document: Manifest, lookup: Lookup) -> None:
    namespace = document["metadata"].get("namespace", "")
    if not kind.namespaced or not namespace:
        return
    found = lookup.record("", "namespaces", "", namespace)
    if found is None:
        raise no_such_object("", "namespaces", namespace)
    if found.is_marked:
        raise _terminating(kind, document, namespace)


def _terminating(kind: Kind, document: Manifest, namespace: str) -> StatusError:
    name = document["metadata"].get("name", "")
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = not_allowed(kind.group, kind.resource.plural, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return StatusError(refusal.code, refusal.reason, refusal.message, {**(refusal.details or {}), "causes": [cause]})


def admit_update(kind: Kind, new: Manifest, old: Manifest) -> None:
    """Completes a changed object: what admission added at its creation comes back if a client left it out."""
    if (kind.group, kind.kind) == ("", "Pod"):
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])
        _default_tolerations(new["spec"])


def _pod(document: Manifest, lookup: Lookup) -> None:
    _priority(document, lookup)
    _default_tolerations(document["spec"])


def _priority(document: Manifest, lookup: Lookup) -> None:
    spec = document["spec"]
    name = spec.get("priorityClassName", "")
    pod_name = document["metadata"].get("name", "")
    found = (
        lookup.manifest("scheduling.k8s.io", "priorityclasses", "", name) if name else lookup.default_priority_class()
    )
    if name and found is None:
        raise not_allowed("", "pods", pod_name, f"no PriorityClass with name {name} was found")
    value, policy = (0, "PreemptLowerPriority") if found is None else (found["value"], found["preemptionPolicy"])
    if found is not None and not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    stated = spec.get("priority")
    if stated is not None and stated != value:
        why = (
            f"the integer value of priority ({stated}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise not_allowed("", "pods", pod_name, why)
    spec["priority"] = value
    if spec.setdefault("preemptionPolicy", policy) != policy:
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise not_allowed("", "pods", pod_name, why)


def _default_tolerations(spec: Manifest) -> None:
    tolerations = spec.get("tolerations", [])
    missing = [key for key in _UNREADY_TAINTS if not any(_covers(each, key) for each in tolerations)]
    if missing:
        spec["tolerations"] = tolerations + [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": DEFAULT_TOLERATION_SECONDS}
            for key in missing
        ]


def _covers(toleration: Manifest, key: str) -> bool:
    return toleration.get("key", key) == key and toleration.get("effect", "NoExecute") in ("NoExecute", "")


def _check_workload(document: Manifest, lookup: Lookup) -> None:
    """A group that is made from a workload's template needs that workload."""
    metadata = document["metadata"]
    reference = (document["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if not reference:
        return
    name = reference.get("workloadName", "")
    if lookup.record("scheduling.k8s.io", "workloads", metadata.get("namespace", ""), name) is None:
        why = f'PodGroup rejected: Workload "{name}" not found'
        raise not_allowed("scheduling.k8s.io", "podgroups", metadata.get("name", ""), why)


def _node(document: Manifest, _lookup: Lookup) -> None:
    """A new node takes no pods until somebody says that it is ready."""
    spec = document["spec"]
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if not any(t["key"] == taint["key"] and t["effect"] == taint["effect"] for t in spec.get("taints", ())):
        spec["taints"] = [*spec.get("taints", ()), taint]


def _protect(finalizer: str) -> Callable[[Manifest, Lookup], None]:
    def protect(document: Manifest, _lookup: Lookup) -> None:
        finalizers = document["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)

    return protect


def _volume_claim(document: Manifest, lookup: Lookup) -> None:
    _protect("kubernetes.io/pvc-protection")(document, lookup)
    spec = document["spec"]
    beta = "volume.beta.kubernetes.io/storage-class"
    if "storageClassName" in spec or beta in document["metadata"].get("annotations", {}):
        return
    marker = "storageclass.kubernetes.io/is-default-class"
    every = lookup.every("storage.k8s.io", "storageclasses")
    classes = [each for each in every if each["metadata"].get("annotations", {}).get(marker) == "true"]
    if classes:
        newest = max(classes, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        spec["storageClassName"] = newest["metadata"]["name"]


_STEPS: dict[tuple[str, str], Callable[[Manifest, Lookup], None]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "PersistentVolume"): _protect("kubernetes.io/pv-protection"),
    ("", "PersistentVolumeClaim"): _volume_claim,
    ("scheduling.k8s.io", "PodGroup"): _protect("scheduling.k8s.io/podgroup-protection"),
}
