"""What the pods ask for that must start together: the room that a queue is asked for before any pod is made.

As in Volcano: what the tasks need, filled up to what the Job needs in the order of the tasks; or, where the Job needs
less than its tasks together, its first pods. It is a sum for a queue; room on nodes is looked for pod by pod. Their
limits are for quotas of the namespace alone.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from allhands.lifecycle.quota_charges import Amounts, amount_text, pod_charge
from allhands.model.pod_document import PodDocument, PodSpec
from allhands.model.pod_requests import effective_requests
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.lifecycle.volcano_job.tasks import Task, Tasks

_NOTHING = ResourceVector.of({})


def least_resources(tasks: Tasks) -> dict[str, str]:
    """Resource -> amount; nothing if a template cannot be read: who cannot be asked for is not kept waiting here."""
    total = _NOTHING
    limits: dict[str, int] = {}
    for task, count in _counts(tasks):
        if count:
            template = msgspec.json.encode(task.spec.template or {})
            total += _requests(template) * count
            for name, nanos in _limits(template):
                limits[name] = limits.get(name, 0) + nanos * count
    resources = {name: text for name, text in total.to_quantities().items() if total[name]}
    return resources | {name: amount_text(name, nanos) for name, nanos in sorted(limits.items()) if nanos}


def _counts(tasks: Tasks) -> list[tuple[Task, int]]:
    left = tasks.minimum
    counts = dict.fromkeys(tasks.by_name, 0)
    for only_minimums in (True, False) if tasks.minimum >= tasks.minimums else (False,):
        for task in tasks.all:
            wanted = task.minimum if only_minimums else task.replicas
            more = min(left, wanted - counts[task.name])
            counts[task.name] += more
            left -= more
    return [(task, counts[task.name]) for task in tasks.all]


@functools.lru_cache(maxsize=1 << 10)
def _requests(template: bytes) -> ResourceVector:
    spec = msgspec.json.decode(template).get("spec") or {}
    try:
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            _ask_for_limits(container)
        return effective_requests(PodDocument(spec=msgspec.convert(spec, PodSpec, strict=False)))
    except (ValueError, TypeError, AttributeError):
        return _NOTHING


@functools.lru_cache(maxsize=1 << 10)
def _limits(template: bytes) -> Amounts:
    """What a quota of limits would be charged."""
    spec = msgspec.json.decode(template).get("spec") or {}
    try:
        amounts = pod_charge(msgspec.json.encode({"spec": spec})).charge.amounts
    except (ValueError, TypeError, AttributeError):
        return ()
    return tuple((name, nanos) for name, nanos in amounts if name.startswith("limits."))


def _ask_for_limits(container: Manifest) -> None:
    """As the server does when a pod is made: what has a limit and asks for nothing asks for its limit."""
    resources = container.get("resources") or {}
    if resources.get("limits"):
        container["resources"] = {**resources, "requests": {**resources["limits"], **(resources.get("requests") or {})}}
