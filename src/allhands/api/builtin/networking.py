"""Rules of NetworkPolicy (networking.k8s.io/v1): which pods may speak to which. Nothing here enforces it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from allhands.api.builtin.addresses import cidr
from allhands.api.builtin.probes import check_port
from allhands.api.errors import FieldError, forbidden, invalid, not_supported, required
from allhands.api.names import port_number
from allhands.api.rules import Rules
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


def default_network_policy(policy: Manifest) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_TYPES) if spec.get("egress") else [_TYPES[0]]
    for direction, _ in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def validate_network_policy(policy: Manifest) -> list[FieldError]:
    return _errors(policy, frozenset())


def validate_network_policy_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Blocks that were there before stay allowed, however they are written."""
    return _errors(new, frozenset(_blocks(old)))


def _blocks(policy: Manifest) -> Iterator[str]:
    for direction, peers in _DIRECTIONS:
        for rule in policy.get("spec", {}).get(direction) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                yield block.get("cidr", "")
                yield from block.get("except") or ()


def _errors(policy: Manifest, known: frozenset[str]) -> list[FieldError]:
    spec: Manifest = policy.get("spec", {})
    errors = validate_label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                errors += _port_errors(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                errors += _peer_errors(peer, f"{path}.{peers}[{number}]", known)
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    unknown = ((index, it) for index, it in enumerate(types) if it not in _TYPES)
    return [*errors, *(not_supported(f"spec.policyTypes[{index}]", it, _TYPES) for index, it in unknown)]


def _port_errors(port: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    protocol = port.get("protocol")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, str) and last is not None:
        errors.append(invalid(f"{path}.endPort", last, "may not be specified when `port` is non-numeric"))
    if first is not None:
        check_port(first, f"{path}.port", errors)
    elif last is not None:
        errors.append(invalid(f"{path}.endPort", last, "may not be specified when `port` is not specified"))
    if isinstance(first, int) and last is not None:
        if last < first:
            errors.append(invalid(f"{path}.endPort", first, "must be greater than or equal to `port`"))
        errors += [invalid(f"{path}.endPort", last, text) for text in port_number(last)]
    return errors


def _peer_errors(peer: Manifest, path: str, known: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("podSelector", "namespaceSelector"):
        if field in peer:
            errors += validate_label_selector(peer[field], f"{path}.{field}")
    if "ipBlock" in peer:
        errors += _block_errors(peer["ipBlock"], f"{path}.ipBlock", known)
    given = sum(field in peer for field in ("podSelector", "namespaceSelector", "ipBlock"))
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif given > 1 and "ipBlock" in peer:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block_errors(block: Manifest, path: str, known: frozenset[str]) -> list[FieldError]:
    text = block.get("cidr", "")
    if not text:
        return [required(f"{path}.cidr")]
    errors = [] if text in known else [invalid(f"{path}.cidr", text, fault) for fault in cidr(text)]
    around = _network(text)
    if around is None:
        return errors
    for index, inner_text in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        if inner_text not in known:
            errors += [invalid(where, inner_text, fault) for fault in cidr(inner_text)]
        inner = _network(inner_text)
        if inner is None:
            continue
        is_inside = inner.version == around.version and inner.network_address in around
        if not is_inside or around.prefixlen >= inner.prefixlen:
            errors.append(invalid(where, inner_text, "must be a strict subset of `cidr`"))
    return errors


def _network(text: str) -> Any:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


RULES: Final = {
    "NetworkPolicy": Rules(
        default=default_network_policy,
        validate_create=validate_network_policy,
        validate_update=validate_network_policy_update,
    ),
}
