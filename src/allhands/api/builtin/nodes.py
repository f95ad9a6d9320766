"""Rules of Node. Unlike most kinds, a node brings its own status when it is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.builtin.addresses import cidr, is_dual_stack_pair
from allhands.api.builtin.gostructs import go_struct
from allhands.api.builtin.resource_lists import check_amount, round_to_milli
from allhands.api.builtin.tolerations import check_taints
from allhands.api.errors import duplicate, forbidden, invalid
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError


def _default(node: Manifest) -> None:
    status, spec = node.get("status"), node.get("spec")
    if status:
        capacity = status.get("capacity")
        if capacity and "allocatable" not in status:
            status["allocatable"] = dict(capacity)
        round_to_milli(capacity)
        round_to_milli(status.get("allocatable"))
    if spec:
        _align_pod_ranges(spec)


def _align_pod_ranges(spec: Manifest) -> None:
    """`podCIDR` is the first of `podCIDRs`; where they disagree, the older field wins."""
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def _prepare_create(node: Manifest) -> None:
    node.get("spec", {}).pop("configSource", None)
    node.get("status", {}).pop("config", None)


def _prepare_update(new: Manifest, old: Manifest) -> None:
    if "configSource" not in old.get("spec", {}):
        new.get("spec", {}).pop("configSource", None)


def _prepare_status(new: Manifest, old: Manifest) -> None:
    if "config" not in old.get("status", {}):
        new.get("status", {}).pop("config", None)


def _check_resources(node: Manifest, errors: list[FieldError]) -> None:
    for field in ("capacity", "allocatable"):
        for name, text in node.get("status", {}).get(field, {}).items():
            check_amount(name, text, f"status.{field}.{name}", errors)


def _check_declared_features(node: Manifest, errors: list[FieldError]) -> None:
    features = node.get("status", {}).get("declaredFeatures", [])
    for index, feature in enumerate(features[1:], start=1):
        if feature == features[index - 1]:
            errors.append(duplicate(f"status.declaredFeatures[{index}]", feature))
        elif feature < features[index - 1]:
            detail = "list must be sorted alphabetically"
            errors.append(invalid(f"status.declaredFeatures[{index}]", feature, detail))


def _validate_create(node: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, status = node.get("spec", {}), node.get("status", {})
    if "taints" in spec:
        # The path lacks `spec`: so does the server's.
        check_taints(spec["taints"], "metadata.taints", errors)
    _check_resources(node, errors)
    swap = status.get("nodeInfo", {}).get("swap", {}).get("capacity", 1)
    if swap <= 0:
        errors.append(invalid("metadata.nodeSwapStatus.capacity", swap, "must be greater than zero"))
    _check_declared_features(node, errors)
    ranges = spec.get("podCIDRs", [])
    for index, text in enumerate(ranges):
        errors += [invalid(f"spec.podCIDRs[{index}]", text, problem) for problem in cidr(text)]
    if len(ranges) > 1 and (len(ranges) > 2 or not is_dual_stack_pair(ranges)):
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", ranges, detail))
    return errors


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return _validate_create(new) + _validate_change(new, old)


def _validate_change(new: Manifest, old: Manifest) -> list[FieldError]:
    """What is asked of every update, also of the status alone."""
    errors: list[FieldError] = []
    _check_resources(new, errors)
    _check_declared_features(new, errors)
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(new.get("status", {}).get("addresses", ())):
        key = (address.get("type", ""), address.get("address", ""))
        if key in seen:
            shown = go_struct(Type=key[0], Address=key[1])
            errors.append(duplicate(f"status.addresses[{index}]", shown))
        seen.add(key)
    spec, before = new.get("spec", {}), old.get("spec", {})
    _check_pod_ranges(spec.get("podCIDRs", []), before.get("podCIDRs", []), errors)
    if before.get("providerID") and before["providerID"] != spec.get("providerID", ""):
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", detail))
    if "taints" in spec:
        check_taints(spec["taints"], "metadata.taints", errors)
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _check_pod_ranges(new: list[str], old: list[str], errors: list[FieldError]) -> None:
    if not old or new == old:
        return
    changes = 1 if len(new) != len(old) else sum(a != b for a, b in zip(new, old, strict=True))
    detail = 'node updates may not change podCIDR except from "" to valid'
    errors += [forbidden("spec.podCIDRs", detail)] * changes


RULES: dict[str, Rules] = {
    "Node": Rules(
        default=_default,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        prepare_status=_prepare_status,
        validate_create=_validate_create,
        validate_update=_validate_update,
        validate_status=_validate_change,
    )
}
