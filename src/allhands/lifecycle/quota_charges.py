"""What one object takes from a ResourceQuota: named amounts, and for pods the scopes by which quotas choose them.

Equal pods share one charge, so a hundred thousand of them cost little. A pod that is over takes nothing but its name.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from allhands.api.document import Manifest
from allhands.model.pod_document import PodDocument, PodMetadata, PodSpec, QuantityMap, ResourceRequirements
from allhands.model.pod_requests import effective_requests
from allhands.model.quantity import Quantity, QuantityError
from allhands.model.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, quantity_of_units

Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Names of a quota -> billionths of a unit, sorted."""

ONE: Final = 10**9
_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Scopes(msgspec.Struct, frozen=True, gc=False):
    """Which kinds of pods a quota may be limited to."""

    terminating: bool = False
    """It has a deadline."""
    best_effort: bool = False
    cross_namespace: bool = False
    """Its affinity looks into other namespaces."""
    priority_class: str = ""


class Charge(msgspec.Struct, frozen=True, gc=False):
    amounts: Amounts
    scopes: Scopes | None = None
    """None of what is not a pod."""


class Charged(msgspec.Struct, frozen=True, gc=False):
    """An object, as quotas see it."""

    namespace: str
    charge: Charge


@functools.lru_cache(maxsize=1 << 12)
def _shared(amounts: Amounts, scopes: Scopes | None) -> Charge:
    return Charge(amounts, scopes)


def _charge(amounts: Mapping[str, int], scopes: Scopes | None = None) -> Charge:
    return _shared(tuple(sorted(amounts.items())), scopes)


class _QuotaPodSpec(PodSpec, frozen=True, rename="camel"):
    active_deadline_seconds: int | None = None
    priority_class_name: str = ""


class _QuotaPod(PodDocument, frozen=True):
    spec: _QuotaPodSpec = _QuotaPodSpec()


_pods: Final = msgspec.json.Decoder(_QuotaPod)


def pod_charge(raw: bytes) -> Charged:
    """The charge of a pod as it is stored."""
    pod = _pods.decode(raw)
    scopes = _scopes(pod.spec)
    amounts = {"count/pods": ONE}
    if pod.status.phase not in ("Succeeded", "Failed"):
        amounts["pods"] = ONE
        _add_requests(amounts, effective_requests(pod).to_quantities())
        for name, text in _limits(pod).items():
            if name in _NATIVE:
                amounts[f"limits.{name}"] = Quantity.parse(text).nanos
    return Charged(pod.metadata.namespace, _charge(amounts, scopes))


def _add_requests(amounts: dict[str, int], requests: Mapping[str, str]) -> None:
    for name, text in requests.items():
        nanos = Quantity.parse(text).nanos
        if name in _NATIVE or name.startswith(HUGE_PAGES_PREFIX):
            amounts[name] = nanos
        amounts[f"requests.{name}"] = nanos


def _limits(pod: PodDocument) -> dict[str, str]:
    """As the requests are worked out, over what each container may use at most; overhead only beside a limit."""
    spec = pod.spec
    containers = tuple(_limits_as_requests(it.resources) for it in spec.containers or ())
    starting = tuple(_limits_as_requests(it.resources) for it in spec.init_containers or ())
    swapped = msgspec.structs.replace(
        spec,
        containers=tuple(
            msgspec.structs.replace(it, resources=limits)
            for it, limits in zip(spec.containers or (), containers, strict=True)
        ),
        init_containers=tuple(
            msgspec.structs.replace(it, resources=limits)
            for it, limits in zip(spec.init_containers or (), starting, strict=True)
        ),
        resources=_limits_as_requests(spec.resources),
        overhead=_overhead_beside(spec.overhead, (*containers, *starting, _limits_as_requests(spec.resources))),
    )
    return effective_requests(PodDocument(PodMetadata(), swapped)).to_quantities()


def _limits_as_requests(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    return None if resources is None else ResourceRequirements(requests=resources.limits)


def _overhead_beside(overhead: QuantityMap | None, limits: Iterable[ResourceRequirements | None]) -> QuantityMap | None:
    """Of what is limited at all; the last of the limits, the whole pod's, is the word on what it names."""
    limited: dict[str, bool] = {}
    *parts, whole = limits
    for it in parts:
        for name, amount in ((it.requests or {}) if it is not None else {}).items():
            limited[name] = limited.get(name, False) or Quantity.parse(amount).nanos > 0
    for name, amount in ((whole.requests or {}) if whole is not None else {}).items():
        limited[name] = Quantity.parse(amount).nanos > 0
    return {name: amount for name, amount in (overhead or {}).items() if limited.get(name)}


def pod_scopes(pod: Manifest) -> Scopes:
    """Of a decoded pod."""
    return _scopes(msgspec.convert(pod, _QuotaPod).spec)


def _scopes(spec: _QuotaPodSpec) -> Scopes:
    deadline = spec.active_deadline_seconds
    return Scopes(
        terminating=deadline is not None and deadline >= 0,
        best_effort=not any(_wants_something(it) for it in _all_resources(spec)),
        cross_namespace=_looks_elsewhere(spec),
        priority_class=spec.priority_class_name,
    )


def _all_resources(spec: PodSpec) -> Iterable[ResourceRequirements | None]:
    return (spec.resources, *(it.resources for it in (*(spec.containers or ()), *(spec.init_containers or ()))))


def _wants_something(resources: ResourceRequirements | None) -> bool:
    if resources is None:
        return False
    named = (*(resources.requests or {}).items(), *(resources.limits or {}).items())
    return any(name in (CPU, MEMORY) and Quantity.parse(amount).nanos > 0 for name, amount in named)


def _looks_elsewhere(spec: PodSpec) -> bool:
    if spec.affinity is None:
        return False
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if affinity is None:
            continue
        terms = [
            *(affinity.required_during_scheduling_ignored_during_execution or ()),
            *(it.pod_affinity_term for it in affinity.preferred_during_scheduling_ignored_during_execution or ()),
        ]
        if any(it.namespaces or it.namespace_selector is not None for it in terms):
            return True
    return False


def claim_charge(raw: bytes) -> Charged:
    """The charge of a PersistentVolumeClaim."""
    claim = msgspec.json.decode(raw)
    amounts = {"persistentvolumeclaims": ONE, "count/persistentvolumeclaims": ONE}
    storage = storage_request(claim)
    if storage:
        amounts["requests.storage"] = storage.nanos
    if name := storage_class(claim):
        prefix = f"{name}.storageclass.storage.k8s.io/"
        amounts[f"{prefix}persistentvolumeclaims"] = ONE
        if storage:
            amounts[f"{prefix}requests.storage"] = storage.nanos
    return Charged(claim["metadata"].get("namespace", ""), _charge(amounts))


def storage_request(claim: Manifest) -> Quantity | None:
    """Whole bytes, at least as many as a resize was promised."""
    asked = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    if asked is None:
        return None
    promised = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage", "0")
    largest = max(Quantity.parse(asked), Quantity.parse(promised))
    return largest if largest.nanos % ONE == 0 else Quantity(largest.value() * ONE, largest.format)


def storage_class(claim: Manifest) -> str:
    beta = (claim["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class", "")
    name: str = beta or claim["spec"].get("storageClassName") or ""
    return name


def service_charge(raw: bytes) -> Charged:
    """The charge of a Service."""
    service = msgspec.json.decode(raw)
    amounts = {"services": ONE, "count/services": ONE}
    if service["spec"].get("type") == "LoadBalancer":
        amounts["services.loadbalancers"] = ONE
    if ports := service_ports(service["spec"]):
        amounts["services.nodeports"] = ports * ONE
    return Charged(service["metadata"].get("namespace", ""), _charge(amounts))


def service_ports(spec: Manifest) -> int:
    """How many ports of every node it takes; they may be yet to be given."""
    kind, ports = spec.get("type"), spec.get("ports") or ()
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        return sum(bool(it.get("nodePort")) for it in ports)
    return len(ports) if kind in ("NodePort", "LoadBalancer") else 0


def object_charge(namespace: str, names: tuple[str, ...]) -> Charged:
    """The charge of an object that only counts."""
    return Charged(namespace, _charge(dict.fromkeys(names, ONE)))


def amount_text(name: str, nanos: int) -> str:
    """An amount as people expect it of the resource."""
    bare = name.removeprefix("requests.").removeprefix("limits.")
    if bare == "storage" or name.endswith("/requests.storage"):
        bare = EPHEMERAL_STORAGE
    return str(Quantity(nanos, quantity_of_units(bare, 1).format))


def amount_of(text: str | int | float) -> int:
    try:
        return Quantity.parse(text).nanos
    except QuantityError:
        return 0
