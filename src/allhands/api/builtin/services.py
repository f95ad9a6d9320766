"""Rules of Service. Addresses and node ports are given out by the store (`service_allocation` says to whom), never
here: a service without them passes, and an update that leaves them out keeps the ones it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.addresses import cidr, ip_address
from allhands.api.builtin.endpoints import check_protocol, unusable_for_endpoints
from allhands.api.builtin.gostructs import go_struct
from allhands.api.builtin.probes import check_port
from allhands.api.builtin.service_addresses import (
    WITH_NODE_PORT,
    align_addresses,
    check_cluster_addresses,
    default_families,
    errors_of_address_change,
    keep_allocated,
    needs_health_port,
)
from allhands.api.errors import duplicate, forbidden, invalid, not_supported, required
from allhands.api.metadata import validate_labels
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_ADDRESS = ("ClusterIP", "LoadBalancer", "NodePort")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"
_AFFINITY_TIMEOUT_SECONDS = 10800
_MAX_AFFINITY_SECONDS = 86400


def _is_reachable_from_outside(spec: Manifest) -> bool:
    kind = spec.get("type")
    return kind in WITH_NODE_PORT or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _default(service: Manifest) -> None:
    spec = service.setdefault("spec", {})
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP" and "timeoutSeconds" not in spec.get("sessionAffinityConfig", {}).get("clientIP", {}):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_TIMEOUT_SECONDS}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if _is_reachable_from_outside(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in _WITH_ADDRESS:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _prepare_create(service: Manifest) -> None:
    align_addresses(service["spec"], None)
    default_families(service["spec"])
    _hide_inner_policy(service["spec"])


def _prepare_update(new: Manifest, old: Manifest) -> None:
    spec, before = new["spec"], old.get("spec", {})
    keep_allocated(spec, before)
    align_addresses(spec, before)
    _drop_what_no_longer_applies(spec, before)
    default_families(spec)
    _hide_inner_policy(spec)


def _hide_inner_policy(spec: Manifest) -> None:
    """A name alone has no traffic inside the cluster; a policy of that, which may be left from before, is not shown."""
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in _TRAFFIC_POLICIES:
        del spec["internalTrafficPolicy"]


def _drop_what_no_longer_applies(spec: Manifest, before: Manifest) -> None:
    """Who changes the type need not know which fields the server had filled in for the old one."""
    if before.get("type") in _WITH_ADDRESS and spec.get("type") == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if before.get("type") in WITH_NODE_PORT and spec.get("type") not in WITH_NODE_PORT:
        ports, former = ([port.get("nodePort") for port in each.get("ports", ())] for each in (spec, before))
        if ports == former:
            for port in spec.get("ports", ()):
                port.pop("nodePort", None)
    same_health_port = spec.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    if needs_health_port(before) and not needs_health_port(spec) and same_health_port:
        spec.pop("healthCheckNodePort", None)
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    unchanged = spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy")
    if unchanged and _is_reachable_from_outside(before) and not _is_reachable_from_outside(spec):
        spec.pop("externalTrafficPolicy", None)


def _validate(service: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = service["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports", [])
    headless = spec.get("clusterIPs") == ["None"]
    if kind != "ExternalName":
        # Without sound addresses the server cannot go on to allocate, so it says nothing else.
        check_cluster_addresses(spec, headless, errors)
        if errors:
            return errors
    if not ports and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in WITH_NODE_PORT and headless:
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        _check_external_name(spec, errors)
    _check_ports(ports, errors)
    if "selector" in spec:
        errors += validate_labels(spec["selector"], "spec.selector")
    _check_affinity(spec, errors)
    for index, text in enumerate(spec.get("externalIPs", ())):
        where = f"spec.externalIPs[{index}]"
        problems = ip_address(text) or unusable_for_endpoints(text)
        errors += [invalid(where, text, problem) for problem in problems]
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES) if kind else required("spec.type"))
    _check_port_numbers(ports, kind, errors)
    _check_load_balancer(spec, kind, errors)
    _check_traffic(spec, kind, errors)
    return errors


def _check_external_name(spec: Manifest, errors: list[FieldError]) -> None:
    errors += [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        errors.append(required("spec.externalName"))
    errors += [invalid("spec.externalName", name, text) for text in names.dns1123_subdomain(name) if name]


def _check_ports(ports: list[Manifest], errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors += [invalid(f"{where}.name", name, text) for text in names.dns1123_label(name)]
            if name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{where}.name"))
        number = port.get("port", 0)
        errors += [invalid(f"{where}.port", number, text) for text in names.port_number(number)]
        check_protocol(port, where, errors)
        check_port(port.get("targetPort", 0), f"{where}.targetPort", errors)
        protocol = port.get("appProtocol")
        if protocol is not None:
            errors += [invalid(f"{where}.appProtocol", protocol, text) for text in names.qualified_name(protocol)]


def _check_affinity(spec: Manifest, errors: list[FieldError]) -> None:
    affinity, path = spec.get("sessionAffinity", ""), "spec.sessionAffinity"
    if affinity not in ("ClientIP", "None"):
        errors.append(not_supported(path, affinity, ("ClientIP", "None")) if affinity else required(path))
    if affinity == "ClientIP":
        seconds = spec.get("sessionAffinityConfig", {}).get("clientIP", {}).get("timeoutSeconds", 0)
        if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            errors.append(invalid(where, seconds, detail))


def _check_port_numbers(ports: list[Manifest], kind: str, errors: list[FieldError]) -> None:
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                errors.append(forbidden(f"spec.ports[{index}].nodePort", detail))
    seen: set[tuple[str, str, int]] = set()
    for index, port in enumerate(ports):
        number = port.get("nodePort", 0)
        key = ("nodePort", port.get("protocol", ""), number)
        if number and key in seen:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", number))
        seen.add(key)
    for index, port in enumerate(ports):
        protocol, number = port.get("protocol", ""), port.get("port", 0)
        if ("port", protocol, number) in seen:
            shown = go_struct(Name="", Protocol=protocol, AppProtocol=None, Port=number, TargetPort=0, NodePort=0)
            errors.append(duplicate(f"spec.ports[{index}]", shown))
        seen.add(("port", protocol, number))


def _check_load_balancer(spec: Manifest, kind: str, errors: list[FieldError]) -> None:
    ranges = spec.get("loadBalancerSourceRanges", ())
    if ranges and kind != "LoadBalancer":
        errors.append(forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCERS))
    for index, text in enumerate(ranges):
        where = f"spec.LoadBalancerSourceRanges[{index}]"
        errors += [invalid(where, text.strip(), problem) for problem in cidr(text.strip())]
    allocates = spec.get("allocateLoadBalancerNodePorts")
    if allocates is not None and kind != "LoadBalancer":
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCERS))
    if allocates is None and kind == "LoadBalancer":
        errors.append(required("allocateLoadBalancerNodePorts"))
    _check_balancer_class(spec.get("loadBalancerClass"), kind, errors)


def _check_balancer_class(name: str | None, kind: str, errors: list[FieldError]) -> None:
    if name is not None and kind == "LoadBalancer":
        errors += [invalid("spec.loadBalancerClass", name, text) for text in names.qualified_name(name)]
    elif name is not None:
        errors.append(forbidden("spec.loadBalancerClass", _ONLY_BALANCERS))


def _check_traffic(spec: Manifest, kind: str, errors: list[FieldError]) -> None:
    outside, path = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    if not _is_reachable_from_outside(spec):
        if outside:
            errors.append(invalid(path, outside, "may only be set for externally-accessible services"))
    elif outside not in _TRAFFIC_POLICIES:
        errors.append(not_supported(path, outside, _TRAFFIC_POLICIES) if outside else required(path))
    port, path = spec.get("healthCheckNodePort", 0), "spec.healthCheckNodePort"
    if kind != "LoadBalancer" or outside != "Local":
        if port:
            detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid(path, port, detail))
    elif port:
        # The store gives out the number, so none is not an error here.
        errors += [invalid(path, port, text) for text in names.port_number(port)]
    inside, path = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if inside is None and kind in _WITH_ADDRESS:
        errors.append(required(path))
    if inside is not None and inside not in _TRAFFIC_POLICIES:
        errors.append(not_supported(path, inside, _TRAFFIC_POLICIES))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, before = new["spec"], old.get("spec", {})
    if spec.get("type") != "ExternalName":
        check_cluster_addresses(spec, spec.get("clusterIPs") == ["None"], errors)
        if errors:
            return errors
    errors += errors_of_address_change(spec, before)
    if spec.get("type") == before.get("type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
    # The server looks at the class here, and again with everything else.
    _check_balancer_class(spec.get("loadBalancerClass"), spec.get("type", ""), errors)
    same_health_port = spec.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    if needs_health_port(before) and needs_health_port(spec) and not same_health_port:
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors + _validate(new)


RULES: dict[str, Rules] = {
    "Service": Rules(
        default=_default,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate_create=_validate,
        validate_update=_validate_update,
    )
}
