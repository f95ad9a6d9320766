"""The two verbs that only pods have: bind (to a node, once) and evict (if disruption budgets allow)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from allhands.api.delete_options import delete_option_errors
from allhands.api.errors import (
    FieldError,
    StatusError,
    conflict,
    invalid_object,
    no_such_object,
    not_supported,
    required,
)
from allhands.api.kinds import Resource
from allhands.api.selectors import label_selector
from allhands.ports import DeleteOptions
from allhands.store.deleting import delete_record
from allhands.store.envelope import closed, rewritten, texts_of
from allhands.store.partial import known_spec
from allhands.store.writing import change, check_uid

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import WriteOptions
    from allhands.store.collection import Collection
    from allhands.store.envelope import Texts
    from allhands.store.record import Record
    from allhands.store.store import Store

PODS = Resource("", "v1", "pods")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
EVICTION_RETRY_SECONDS = 0


def _pod(store: Store, namespace: str, name: str) -> tuple[Collection, Record]:
    collection = store.collection(store.kind(PODS))
    record = collection.get((namespace, name))
    if record is None:
        raise no_such_object("", "pods", name)
    return collection, record


def bind(store: Store, namespace: str, name: str, binding: Manifest, options: WriteOptions) -> None:
    target = binding.get("target") or {}
    node = target.get("name", "")
    if target.get("kind", "") not in ("", "Node"):
        raise _unclassified(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not node:
        raise _unclassified(required("target.name"))
    collection, record = _pod(store, namespace, name)
    metadata = binding.get("metadata") or {}
    texts = texts_of(record.raw)
    pod = {"metadata": msgspec.json.decode(texts.metadata), "spec": known_spec(bytes(texts.spec))}
    _refuse_binding(collection.kind, record, pod, metadata, dry_run=options.dry_run)
    if options.dry_run:
        return
    if not metadata.get("annotations") and not metadata.get("labels") and "nodeName" not in pod["spec"]:
        _place(store, collection, record, texts, node)
        return

    def assign(pod: Manifest) -> None:
        pod["spec"]["nodeName"] = node
        for field in ("annotations", "labels"):
            if metadata.get(field):
                pod["metadata"].setdefault(field, {}).update(metadata[field])
        _set_scheduled(pod, store.now())

    change(store, collection, record, assign)


def _place(store: Store, collection: Collection, record: Record, texts: Texts, node: str) -> None:
    """Writes nothing but the node and the condition; the rest of the pod stays the text that it is."""
    spec = bytes(texts.spec)
    status = msgspec.json.decode(texts.status or b"{}")
    pod = {"spec": known_spec(spec) | {"nodeName": node}, "status": status}
    _set_scheduled(pod, store.now())
    comma = b"" if spec == b"{}" else b","
    placed = b"".join((spec[:-1], comma, b'"nodeName":', msgspec.json.encode(node), b"}"))
    text = rewritten(texts, placed, msgspec.json.encode(status))
    fields = tuple(map(sys.intern, collection.kind.select(pod)))
    if text is not None:
        store.commit_text(collection, record, text, fields)
        return
    metadata = msgspec.json.decode(texts.metadata)
    store.commit(collection, record, closed(collection.kind, metadata, placed, msgspec.json.encode(status)), fields)


def _unclassified(fault: FieldError) -> StatusError:
    """The real server answers a malformed binding with a bare 500 that names the field."""
    return StatusError(500, "", str(fault))


def _refuse_binding(kind: Kind, record: Record, document: Manifest, metadata: Manifest, *, dry_run: bool) -> None:
    name = record.key[1]
    why = ""
    check_uid(kind, metadata.get("uid", ""), record, dry_run=dry_run)
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != str(record.version):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {metadata['resourceVersion']}, "
            f"ResourceVersion in object meta: {record.version}"
        )
        raise conflict("", "pods", name, why)
    if "deletionTimestamp" in document["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif document["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{document["spec"]["nodeName"]}"'
    elif document["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("", "pods/binding", name, why)


def _set_scheduled(pod: Manifest, now: str) -> None:
    """The condition that the server itself sets when a pod gets its node."""
    _set_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})


def _set_condition(owner: Manifest, condition: Manifest) -> None:
    """Puts the condition in the place of the one of its type; the transition keeps its time if nothing turned."""
    conditions = owner.setdefault("status", {}).setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            if present["status"] == condition["status"]:
                condition["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[index] = condition
            return
    conditions.append(condition)


def evict(store: Store, namespace: str, name: str, eviction: Manifest, options: WriteOptions) -> None:
    wanted = eviction.get("deleteOptions") or {}
    stated = wanted.get("dryRun") or []
    if options.dry_run and stated not in ([], ["All"]):
        message = f"Non-matching dry-run options in request and content: [All] and [{' '.join(stated)}]"
        raise StatusError(500, "", message)
    collection, record = _pod(store, namespace, name)
    preconditions = wanted.get("preconditions") or {}
    pod = record.manifest()
    budgets = [] if _needs_no_budget(pod) else _budgets(store, namespace, record)
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        message = f"Internal error occurred: {why}"
        raise StatusError(500, "InternalError", message, {"causes": [{"message": why}]})
    dry_run = options.dry_run or bool(stated)
    for budgets_collection, budget in budgets:
        _charge(store, budgets_collection, budget, name, dry_run=dry_run)
    if not dry_run:
        record = change(store, collection, record, lambda pod: _tell_evicted(pod, store.now()))
    # Only now: the real server looks at these options when it has written the condition.
    faults = delete_option_errors(stated, wanted.get("propagationPolicy"), wanted.get("orphanDependents"))
    if faults:
        raise invalid_object("meta.k8s.io", "DeleteOptions", "", faults)
    grace = wanted.get("gracePeriodSeconds")
    delete_record(
        store,
        collection,
        record,
        DeleteOptions(
            grace_seconds=grace,
            propagation=wanted.get("propagationPolicy"),
            uid=preconditions.get("uid", ""),
            version=preconditions.get("resourceVersion", ""),
            dry_run=dry_run,
        ),
    )


def _tell_evicted(pod: Manifest, now: str) -> None:
    _set_condition(
        pod,
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        },
    )


def _needs_no_budget(pod: Manifest) -> bool:
    """Pods that are over, not begun or already going disturb nobody."""
    return (
        pod.get("status", {}).get("phase") in ("Succeeded", "Failed", "Pending")
        or "deletionTimestamp" in pod["metadata"]
    )


def _budgets(store: Store, namespace: str, pod: Record) -> list[tuple[Collection, Record]]:
    collection = store.collection(store.kind(BUDGETS))
    found = []
    for record in collection:
        if record.key[0] != namespace:
            continue
        selector = record.manifest()["spec"].get("selector")
        if selector is not None and label_selector(selector).matches(pod.labels):
            found.append((collection, record))
    return found


def _charge(store: Store, collection: Collection, record: Record, pod: str, *, dry_run: bool) -> None:
    """Takes one disruption off the budget, or refuses."""
    budget = record.manifest()
    status = budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {record.key[1]} is still being processed by the server."
        raise _too_many("Cannot evict pod as it would violate the pod's disruption budget.", message, 10)
    if status.get("disruptionsAllowed", 0) <= 0:
        message = (
            f"The disruption budget {record.key[1]} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
        raise _too_many("Cannot evict pod as it would violate the pod's disruption budget.", message, 0)
    if dry_run:
        return

    def take_one(document: Manifest) -> None:
        document["status"]["disruptionsAllowed"] -= 1
        document["status"].setdefault("disruptedPods", {})[pod] = store.now()
        if document["status"]["disruptionsAllowed"] == 0:
            exhausted = {
                "type": "DisruptionAllowed",
                "status": "False",
                "observedGeneration": document["metadata"].get("generation", 0),
                "lastTransitionTime": store.now(),
                "reason": "InsufficientPods",
                "message": "",
            }
            _set_condition(document, exhausted)

    change(store, collection, record, take_one, manager="kube-apiserver", subresource="status")


def _too_many(message: str, cause: str, retry_after_seconds: int) -> StatusError:
    details: dict[str, object] = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return StatusError(429, "TooManyRequests", message, details)
