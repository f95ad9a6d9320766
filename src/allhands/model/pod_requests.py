"""How much of each resource a pod takes from its node: the same sum that the kube-scheduler and kubelet compute.

It must agree with them exactly, else a node is overfilled or left idle; so all sums are made in whole nanos and are
rounded once, at the end. Claims on node allocatable through dynamic resources (alpha, off by default) are not counted.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

from allhands.model.quantity import Quantity
from allhands.model.resources import CPU, HUGE_PAGES_PREFIX, MEMORY, ResourceVector, units_of_quantity

if TYPE_CHECKING:
    from allhands.model.pod_document import ContainerStatus, PodDocument, PodSpec, PodStatus, QuantityMap

_Nanos: TypeAlias = dict[str, int]


def effective_requests(pod: PodDocument) -> ResourceVector:
    """The larger of what all long-lived containers need together and what any step of the start needs, plus overhead.

    Pod-level requests, where set, replace the sum over containers. While a resize is under way a container counts as
    the largest of what it wants, was promised and has; a resize that was found infeasible is not wanted any more.
    """
    spec, status = pod.spec, pod.status
    statuses = {it.name: it for it in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    infeasible = _resize_is_infeasible(status)
    total = _start_and_run(spec, statuses, infeasible=infeasible)
    total.update(_pod_level(spec, status, infeasible=infeasible))
    if spec.overhead:
        _add(total, _nanos(spec.overhead))
    return ResourceVector.of({name: _units(name, nanos) for name, nanos in total.items()})


@functools.lru_cache(maxsize=1 << 13)
def _units(name: str, nanos: int) -> int:
    return units_of_quantity(name, Quantity(nanos))


def _start_and_run(spec: PodSpec, statuses: dict[str, ContainerStatus], *, infeasible: bool) -> _Nanos:
    running: _Nanos = {}
    for container in spec.containers or ():
        requests = container.resources.requests if container.resources else None
        _add(running, _resized(requests, statuses.get(container.name), infeasible=infeasible))
    started_sidecars: _Nanos = {}
    starting: _Nanos = {}
    for container in spec.init_containers or ():
        requests = container.resources.requests if container.resources else None
        if container.is_sidecar:
            needed = _resized(requests, statuses.get(container.name), infeasible=infeasible)
            _add(running, needed)
            _add(started_sidecars, needed)
            _raise_to(starting, started_sidecars)
        else:
            step = _nanos(requests)
            _add(step, started_sidecars)
            _raise_to(starting, step)
    _raise_to(running, starting)
    return running


def _resized(requests: QuantityMap | None, status: ContainerStatus | None, *, infeasible: bool) -> _Nanos:
    if status is None or status.resources is None:
        return _nanos(requests)
    return _largest(requests, status.resources.requests, status.allocated_resources, infeasible=infeasible)


def _largest(
    wanted: QuantityMap | None, actual: QuantityMap | None, allocated: QuantityMap | None, *, infeasible: bool
) -> _Nanos:
    largest = {} if infeasible else _nanos(wanted)
    _raise_to(largest, _nanos(actual))
    _raise_to(largest, _nanos(allocated))
    return largest


def _pod_level(spec: PodSpec, status: PodStatus, *, infeasible: bool) -> _Nanos:
    requests = spec.resources.requests if spec.resources else None
    effective = wanted = _nanos(requests)
    if status.resources is not None:
        effective = _largest(requests, status.resources.requests, status.allocated_resources, infeasible=infeasible)
    return {name: effective.get(name, 0) for name in wanted if _counts_for_whole_pods(name)}


def _counts_for_whole_pods(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def _resize_is_infeasible(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _nanos(quantities: QuantityMap | None) -> _Nanos:
    return {name: Quantity.parse(text).nanos for name, text in quantities.items()} if quantities else {}


def _add(total: _Nanos, more: _Nanos) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def _raise_to(total: _Nanos, floor: _Nanos) -> None:
    for name, nanos in floor.items():
        total[name] = max(total.get(name, nanos), nanos)
