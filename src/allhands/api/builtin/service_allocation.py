"""Which addresses and node ports a service gets: those it asks for, those it has, or any that are free.

The order of the steps and the words of refusals are the real server's. What is free is asked of an `Offer`; nothing is
kept here, and nothing is taken until the service that shows it is stored. The cluster has IPv4 addresses only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from allhands.api.builtin.service_addresses import (
    WITH_NODE_PORT,
    align_addresses,
    check_cluster_addresses,
    family_of,
    is_headless,
    keep_allocated,
    needs_health_port,
    needs_node_ports,
)
from allhands.api.errors import FieldError, StatusError, invalid, invalid_object

if TYPE_CHECKING:
    from allhands.api.document import Manifest

FAMILY = "IPv4"
"""The one that services of this cluster have."""


class Offer(Protocol):
    """What can be given to one service in one write. It remembers what it gave, so that nothing comes twice."""

    def address(self) -> str | None:
        """Any that is free; none if all are taken."""

    def refusal_of_address(self, address: str) -> str:
        """Why this one cannot be had; nothing if it is given."""

    def port(self) -> int | None: ...

    def refusal_of_port(self, number: int) -> str: ...


def allocate(new: Manifest, old: Manifest | None, offer: Offer) -> None:
    """Gives a new service, or one that changes, what it needs."""
    spec, before = new["spec"], None if old is None else old["spec"]
    if before is not None:
        keep_allocated(spec, before)
    align_addresses(spec, before)
    if not _stays_as_preferred(spec, before):
        _settle_families(new, before)
        _give_addresses(new, before, offer)
    if spec.get("type") in WITH_NODE_PORT:
        if before is None:
            _give_first_ports(new, offer)
        else:
            _give_ports(new, before, offer)
    if needs_health_port(spec) and not (before is not None and needs_health_port(before)):
        _give_health_port(spec, offer)


def _stays_as_preferred(spec: Manifest, before: Manifest | None) -> bool:
    """A service that would like both families keeps the ones it got, whatever the cluster has by now."""
    return (
        before is not None
        and spec.get("type") == before.get("type")
        and spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == "PreferDualStack"
        and spec.get("clusterIPs", []) == before.get("clusterIPs", [])
        and spec.get("ipFamilies", []) == before.get("ipFamilies", [])
    )


def _settle_families(service: Manifest, before: Manifest | None) -> None:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    any_family = spec.get("clusterIP") == "None" and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        former = (before or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = former or ("RequireDualStack" if any_family else "SingleStack")
    errors: list[FieldError] = []
    check_cluster_addresses(spec, is_headless(spec), errors)
    _refuse(service, errors)
    if before is not None:
        _check_reduction(spec, before, errors)
    _check_policy(spec, errors)
    _infer_families(spec, errors)
    _refuse(service, errors)
    if any_family:
        # Nobody knows which addresses stand behind it, so it may have families that the cluster has not.
        families = spec.get("ipFamilies") or [FAMILY]
        if len(families) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
            families = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]
        spec["ipFamilies"] = families
        return
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", "RequireDualStack", detail))
    errors += [
        invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies", ()))
        if family != FAMILY
    ]
    _refuse(service, errors)
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = [FAMILY]


def _check_reduction(spec: Manifest, before: Manifest, errors: list[FieldError]) -> None:
    """Who has two of something and wants one says so by the policy."""
    for field, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        wanted, had = spec.get(field, []), before.get(field, [])
        if spec["ipFamilyPolicy"] == "SingleStack":
            if wanted == had and len(wanted) > 1:
                spec[field] = wanted[:1]
        elif wanted and len(wanted) < len(had):
            detail = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], detail))


def _check_policy(spec: Manifest, errors: list[FieldError]) -> None:
    for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        if spec["ipFamilyPolicy"] == "SingleStack" and len(spec.get(field, ())) == 2:
            detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            errors.append(invalid("spec.ipFamilyPolicy", "SingleStack", detail))


def _infer_families(spec: Manifest, errors: list[FieldError]) -> None:
    addresses = spec.get("clusterIPs", [])
    for index, address in enumerate(addresses):
        if address == "None":
            break
        if index < len(spec.get("ipFamilies", ())):
            continue
        family = family_of(address)
        if family == FAMILY:
            spec["ipFamilies"] = [*spec.get("ipFamilies", ()), family]
        else:
            errors.append(
                invalid(f"spec.clusterIPs[{index}]", addresses, f"{family} is not configured on this cluster")
            )


def _give_addresses(service: Manifest, before: Manifest | None, offer: Offer) -> None:
    spec = service["spec"]
    if spec.get("type") == "ExternalName" or is_headless(spec):
        return
    if before is not None and before.get("clusterIPs"):
        return  # validation says what of it may not change
    wanted = spec.get("clusterIPs", [])
    if wanted:
        why = offer.refusal_of_address(wanted[0])
        if why:
            detail = f"failed to allocate IP {wanted[0]}: {why}"
            _refuse(service, [invalid("spec.clusterIPs", wanted, detail)])
        return
    address = offer.address()
    if address is None:
        name = service["metadata"].get("name", "")
        raise _internal(f'failed to allocate a serviceIP for Service "{name}": range is full')
    spec["clusterIP"], spec["clusterIPs"] = address, [address]


def _give_first_ports(service: Manifest, offer: Offer) -> None:
    """Of a new service. Ports of one number, such as 53 over TCP and UDP, share a port of the nodes."""
    spec, given = service["spec"], dict[int, int]()
    ports = spec.get("ports", ())
    for index, port in enumerate(ports):
        number, wanted = port.get("port", 0), port.get("nodePort", 0)
        if not wanted and not needs_node_ports(spec):
            continue
        shared = given.get(number)
        if shared is None:
            asked = (each["nodePort"] for each in ports if each.get("port", 0) == number and each.get("nodePort"))
            first = next(asked, 0)
            if first:
                _claim_port(service, index, first, offer)
            port["nodePort"] = given[number] = first or _any_port(offer)
        elif not wanted:
            port["nodePort"] = shared
        elif wanted != shared:
            _claim_port(service, index, wanted, offer)


def _give_ports(service: Manifest, before: Manifest, offer: Offer) -> None:
    """Of a service that changes: what it had is its own, whichever port had it. An ExternalName has none: what it shows
    may be somebody else's by now (there the real server gives a port twice)."""
    spec = service["spec"]
    had_ports = before.get("type") in WITH_NODE_PORT
    own = {port["nodePort"] for port in before.get("ports", ()) if port.get("nodePort") and had_ports}
    shown: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports", ())):
        wanted = port.get("nodePort", 0)
        if not wanted and not needs_node_ports(spec):
            continue
        if not wanted:
            port["nodePort"] = _any_port(offer)
        elif wanted not in own:
            _claim_port(service, index, wanted, offer)
            own.add(wanted)
        key = (port.get("protocol", ""), port["nodePort"])
        if key in shown:
            raise StatusError(500, "", f"duplicate nodePort: {{{key[0]} {key[1]}}}")
        shown.add(key)


def _claim_port(service: Manifest, index: int, number: int, offer: Offer) -> None:
    why = offer.refusal_of_port(number)
    if why:
        _refuse(service, [invalid(f"spec.ports[{index}].nodePort", number, why)])


def _any_port(offer: Offer) -> int:
    number = offer.port()
    if number is None:
        raise _internal("failed to allocate a nodePort: range is full")
    return number


def _give_health_port(spec: Manifest, offer: Offer) -> None:
    wanted = spec.get("healthCheckNodePort", 0)
    if wanted:
        why = offer.refusal_of_port(wanted)
        if why:
            raise _internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {why}")
        return
    number = offer.port()
    if number is None:
        raise _internal("failed to allocate a HealthCheck NodePort 0: range is full")
    spec["healthCheckNodePort"] = number


def _internal(why: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def _refuse(service: Manifest, errors: list[FieldError]) -> None:
    if errors:
        raise invalid_object("", "Service", service["metadata"].get("name", ""), errors)
