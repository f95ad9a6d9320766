"""The addresses and families of a service: which belong together, which stay, and what is said against them.

Pure functions over specs. They never choose an address or a port: that needs to know what others have, and is in
`service_allocation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.builtin.addresses import ip_address, is_dual_stack_pair
from allhands.api.errors import duplicate, invalid, not_supported, required

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

WITH_NODE_PORT = ("LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED = "may not change once set"


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def is_headless(spec: Manifest) -> bool:
    return spec.get("clusterIPs") == ["None"]


def needs_node_ports(spec: Manifest) -> bool:
    """Whether each of its ports gets one of every node."""
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def needs_health_port(spec: Manifest) -> bool:
    """Whether balancers ask nodes on a port of its own who has a pod of it."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def keep_allocated(spec: Manifest, before: Manifest) -> None:
    """What was given to a service stays if a client leaves it out: the same manifest can be sent again."""
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if needs_node_ports(spec) and needs_node_ports(before):
        _keep_node_ports(spec, before)
    if needs_health_port(spec) and needs_health_port(before) and before.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or before["healthCheckNodePort"]


def _keep_node_ports(spec: Manifest, before: Manifest) -> None:
    taken, had = ({port["nodePort"] for port in each.get("ports", ()) if "nodePort" in port} for each in (spec, before))
    known = {port.get("name", ""): port.get("nodePort") for port in before.get("ports", ())}
    for port in spec.get("ports", ()):
        number = known.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in taken & had:
            port["nodePort"] = number


def align_addresses(spec: Manifest, before: Manifest | None) -> None:
    """`clusterIP` is the first of `clusterIPs`; clients that know only the older field leave the list as it was."""
    first, listed = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if before is None:
        if first and not listed:
            spec["clusterIPs"] = [first]
        return
    if first != before.get("clusterIP", "") and listed == before.get("clusterIPs", []):
        if first:
            spec["clusterIPs"] = [first]
        else:
            spec.pop("clusterIPs", None)


def default_families(spec: Manifest) -> None:
    """The families of a service whose addresses are there, or of one that never has any."""
    if spec.get("type") == "ExternalName":
        return
    # Nobody knows which addresses stand behind a headless service without a selector, so it gets both families.
    any_family = spec.get("clusterIP") == "None" and not spec.get("selector") and not spec.get("ipFamilies")
    if any_family and "ipFamilyPolicy" not in spec:
        spec["ipFamilies"], spec["ipFamilyPolicy"] = ["IPv4", "IPv6"], "RequireDualStack"
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = [family_of(spec.get("clusterIP", ""))]
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def check_cluster_addresses(spec: Manifest, headless: bool, errors: list[FieldError]) -> None:
    path, first, addresses = "spec.clusterIPs", spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if first and not addresses:
        errors.append(required(path))
    elif first and addresses[0] != first:
        errors.append(invalid(path, addresses, "first value must match `clusterIP`"))
    elif addresses and not first:
        errors.append(invalid(path, addresses, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy", "SingleStack")
    if policy not in _FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    before = len(errors)
    for index, text in enumerate(addresses):
        if index == 0 and text == "None":
            if not headless:
                errors.append(invalid(path, addresses, "'None' must be the first and only value"))
            continue
        errors += [invalid(f"{path}[{index}]", text, problem) for problem in ip_address(text)]
    broken = len(errors) > before
    if len(addresses) > 2:
        errors.append(invalid(path, addresses, "may only hold up to 2 values"))
    if not broken:
        _check_families(spec, addresses, headless, errors)


def _check_families(spec: Manifest, addresses: list[str], headless: bool, errors: list[FieldError]) -> None:
    path = "spec.clusterIPs"
    if len(addresses) > 1 and not is_dual_stack_pair(addresses):
        errors.append(invalid(path, addresses, "may specify no more than one IP for each IP family"))
    if headless:
        return
    for index, (text, family) in enumerate(zip(addresses, spec.get("ipFamilies", ()), strict=False)):
        if family in _FAMILIES and (family == "IPv6") != (":" in text):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{path}[{index}]", text, detail))


def errors_of_address_change(spec: Manifest, before: Manifest) -> list[FieldError]:
    """The first address and its family stay for life; a second one may come, and go if the policy says so."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    headless, was_headless = is_headless(spec), is_headless(before)
    if headless and was_headless:
        return []
    errors = _errors_of_change(spec, before, "clusterIPs", "clusterIP")
    # Families change with headlessness, which is refused for its address.
    return errors if headless != was_headless else errors + _errors_of_change(spec, before, "ipFamilies", "ipFamily")


def _errors_of_change(spec: Manifest, before: Manifest, field: str, what: str) -> list[FieldError]:
    errors: list[FieldError] = []
    new, old = spec.get(field, []), before.get(field, [])
    if len(new) == len(old):
        for index, (value, former) in enumerate(zip(new, old, strict=True)):
            if value != former:
                place = index if field == "clusterIPs" else 0
                errors.append(invalid(f"spec.{field}[{place}]", new, _FIXED))
        return errors
    if len(new) < len(old) and not spec.get("clusterIPs"):
        errors.append(invalid(f"spec.{field}[0]", new or None, f"primary {what} can not be unset"))
    if new and old and new[0] != old[0]:
        errors.append(invalid(f"spec.{field}[0]", spec.get("clusterIPs") or None, _FIXED))
    policy = spec.get("ipFamilyPolicy")
    if len(new) == 1 and len(old) == 2 and policy != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {what}"
        errors.append(invalid("spec.ipFamilyPolicy", policy, detail))
    return errors
