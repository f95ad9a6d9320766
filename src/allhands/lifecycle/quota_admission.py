"""Whether the ResourceQuotas of a namespace take one object more, and what they say is used if they do.

Pure: quotas and documents in, a refusal or new sums out. As on the real server, a quota speaks through its status:
what it does not know the use of yet it refuses. All quotas that fit the object must take it, or none is charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from allhands.api.builtin.resource_lists import aggregate, is_huge_pages, is_native, is_pod_level
from allhands.lifecycle.quota_charges import pod_scopes, service_ports, storage_class, storage_request
from allhands.lifecycle.resource_quota import holds
from allhands.model.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.lifecycle.quota_charges import Scopes
    from allhands.lifecycle.resource_quota import Quota

_Amount = TypeVar("_Amount", str, Quantity)
_ONE: Final = Quantity.of_units(1)
_MUST_BE_SAID: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Of these every container has to say how much, if a quota limits them."""
_OF_PODS: Final = _MUST_BE_SAID | {
    *("count/pods", "pods", "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage")
}
_OF_SERVICES: Final = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})
_OF_CLAIMS: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
_CLASS_SUFFIXES: Final = tuple(f".storageclass.storage.k8s.io/{name}" for name in sorted(_OF_CLAIMS))
_BY_TWO_NAMES: Final = ("cpu", "memory", "ephemeral-storage")
_PLAIN_NAMES: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})


class QuotaError(Exception):
    """The object is one too many; the text is the real server's."""


class Charging(msgspec.Struct, frozen=True):
    """A quota, and what it says is used once the object is there."""

    quota: Quota
    used: Mapping[str, str]


def count_name(resource: Resource) -> str:
    """Under which a quota counts objects of any kind."""
    return f"count/{resource.plural}.{resource.group}" if resource.group else f"count/{resource.plural}"


def admit(quotas: Iterable[Quota], resource: Resource, new: Manifest, old: Manifest | None = None) -> list[Charging]:
    """The quotas whose sums change. An `old` state was charged before. Refuses by raising a `QuotaError`."""
    scopes, before = _scopes(resource, new), None if old is None else _scopes(resource, old)
    fitting = [quota for quota in quotas if _fits(quota, resource, scopes)]
    for quota in fitting:
        _refuse_unknown(quota, resource, new)
    if not fitting:
        return []
    usage = usage_of(resource, new)
    more = usage if old is None else _more(usage, usage_of(resource, old))
    charged: list[Charging] = []
    for quota in fitting:
        delta = more if old is not None and _fits(quota, resource, before) else usage
        hard, used = _sums(quota, "hard"), _sums(quota, "used")
        asked = {name: amount for name, amount in delta.items() if amount.nanos and name in hard}
        if not asked:
            continue
        sums = {name: Quantity.parse(used.get(name, "0")) + amount for name, amount in asked.items()}
        over = sorted(name for name, amount in sums.items() if amount > Quantity.parse(hard[name]))
        if over:
            texts = (_listed(over, {name: str(asked[name]) for name in over}), _listed(over, used), _listed(over, hard))
            message = "exceeded quota: {}, requested: {}, used: {}, limited: {}"
            raise QuotaError(message.format(quota.metadata.name, *texts))
        charged.append(Charging(quota, used | {name: str(amount) for name, amount in sums.items()}))
    return charged


def is_charged_on_update(resource: Resource, new: Manifest, old: Manifest) -> bool:
    """Whether a change of an object can be one of what it takes."""
    if resource.group:
        return False
    if resource.plural == "pods":
        return _is_terminating(new) != _is_terminating(old)
    return resource.plural in ("services", "persistentvolumeclaims")


def _is_terminating(pod: Manifest) -> bool:
    return pod["spec"].get("activeDeadlineSeconds") is not None


def _sums(quota: Quota, field: str) -> dict[str, str]:
    told = quota.status.get(field) if isinstance(quota.status, dict) else None
    return told or {}


def _listed(names: Sequence[str], amounts: Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)


def _scopes(resource: Resource, document: Manifest) -> Scopes | None:
    return pod_scopes(document) if (resource.group, resource.plural) == ("", "pods") else None


def _fits(quota: Quota, resource: Resource, scopes: Scopes | None) -> bool:
    if not any(_is_about(name, resource) for name in _sums(quota, "hard")):
        return False
    expressions = quota.expressions()
    return not expressions or (scopes is not None and all(holds(it, scopes) for it in expressions))


def _is_about(name: str, resource: Resource) -> bool:
    """Whether the name in a quota is of what such objects take."""
    match (resource.group, resource.plural):
        case ("", "pods"):
            return name in _OF_PODS or is_huge_pages(name.removeprefix("requests.")) or _is_extended(name)
        case ("", "services"):
            return name in _OF_SERVICES
        case ("", "persistentvolumeclaims"):
            return name == "count/persistentvolumeclaims" or name in _OF_CLAIMS or name.endswith(_CLASS_SUFFIXES)
        case ("", plural) if plural in _PLAIN_NAMES and name == plural:
            return True
    return name == count_name(resource)


def _is_extended(name: str) -> bool:
    return name.startswith("requests.") and not is_native(name)


def _refuse_unknown(quota: Quota, resource: Resource, new: Manifest) -> None:
    names = sorted(name for name in _sums(quota, "hard") if _is_about(name, resource))
    if (resource.group, resource.plural) == ("", "pods"):
        _refuse_unsaid(quota, names, new["spec"])
    used = _sums(quota, "used")
    if any(name not in used for name in names):
        message = f"status unknown for quota: {quota.metadata.name}, resources: {','.join(names)}"
        raise QuotaError(message)


def _refuse_unsaid(quota: Quota, names: Iterable[str], spec: Manifest) -> None:
    whole = spec.get("resources") or {}
    if any(is_pod_level(name) for side in ("requests", "limits") for name in whole.get(side) or ()):
        return
    silent: dict[str, set[str]] = {}
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources") or {}
        said = _compute(resources.get("requests") or {}, resources.get("limits") or {})
        for name in names:
            if name in _MUST_BE_SAID and name not in said:
                silent.setdefault(name, set()).add(container.get("name", ""))
    if silent:
        texts = [f"{name} for: {','.join(sorted(silent[name]))}" for name in sorted(silent)]
        message = f"failed quota: {quota.metadata.name}: must specify {'; '.join(texts)}"
        raise QuotaError(message)


def usage_of(resource: Resource, document: Manifest) -> dict[str, Quantity]:
    """What an object takes, in amounts that are written as it writes them."""
    usage = {count_name(resource): _ONE}
    match (resource.group, resource.plural):
        case ("", "pods"):
            usage |= _of_pod(document)
        case ("", "services"):
            usage |= _of_service(document["spec"])
        case ("", "persistentvolumeclaims"):
            usage |= _of_claim(document)
        case ("", plural) if plural in _PLAIN_NAMES:
            usage[plural] = _ONE
    return usage


def _more(usage: Mapping[str, Quantity], before: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """What is taken beyond what was; what is given back is counted by whoever counts."""
    differences = {name: amount - before.get(name, ZERO) for name, amount in usage.items()}
    return {name: amount for name, amount in differences.items() if amount.nanos > 0}


def _of_pod(pod: Manifest) -> dict[str, Quantity]:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    spec = pod["spec"]
    requests, limits = (_of_whole_pod(spec, side) for side in ("requests", "limits"))
    for name, text in (spec.get("overhead") or {}).items():
        requests[name] = requests.get(name, ZERO) + Quantity.parse(text)
        if limits.get(name):
            limits[name] += Quantity.parse(text)
    return {"pods": _ONE} | _compute(requests, limits)


def _of_whole_pod(spec: Manifest, side: str) -> dict[str, Quantity]:
    whole = (spec.get("resources") or {}).get(side) or {}
    texts = aggregate(spec, side) | {name: text for name, text in whole.items() if is_pod_level(name)}
    return {name: Quantity.parse(text) for name, text in texts.items()}


def _compute(requests: Mapping[str, _Amount], limits: Mapping[str, _Amount]) -> dict[str, _Amount]:
    found: dict[str, _Amount] = {}
    for name, amount in requests.items():
        if name in _BY_TWO_NAMES or is_huge_pages(name):
            found[name] = found[f"requests.{name}"] = amount
        elif not is_native(name):
            found[f"requests.{name}"] = amount
    return found | {f"limits.{name}": limits[name] for name in _BY_TWO_NAMES if name in limits}


def _of_service(spec: Manifest) -> dict[str, Quantity]:
    balanced = spec.get("type") == "LoadBalancer"
    return {
        "services": _ONE,
        "services.loadbalancers": _ONE if balanced else ZERO,
        "services.nodeports": Quantity.of_units(service_ports(spec)),
    }


def _of_claim(claim: Manifest) -> dict[str, Quantity]:
    amounts = {"persistentvolumeclaims": _ONE}
    storage = storage_request(claim)
    if storage is not None:
        amounts["requests.storage"] = storage
    if name := storage_class(claim):
        by_class = {f"{name}.storageclass.storage.k8s.io/{part}": amount for part, amount in amounts.items()}
        amounts |= by_class
    return amounts
