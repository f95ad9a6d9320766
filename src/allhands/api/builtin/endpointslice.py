"""Rules of EndpointSlice (discovery.k8s.io/v1)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from allhands.api.builtin.addresses import ip_address
from allhands.api.builtin.fieldchecks import immutable
from allhands.api.errors import FieldError, duplicate, go_quote, invalid, not_supported, required, too_many
from allhands.api.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MAX_PORTS: Final = 20_000
_MAX_ENDPOINTS: Final = 1_000
_MAX_ADDRESSES: Final = 100
_MAX_HINTS: Final = 8


def default_endpoint_slice(endpoint_slice: Manifest) -> None:
    for port in endpoint_slice.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def prepare_endpoint_slice(endpoint_slice: Manifest) -> None:
    for endpoint in endpoint_slice.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def prepare_endpoint_slice_update(new: Manifest, old: Manifest) -> None:
    if new.get("endpoints") != old.get("endpoints"):
        prepare_endpoint_slice(new)


def validate_endpoint_slice(endpoint_slice: Manifest) -> list[FieldError]:
    return _head_errors(endpoint_slice) + _endpoints_errors(endpoint_slice)


def validate_endpoint_slice_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _head_errors(new)
    if new.get("endpoints") != old.get("endpoints"):
        errors += _endpoints_errors(new)
    return errors + immutable(new, old, "addressType", "", absent="")


def _head_errors(endpoint_slice: Manifest) -> list[FieldError]:
    errors = []
    address_type = endpoint_slice.get("addressType", "")
    if not address_type:
        errors.append(required("addressType"))
    elif address_type not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", address_type, _ADDRESS_TYPES))
    ports = endpoint_slice.get("ports") or ()
    if len(ports) > _MAX_PORTS:
        return [*errors, too_many("ports", len(ports), _MAX_PORTS)]
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _port_errors(port, f"ports[{index}]", names)
    return errors


def _port_errors(port: Manifest, path: str, names: set[str]) -> list[FieldError]:
    name, protocol = port.get("name", ""), port.get("protocol", "")
    errors = [invalid(f"{path}.name", name, text) for text in dns1123_label(name)] if name else []
    if name in names:
        errors.append(duplicate(f"{path}.name", name))
    names.add(name)
    if protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if "appProtocol" in port:
        errors += [
            invalid(f"{path}.appProtocol", port["appProtocol"], text) for text in qualified_name(port["appProtocol"])
        ]
    return errors


def _endpoints_errors(endpoint_slice: Manifest) -> list[FieldError]:
    endpoints = endpoint_slice.get("endpoints") or ()
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    address_type = endpoint_slice.get("addressType", "")
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        errors += _endpoint_errors(endpoint, f"endpoints[{index}]", address_type)
    return errors


def _endpoint_errors(endpoint: Manifest, path: str, address_type: str) -> list[FieldError]:
    errors = []
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors.append(too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES))
    for index, address in enumerate(addresses):
        if address_type in ("IPv4", "IPv6"):
            errors += _ip_errors(address, address_type, f"{path}.addresses", index)
        elif address_type == "FQDN":
            errors += _domain_errors(address, f"{path}.addresses[{index}]")
    node = endpoint.get("nodeName")
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, text) for text in dns1123_subdomain(node)]
    hostname = endpoint.get("hostname")
    if hostname is not None:
        errors += [invalid(f"{path}.hostname", hostname, text) for text in dns1123_label(hostname)]
    hints = endpoint.get("hints")
    return errors + _hints_errors(hints, f"{path}.hints") if hints else errors


def _ip_errors(address: str, address_type: str, path: str, index: int) -> list[FieldError]:
    where = f"{path}[{index}]"
    texts = ip_address(address)
    if not texts and address_type == "IPv6" and str(ipaddress.ip_address(address)) != address:
        texts = [f"must be in canonical form ({go_quote(str(ipaddress.ip_address(address)))})"]
    if texts:
        return [invalid(where, address, text) for text in texts]
    ip = ipaddress.ip_address(address)
    errors = []
    if f"IPv{ip.version}" != address_type:
        errors.append(invalid(path, address, f"must be an {address_type} address"))
    if ip.is_unspecified:
        errors.append(invalid(where, address, f"may not be unspecified ({address})"))
    if ip.is_loopback:
        errors.append(invalid(where, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if ip.is_link_local:
        errors.append(invalid(where, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if ip in _LINK_LOCAL_MULTICAST[ip.version]:
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(where, address, why))
    return errors


_LINK_LOCAL_MULTICAST: Final[dict[int, ipaddress.IPv4Network | ipaddress.IPv6Network]] = {
    4: ipaddress.IPv4Network("224.0.0.0/24"),
    6: ipaddress.IPv6Network("ff02::/16"),
}


def _domain_errors(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    name = name.removesuffix(".")
    if texts := dns1123_subdomain(name):
        return [invalid(path, name, ",".join(texts))]
    if "." not in name:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in name.split("."):
        if texts := dns1123_label(label):
            return [invalid(path, label, ",".join(texts))]
    return []


def _hints_errors(hints: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, grammar in _HINTS:
        entries = hints.get(field) or ()
        if len(entries) > _MAX_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(entries), _MAX_HINTS)]
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            name, where = entry.get("name", ""), f"{path}.{field}[{index}].name"
            if name in seen:
                errors.append(duplicate(where, name))
            seen.add(name)
            errors += [invalid(where, name, text) for text in grammar(name)]
    return errors


_HINTS: Final[tuple[tuple[str, Callable[[str], list[str]]], ...]] = (
    ("forZones", label_value),
    ("forNodes", dns1123_subdomain),
)

RULES: Final = {
    "EndpointSlice": Rules(
        default=default_endpoint_slice,
        prepare_create=prepare_endpoint_slice,
        validate_create=validate_endpoint_slice,
        prepare_update=prepare_endpoint_slice_update,
        validate_update=validate_endpoint_slice_update,
    ),
}
