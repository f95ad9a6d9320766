"""Rules of Pod: defaults that templates do not get, what the server decides at birth, and what may still change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.builtin.affinity import PREFERRED, REQUIRED
from allhands.api.builtin.containers import refuse_image_edges
from allhands.api.builtin.pod_defaults import copy_service_account, default_pod_spec
from allhands.api.builtin.pod_parts import (
    check_ephemeral_change,
    check_resize,
    prepare_ephemeral,
    prepare_resize,
)
from allhands.api.builtin.pod_status import prepare_pod_status, validate_pod_status
from allhands.api.builtin.pod_twins import metadata_decides, spec_decides
from allhands.api.builtin.pod_updates import (
    changes_only_what_was_checked,
    check_annotation_updates,
    check_spec_update,
)
from allhands.api.builtin.podspec import check_pod_annotations, validate_pod_spec
from allhands.api.builtin.resource_lists import aggregate, is_huge_pages, is_overcommit_allowed, is_pod_level, nanos
from allhands.api.errors import forbidden
from allhands.api.rules import PartRules, Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError


def _default(pod: Manifest) -> None:
    spec = pod.setdefault("spec", {})
    for container in spec.get("containers", ()):
        _default_requests(container)
    for container in spec.get("initContainers", ()):
        _default_requests(container)
    if "resources" in spec:
        _default_pod_limits(spec)
        _default_pod_requests(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _default_status(pod)


def _default_status(pod: Manifest) -> None:
    if pod.get("status"):
        _align_addresses(pod["status"])


def _default_requests(container: Manifest) -> None:
    """Who states only limits asks for exactly those."""
    resources = container.get("resources")
    if resources and "limits" in resources:
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _default_pod_limits(spec: Manifest) -> None:
    """Huge pages cannot be overcommitted, so the pod's limit is what its containers may use together."""
    resources = spec["resources"]
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    if not limits and not requests:
        return
    added = {
        name: text
        for name, text in aggregate(spec, "limits").items()
        if is_huge_pages(name) and name not in requests and name not in limits
    }
    if added:
        resources["limits"] = {**limits, **added}


def _default_pod_requests(spec: Manifest) -> None:
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests", {}))
    for name, text in aggregate(spec, "requests").items():
        if name not in requests and is_pod_level(name) and is_overcommit_allowed(name):
            requests[name] = text
    for name, text in limits.items():
        if name not in requests and is_pod_level(name):
            requests[name] = text
    if requests:
        resources["requests"] = requests


def _default_host_ports(spec: Manifest) -> None:
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind, ()):
            for port in container.get("ports", ()):
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _align_addresses(status: Manifest) -> None:
    """`podIP` is the first of `podIPs`; where they disagree, the older field wins."""
    first, addresses = status.get("podIP"), status.get("podIPs")
    if first and (not addresses or addresses[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif addresses and not first:
        status["podIP"] = addresses[0].get("ip", "")


def qos_class(spec: Manifest) -> str:
    """Guaranteed, Burstable or BestEffort: how much of what the pod uses it has also asked for."""
    if "resources" in spec:
        bearers = [spec["resources"]]
        needs_both = bool(spec["resources"].get("limits"))
    else:
        containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
        bearers = [container.get("resources", {}) for container in containers]
        needs_both = True
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for bearer in bearers:
        _add_positive(bearer.get("requests"), requests)
        if _add_positive(bearer.get("limits"), limits) < 2 and needs_both:
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add_positive(amounts: dict[str, str] | None, total: dict[str, int]) -> int:
    """How many of cpu and memory are there, with a positive amount."""
    found = 0
    if amounts:
        for name in ("cpu", "memory"):
            amount = nanos(amounts[name]) if name in amounts else 0
            if amount > 0:
                found += 1
                total[name] = total.get(name, 0) + amount
    return found


def _prepare_create(pod: Manifest) -> None:
    spec = pod["spec"]
    copy_service_account(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        if "creationTimestamp" in pod["metadata"]:
            condition["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
        pod["status"]["conditions"] = [condition]
    labels = pod["metadata"].get("labels", {})
    for kind in ("podAffinity", "podAntiAffinity") if "affinity" in spec else ():
        terms = spec["affinity"].get(kind, {})
        for weighted in terms.get(PREFERRED, ()):
            _merge_label_keys(weighted.get("podAffinityTerm", {}), labels)
        for term in terms.get(REQUIRED, ()):
            _merge_label_keys(term, labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _merge_label_keys(constraint, labels)


def _merge_label_keys(term: Manifest, labels: dict[str, str]) -> None:
    """Turns `matchLabelKeys` into expressions with the pod's own values, so that schedulers need not know them."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field, ()):
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(expression)


def _check(pod: Manifest) -> list[FieldError]:
    """What holds for a pod at any time."""
    spec, metadata = pod["spec"], pod["metadata"]
    annotated: list[FieldError] = []
    if "annotations" in metadata:
        check_pod_annotations(metadata["annotations"], spec, "metadata.annotations", annotated)
    errors = validate_pod_spec(spec, "spec", metadata, is_pod=True)
    if annotated:
        errors = annotated + errors
    if not spec.get("serviceAccountName") and "volumes" in spec:
        for index, volume in enumerate(spec["volumes"]):
            for position, source in enumerate(volume.get("projected", {}).get("sources", ())):
                if "serviceAccountToken" in source:
                    where = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                    errors.append(forbidden(where, "must not be specified when serviceAccountName is not set"))
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            image = container.get("image", "")
            if image != image.strip():
                refuse_image_edges(image, f"spec.{kind}[{index}]", errors)
    return errors


def _validate_create(pod: Manifest) -> list[FieldError]:
    errors = _check(pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    refused: list[FieldError] = []
    check_annotation_updates(new, old, refused)
    check_spec_update(new["spec"], old["spec"], refused)
    if not refused and changes_only_what_was_checked(new["spec"], old["spec"]):
        return []
    return _check(new) + refused


def _validate_ephemeral(new: Manifest, old: Manifest) -> list[FieldError]:
    return check_ephemeral_change(new, old, _check(new))


def _validate_resize(new: Manifest, old: Manifest) -> list[FieldError]:
    before = old.get("status", {}).get("qosClass") or qos_class(old["spec"])
    return check_resize(new, old, _check(new), keeps_class=before == qos_class(new["spec"]))


RULES: dict[str, Rules] = {
    "Pod": Rules(
        default=_default,
        default_status=_default_status,
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        validate_update=_validate_update,
        prepare_status=prepare_pod_status,
        validate_status=validate_pod_status,
        parts={
            "ephemeralcontainers": PartRules(prepare_ephemeral, _validate_ephemeral),
            "resize": PartRules(prepare_resize, _validate_resize),
        },
        spec_decides=spec_decides,
        metadata_decides=metadata_decides,
    )
}
