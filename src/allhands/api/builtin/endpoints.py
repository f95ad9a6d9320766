"""Rules of Endpoints, the addresses behind a service, and the checks of addresses and ports that services share."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.addresses import ip_address
from allhands.api.errors import invalid, not_supported, required
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def check_protocol(port: Manifest, path: str, errors: list[FieldError]) -> None:
    protocol = port.get("protocol", "")
    if protocol not in _PROTOCOLS:
        where = f"{path}.protocol"
        errors.append(not_supported(where, protocol, _PROTOCOLS) if protocol else required(where))


def unusable_for_endpoints(text: str) -> list[str]:
    address = ipaddress.ip_address(text)
    if address.is_unspecified:
        return [f"may not be unspecified ({text})"]
    if address.is_loopback:
        return ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]
    if address.is_link_local:
        return ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]
    local = ipaddress.ip_network("224.0.0.0/24") if address.version == 4 else ipaddress.ip_network("ff02::/16")
    if address in local:
        return ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]
    return []


def _default_endpoints(endpoints: Manifest) -> None:
    for subset in endpoints.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def _validate_endpoints(endpoints: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(endpoints.get("subsets", ())):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(field, ())):
                _check_endpoint_address(address, f"{path}.{field}[{position}]", errors)
        ports = subset.get("ports", ())
        for position, port in enumerate(ports):
            _check_endpoint_port(port, len(ports) > 1, f"{path}.ports[{position}]", errors)
    return errors


def _check_endpoint_address(address: Manifest, path: str, errors: list[FieldError]) -> None:
    text = address.get("ip", "")
    problems = ip_address(text)
    errors += [invalid(f"{path}.ip", text, problem) for problem in problems]
    for field, check in (("hostname", names.dns1123_label), ("nodeName", names.dns1123_subdomain)):
        name = address.get(field)
        if name is not None:
            errors += [invalid(f"{path}.{field}", name, problem) for problem in check(name)]
    also = ["must be a valid IP address"] if problems else unusable_for_endpoints(text)
    errors += [invalid(f"{path}.ip", text, problem) for problem in also]


def _check_endpoint_port(port: Manifest, needs_name: bool, path: str, errors: list[FieldError]) -> None:
    name, number = port.get("name", ""), port.get("port", 0)
    if name:
        errors += [invalid(f"{path}.name", name, text) for text in names.dns1123_label(name)]
    elif needs_name:
        errors.append(required(f"{path}.name"))
    errors += [invalid(f"{path}.port", number, text) for text in names.port_number(number)]
    check_protocol(port, path, errors)
    protocol = port.get("appProtocol")
    if protocol is not None:
        errors += [invalid(f"{path}.appProtocol", protocol, text) for text in names.qualified_name(protocol)]


def _validate_endpoints_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return [] if new.get("subsets") == old.get("subsets") else _validate_endpoints(new)


RULES: dict[str, Rules] = {
    "Endpoints": Rules(
        default=_default_endpoints,
        validate_create=_validate_endpoints,
        validate_update=_validate_endpoints_update,
    )
}
