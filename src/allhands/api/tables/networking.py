"""How services, their endpoints, and what lets traffic in are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import (
    NONE,
    age_of,
    at,
    first_few,
    integer_at,
    labels_text,
    list_at,
    mapping_at,
    name_of,
    or_default,
    selector_cell,
    text_at,
)
from allhands.api.tables.column import AGE, CORE, NAME, Printers, TablePrinter, described, documented
from allhands.api.tables.duration import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from allhands.api.document import Json, Manifest

_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_SHOWN_HOSTS: Final = 3


def _ingress_points(document: Manifest) -> list[str]:
    points = list_at(document, "status", "loadBalancer", "ingress")
    return sorted({text_at(point, "ip") or text_at(point, "hostname") for point in points} - {""})


def _external_ip(service: Manifest) -> str:
    kind, external = text_at(service, "spec", "type") or "ClusterIP", list_at(service, "spec", "externalIPs")
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        return ",".join([*_ingress_points(service), *external]) or "<pending>"
    return text_at(service, "spec", "externalName") if kind == "ExternalName" else UNKNOWN


def _service_port(port: Manifest) -> str:
    number, node_port = integer_at(port, "port"), integer_at(port, "nodePort")
    return f"{f'{number}:{node_port}' if node_port > 0 else number}/{text_at(port, 'protocol') or 'TCP'}"


def service_row(service: Manifest, now: datetime) -> list[Json]:
    spec = mapping_at(service, "spec")
    cluster_ips = list_at(spec, "clusterIPs") or [text_at(spec, "clusterIP")]
    return [
        name_of(service),
        text_at(spec, "type") or "ClusterIP",
        cluster_ips[0] or NONE,
        _external_ip(service),
        ",".join(_service_port(port) for port in list_at(spec, "ports")) or NONE,
        age_of(service, now),
        labels_text(at(spec, "selector")),
    ]


def _endpoint_texts(endpoints: Manifest) -> Iterator[str]:
    for subset in list_at(endpoints, "subsets"):
        addresses = [text_at(address, "ip") for address in list_at(subset, "addresses")]
        ports = list_at(subset, "ports")
        if not ports:
            yield from addresses
        for port in ports:
            for address in addresses:
                yield f"{f'[{address}]' if ':' in address else address}:{integer_at(port, 'port')}"


def endpoints_row(endpoints: Manifest, now: datetime) -> list[Json]:
    empty = "" if list_at(endpoints, "subsets") else NONE
    return [name_of(endpoints), first_few(_endpoint_texts(endpoints), empty=empty), age_of(endpoints, now)]


def endpoint_slice_row(endpoint_slice: Manifest, now: datetime) -> list[Json]:
    ports = (
        str(or_default(at(port, "port"), or_default(at(port, "name"), "*")))
        for port in list_at(endpoint_slice, "ports")
    )
    addresses = (
        address for endpoint in list_at(endpoint_slice, "endpoints") for address in list_at(endpoint, "addresses")
    )
    return [
        name_of(endpoint_slice),
        text_at(endpoint_slice, "addressType"),
        first_few(ports),
        first_few(addresses),
        age_of(endpoint_slice, now),
    ]


def _hosts(ingress: Manifest) -> str:
    """The first hosts. As in the real server, the rest are counted by rules, also by those that name no host."""
    rules = list_at(ingress, "spec", "rules")
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN_HOSTS:
            return f"{','.join(shown)} + {len(rules) - _SHOWN_HOSTS} more..."
        if host := text_at(rule, "host"):
            shown.append(host)
    return ",".join(shown) or "*"


def ingress_row(ingress: Manifest, now: datetime) -> list[Json]:
    return [
        name_of(ingress),
        or_default(at(ingress, "spec", "ingressClassName"), NONE),
        _hosts(ingress),
        ",".join(_ingress_points(ingress)),
        "80, 443" if list_at(ingress, "spec", "tls") else "80",
        age_of(ingress, now),
    ]


def ingress_class_row(ingress_class: Manifest, now: datetime) -> list[Json]:
    default = mapping_at(ingress_class, "metadata", "annotations").get(_DEFAULT_CLASS) == "true"
    reference = at(ingress_class, "spec", "parameters")
    parameters = NONE
    if reference is not None:
        group = at(reference, "apiGroup")
        kind = text_at(reference, "kind") if group is None else f"{text_at(reference, 'kind')}.{group}"
        parameters = f"{kind}/{text_at(reference, 'name')}"
    name = name_of(ingress_class) + (" (default)" if default else "")
    return [name, text_at(ingress_class, "spec", "controller"), parameters, age_of(ingress_class, now)]


def network_policy_row(policy: Manifest, now: datetime) -> list[Json]:
    return [name_of(policy), selector_cell(at(policy, "spec", "podSelector")), age_of(policy, now)]


_SERVICE: Final = CORE + "ServiceSpec"
_SLICE: Final = "io.k8s.api.discovery.v1.EndpointSlice"

PRINTERS: Final[Printers] = {
    ("", "Service"): TablePrinter(
        (
            NAME,
            documented("Type", _SERVICE, "type"),
            documented("Cluster-IP", _SERVICE, "clusterIP"),
            documented("External-IP", _SERVICE, "externalIPs"),
            documented("Port(s)", _SERVICE, "ports"),
            AGE,
            documented("Selector", _SERVICE, "selector", priority=1),
        ),
        service_row,
    ),
    ("", "Endpoints"): TablePrinter((NAME, documented("Endpoints", CORE + "Endpoints", "subsets"), AGE), endpoints_row),
    ("discovery.k8s.io", "EndpointSlice"): TablePrinter(
        (
            NAME,
            documented("AddressType", _SLICE, "addressType"),
            documented("Ports", _SLICE, "ports"),
            documented("Endpoints", _SLICE, "endpoints"),
            AGE,
        ),
        endpoint_slice_row,
    ),
    ("networking.k8s.io", "Ingress"): TablePrinter(
        (
            NAME,
            described(
                "Class", "The name of the IngressClass resource that should be used for additional configuration"
            ),
            described("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
            described("Address", "Address is a list containing ingress points for the load-balancer"),
            described("Ports", "Ports of TLS configurations that open"),
            AGE,
        ),
        ingress_row,
    ),
    ("networking.k8s.io", "IngressClass"): TablePrinter(
        (
            NAME,
            described("Controller", "Controller that is responsible for handling this class"),
            described("Parameters", "A reference to a resource with additional parameters"),
            AGE,
        ),
        ingress_class_row,
    ),
    ("networking.k8s.io", "NetworkPolicy"): TablePrinter(
        (NAME, documented("Pod-Selector", "io.k8s.api.networking.v1.NetworkPolicySpec", "podSelector"), AGE),
        network_policy_row,
    ),
}
