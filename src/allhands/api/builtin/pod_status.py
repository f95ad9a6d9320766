"""What may be reported about a pod through its status: containers that ended for good stay ended, the class of service
never changes, addresses are addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.addresses import ip_address, is_dual_stack_pair
from allhands.api.builtin.pod_updates import check_annotation_updates
from allhands.api.errors import duplicate, forbidden, invalid

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_KNOWN_CONDITIONS = _SYSTEM_CONDITIONS | {"ContainersReady", "PodReadyToStartContainers", "DisruptionTarget"}
"""Types that are written all the time, and whose names are fine."""
_NOT_NEGATIVE = "must be a non-negative integer"


def prepare_pod_status(new: Manifest, old: Manifest) -> None:
    """Nobody can clear the class of service or the generations that were seen."""
    status, before = new.setdefault("status", {}), old.get("status", {})
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field) and field in before:
            status[field] = before[field]
    seen: dict[str, list[int]] = {}
    for condition in before.get("conditions", ()):
        seen.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions", ()):
        generations = seen.get(condition.get("type", ""))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def validate_pod_status(new: Manifest, old: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    status, before = new.get("status", {}), old.get("status", {})
    if new["metadata"].get("annotations") or old["metadata"].get("annotations"):
        check_annotation_updates(new, old, errors)
    _check_conditions(status.get("conditions", ()), errors)
    _check_nomination(status.get("nominatedNodeName"), before.get("nominatedNodeName"), old["spec"], errors)
    if status.get("observedGeneration", 0) < 0:
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    if status.get("qosClass", "") != before.get("qosClass", ""):
        errors.append(invalid("status.qosClass", status.get("qosClass", ""), "field is immutable"))
    for field, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        if field in before:
            _check_transitions(status.get(field, ()), before[field], old["spec"], containers, field, errors)
    if "ephemeralContainerStatuses" in before:
        field = "ephemeralContainerStatuses"
        _check_transitions(status.get(field, ()), before[field], old["spec"], "", field, errors)
    if "resourceClaimStatuses" in status:
        _check_claim_statuses(status["resourceClaimStatuses"], new["spec"], errors)
    if "podIPs" in status:
        _check_addresses(status["podIPs"], before.get("podIPs", ()), "status.podIPs", errors)
    if "hostIPs" in status:
        first = status["hostIPs"][0].get("ip", "") if status["hostIPs"] else ""
        if status["hostIPs"] and status.get("hostIP", "") != first:
            errors.append(invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
        _check_addresses(status["hostIPs"], before.get("hostIPs", ()), "status.hostIPs", errors)
    return errors


def _check_conditions(conditions: list[Manifest], errors: list[FieldError]) -> None:
    for index, condition in enumerate(conditions):
        generation, kind = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            where = f"status.conditions[{index}].observedGeneration"
            errors.append(invalid(where, generation, _NOT_NEGATIVE))
        if kind not in _KNOWN_CONDITIONS:
            where = f"status.conditions[{index}].Type"
            errors += [invalid(where, kind, text) for text in names.qualified_name(kind)]


def _check_nomination(node: str | None, former: str | None, spec: Manifest, errors: list[FieldError]) -> None:
    if not node or node == former:
        return
    path = "status.nominatedNodeName"
    errors += [invalid(path, node, text) for text in names.dns1123_subdomain(node)]
    if spec.get("nodeName"):
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))


def _check_transitions(
    new: list[Manifest], old: list[Manifest], spec: Manifest, kind: str, field: str, errors: list[FieldError]
) -> None:
    """`kind` names the containers that may come back; empty means that none may."""
    if kind and _anything_may_restart(spec):
        return
    for index, status in enumerate(old):
        ended = status.get("state", {}).get("terminated")
        if ended is None:
            continue
        later = next((each for each in new if each.get("name") == status.get("name")), None)
        if later is None or "terminated" in later.get("state", {}):
            continue
        container = next((each for each in spec.get(kind, ()) if each.get("name") == status.get("name")), None)
        if container is None or not _may_restart(container, spec, ended.get("exitCode", 0)):
            errors.append(
                forbidden(f"status.{field}[{index}].state", "may not be transitioned to non-terminated state")
            )


def _anything_may_restart(spec: Manifest) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("initContainers", "containers")
        for container in spec.get(kind, ())
        for rule in container.get("restartPolicyRules", ())
    )


def _may_restart(container: Manifest, spec: Manifest, exit_code: int) -> bool:
    policy = container.get("restartPolicy")
    for rule in container.get("restartPolicyRules", ()) if policy is not None else ():
        codes = rule.get("exitCodes", {})
        if (exit_code in codes.get("values", ())) == (codes.get("operator") == "In"):
            return True
    policy = policy or spec.get("restartPolicy")
    return policy not in ("OnFailure", "Never") or (policy == "OnFailure" and exit_code != 0)


def _check_claim_statuses(statuses: list[Manifest], spec: Manifest, errors: list[FieldError]) -> None:
    known = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{path}.name", name, detail))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors += [invalid(f"{path}.resourceClaimName", claim, text) for text in names.dns1123_subdomain(claim)]


def _check_addresses(new: list[Manifest], old: list[Manifest], path: str, errors: list[FieldError]) -> None:
    known = {address.get("ip") for address in old}
    texts = [address.get("ip", "") for address in new]
    for index, text in enumerate(texts):
        if text not in known:
            errors += [invalid(f"{path}[{index}]", text, problem) for problem in ip_address(text)]
    if len(texts) > 1 and (len(texts) > 2 or not is_dual_stack_pair(texts)):
        shown = [{"IP": text} for text in texts]
        errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
