"""Checks of `resources` of a container or of a whole pod: names, amounts, requests against limits, claims."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.resource_lists import (
    CONTAINER_RESOURCES,
    HUGE_PAGES_PREFIX,
    aggregate,
    check_amount,
    is_extended,
    is_huge_pages,
    is_native,
    is_overcommit_allowed,
    is_pod_level,
    nanos,
)
from allhands.api.errors import Fault, FieldError, duplicate, forbidden, invalid, not_supported, required
from allhands.model.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from allhands.api.document import Manifest

_STANDARD_RESOURCES = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_NOTHING: dict[str, str] = {}


def check_resource_name(name: str, path: str, errors: list[FieldError]) -> None:
    texts = names.qualified_name(name)
    errors += [invalid(path, name, text) for text in texts]
    if texts or "/" in name or name in _STANDARD_RESOURCES:
        return
    if not name.startswith((HUGE_PAGES_PREFIX, "requests.hugepages-")):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))


def check_container_resource_name(name: str, path: str, errors: list[FieldError]) -> None:
    if name in CONTAINER_RESOURCES:
        return
    check_resource_name(name, path, errors)
    if "/" not in name:
        if not is_huge_pages(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))


def _check_pod_resource_name(name: str, path: str, errors: list[FieldError]) -> None:
    before = len(errors)
    check_resource_name(name, path, errors)
    if len(errors) == before and not is_pod_level(name):
        errors.append(not_supported(path, name, ("cpu", HUGE_PAGES_PREFIX, "memory")))


def check_requirements(
    resources: Manifest,
    path: str,
    claim_names: Collection[str],
    errors: list[FieldError],
    check_name: Callable[[str, str, list[FieldError]], None] = check_container_resource_name,
) -> None:
    limits, requests = resources.get("limits", _NOTHING), resources.get("requests", _NOTHING)
    before = len(errors)
    for name, text in limits.items():
        if not _is_sound(name, text, check_name):
            _check_entry(name, text, f"{path}.limits[{name}]", check_name, errors)
            _check_whole_pages(name, text, f"{path}.limits[{name}]", errors)
    already_checked = requests == limits and len(errors) == before
    for name, text in () if already_checked else requests.items():
        sound = _is_sound(name, text, check_name)
        if not sound:
            _check_entry(name, text, f"{path}.requests[{name}]", check_name, errors)
        limit = limits.get(name)
        if limit != text:
            _check_against_limit(name, text, limit, path, errors)
        if not sound:
            _check_whole_pages(name, text, f"{path}.requests[{name}]", errors)
    if not ("cpu" in limits or "cpu" in requests or "memory" in limits or "memory" in requests) and any(
        is_huge_pages(name) for name in (*limits, *requests)
    ):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if "claims" in resources:
        _check_claims(resources["claims"], claim_names, f"{path}.claims", errors)


@lru_cache(maxsize=4096)
def _is_sound(name: str, text: str, check_name: Callable[[str, str, list[FieldError]], None]) -> bool:
    """The quick answer for one amount: a cluster asks for the same few amounts again and again."""
    errors: list[FieldError] = []
    _check_entry(name, text, "", check_name, errors)
    _check_whole_pages(name, text, "", errors)
    return not errors


def _check_entry(
    name: str,
    text: str,
    path: str,
    check_name: Callable[[str, str, list[FieldError]], None],
    errors: list[FieldError],
) -> None:
    check_name(name, path, errors)
    check_amount(name, text, path, errors)


def _check_against_limit(name: str, text: str, limit: str | None, path: str, errors: list[FieldError]) -> None:
    if limit is None:
        if not is_overcommit_allowed(name):
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        return
    wanted, allowed = nanos(text), nanos(limit)
    if wanted != allowed and not is_overcommit_allowed(name):
        errors.append(invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}"))
    elif wanted > allowed:
        errors.append(invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}"))


def _check_whole_pages(name: str, text: str, path: str, errors: list[FieldError]) -> None:
    if is_huge_pages(name) and not _is_whole_pages(name, text):
        errors.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))


@lru_cache(maxsize=256)
def _is_whole_pages(name: str, text: str) -> bool:
    try:
        page = Quantity.parse(name.removeprefix(HUGE_PAGES_PREFIX))
    except QuantityError:
        return False
    if page.nanos <= 0 or page.milli_value() % 1000:
        return False
    return Quantity.parse(text).value() % page.value() == 0


def _check_claims(claims: list[Manifest], claim_names: Collection[str], path: str, errors: list[FieldError]) -> None:
    seen: dict[str, None] = {}
    for index, claim in enumerate(claims):
        name, request = claim.get("name", ""), claim.get("request", "")
        where = f"{path}[{index}]"
        if not name:
            errors.append(required(where))
            continue
        if name in seen:
            errors.append(duplicate(where, name))
        else:
            _check_claim_request(name, request, seen, where, errors)
        if name not in claim_names:
            listing = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listing}"
            errors.append(FieldError(Fault.NOT_FOUND, where, name, detail))


def _check_claim_request(name: str, request: str, seen: dict[str, None], where: str, errors: list[FieldError]) -> None:
    key = name
    if request:
        errors += [invalid(f"{where}.request", request, text) for text in names.dns1123_label(request)]
        key = f"{name}/{request}"
    if key in seen:
        errors.append(duplicate(where, key))
    elif not request:
        errors.extend(duplicate(where, name) for other in seen if other.partition("/")[0] == name and "/" in other)
    seen[key] = None


def check_pod_resources(spec: Manifest, path: str, claim_names: Collection[str], errors: list[FieldError]) -> None:
    """`resources` of the pod as a whole, and that they leave room for what its containers ask."""
    resources = spec["resources"]
    where = f"{path}.resources"
    if spec.get("os", {}).get("name") == "windows":
        errors.append(forbidden(where, "may not be set for a windows pod"))
        return
    if "claims" in resources:
        errors.append(forbidden(f"{where}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(resources, where, claim_names, errors, _check_pod_resource_name)
    _check_room(spec, resources, where, errors)


def _check_room(spec: Manifest, resources: Manifest, path: str, errors: list[FieldError]) -> None:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, text in aggregate(spec, "requests").items() if requests else ():
        if name in requests and nanos(text) > nanos(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {text}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], detail))
    for name, text in aggregate(spec, "limits").items() if limits else ():
        if is_huge_pages(name) and name in limits and nanos(text) > nanos(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {text}"
            errors.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for index, container in enumerate(spec.get("containers", ()) if limits else ()):
        for name, text in container.get("resources", {}).get("limits", {}).items():
            if name in limits and nanos(text) > nanos(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", text, detail))
