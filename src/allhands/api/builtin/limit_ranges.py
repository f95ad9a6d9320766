"""What LimitRanges do to new pods and claims: fill in requests and limits that were left out, refuse what is too large,
too small or too far apart.

Pure, over decoded objects. Order and words are the real server's; where it goes by the order of a Go map, names are
sorted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.resource_lists import POD_LEVEL_RESOURCES, aggregate
from allhands.model.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allhands.api.document import Manifest

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MAX_MILLI_VALUE: Final = (2**63 - 1) // 1000
_SIDES: Final = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))


def set_defaults(pod: Manifest, limit_range: Manifest) -> None:
    """Gives every container what the range says of those that say nothing, and notes it on the pod."""
    defaults = _defaults(limit_range)
    if not any(defaults.values()):
        return
    notes: list[str] = []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field, ()):
            notes += _fill_in(container, defaults, what)
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = annotations | {ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def _defaults(limit_range: Manifest) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {side: {} for side, _, _ in _SIDES}
    for item in _items(limit_range, "Container"):
        for side, field, _ in _SIDES:
            found[side] |= item.get(field, {})
    return found


def _fill_in(container: Manifest, defaults: Mapping[str, dict[str, str]], what: str) -> Iterator[str]:
    resources = dict(container.get("resources") or {})
    for side, _, word in _SIDES:
        stated = resources.get(side) or {}
        added = {name: text for name, text in defaults[side].items() if name not in stated}
        if added:
            resources[side] = stated | added
            yield f"{', '.join(sorted(added))} {word} for {what} {container.get('name', '')}"
    if resources:
        container["resources"] = resources


def _items(limit_range: Manifest, kind: str) -> Iterable[Manifest]:
    return (item for item in (limit_range.get("spec") or {}).get("limits") or () if item.get("type") == kind)


def pod_refusals(pod: Manifest, limit_range: Manifest) -> list[str]:
    """What the range says against a pod."""
    spec, faults = pod["spec"], list[str]()
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
                resources = container.get("resources") or {}
                faults += _check(item, resources.get("requests") or {}, resources.get("limits") or {})
        elif item.get("type") == "Pod":
            faults += _check(item, _of_pod(spec, "requests"), _of_pod(spec, "limits"))
    return faults


def _of_pod(spec: Manifest, side: str) -> dict[str, str]:
    whole = (spec.get("resources") or {}).get(side) or {}
    return aggregate(spec, side) | {name: text for name, text in whole.items() if name in POD_LEVEL_RESOURCES}


def claim_refusals(claim: Manifest, limit_range: Manifest) -> list[str]:
    """What the range says against a PersistentVolumeClaim: only what it requests counts."""
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    faults: list[str] = []
    for item in _items(limit_range, "PersistentVolumeClaim"):
        for name, least in _sorted(item, "min"):
            faults += _below(item["type"], name, least, requests, {})
        for name, most in _sorted(item, "max"):
            faults += _request_above(item["type"], name, most, requests)
    return faults


def _sorted(item: Manifest, field: str) -> list[tuple[str, str]]:
    return sorted((item.get(field) or {}).items())


def _check(item: Manifest, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    kind = item["type"]
    for name, least in _sorted(item, "min"):
        yield from _below(kind, name, least, requests, limits)
    for name, most in _sorted(item, "max"):
        yield from _above(kind, name, most, requests, limits)
    for name, ratio in _sorted(item, "maxLimitRequestRatio"):
        yield from _too_far_apart(kind, name, ratio, requests, limits)


def _comparable(*texts: str | None) -> list[int]:
    """The amounts in thousandths if all of them fit, else in whole units; what is not said is nothing."""
    quantities = [ZERO if text is None else Quantity.parse(text) for text in texts]
    if all(it.value() <= _MAX_MILLI_VALUE for it in quantities):
        return [it.milli_value() for it in quantities]
    return [it.value() for it in quantities]


def _below(kind: str, name: str, least: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    asked, allowed, wanted = _comparable(request, limit, least)
    rule = f"minimum {name} usage per {kind} is {least}"
    if request is None:
        yield f"{rule}.  No request is specified"
    elif asked < wanted:
        yield f"{rule}, but request is {request}"
    elif limit is not None and allowed < wanted:
        yield f"{rule}, but limit is {limit}"


def _above(kind: str, name: str, most: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    asked, allowed, wanted = _comparable(request, limit, most)
    rule = f"maximum {name} usage per {kind} is {most}"
    if limit is None:
        yield f"{rule}.  No limit is specified"
    elif allowed > wanted:
        yield f"{rule}, but limit is {limit}"
    elif request is not None and asked > wanted:
        yield f"{rule}, but request is {request}"


def _request_above(kind: str, name: str, most: str, requests: Mapping[str, str]) -> Iterator[str]:
    request = requests.get(name)
    asked, wanted = _comparable(request, most)
    rule = f"maximum {name} usage per {kind} is {most}"
    if request is None:
        yield f"{rule}.  No request is specified"
    elif asked > wanted:
        yield f"{rule}, but request is {request}"


def _too_far_apart(
    kind: str, name: str, ratio: str, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[str]:
    asked, allowed, _ = _comparable(requests.get(name), limits.get(name), ratio)
    rule = f"{name} max limit to request ratio per {kind} is {ratio}"
    if not asked:
        yield f"{rule}, but no request is specified or request is 0"
    elif not allowed:
        yield f"{rule}, but no limit is specified or limit is 0"
    elif allowed / asked * 1000 > Quantity.parse(ratio).milli_value():
        yield f"{rule}, but provided ratio is {allowed / asked:f}"


def aggregated(faults: Iterable[str]) -> str:
    """Several complaints as one text, each once."""
    texts = list(dict.fromkeys(faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
