"""Which tasks of a Volcano Job make sense, alone and beside each other, with the path of each field.

Pure, over documents whose defaults are filled in. A task is looked at as its pods will be made from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, duplicate, invalid, not_found, required
from allhands.api.names import LABEL_MAX_BYTES, bytes_of, dns1123_label
from allhands.api.volcano.job import TopologyPolicy
from allhands.api.volcano.policy_rules import policy_errors
from allhands.api.volcano.template_rules import template_errors
from allhands.api.volcano.topology_rules import topology_errors
from allhands.model.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.api.document import Manifest

_MILLI: Final = 1000
_MOST_NAMES: Final = 8


def task_errors(task: Manifest, path: str, job_name: str) -> list[FieldError]:
    """What is wrong with one task. `job_name` is "" where Jobs get their names later."""
    errors = _name_errors(task, path, job_name)
    errors += count_errors(task, path)
    no_parts = "" if task.get("partitionPolicy") is not None else "the task has no partitionPolicy"
    errors += policy_errors(task.get("policies") or (), f"{path}.policies", no_parts)
    errors += template_errors(task.get("template"), f"{path}.template")
    return errors + list(_numa_errors(task, path))


def count_errors(task: Manifest, path: str) -> list[FieldError]:
    """Its numbers beside each other: what still holds when a Job is scaled."""
    replicas, minimum = task.get("replicas", 0), task.get("minAvailable")
    errors: list[FieldError] = []
    if minimum is not None and minimum > replicas:
        errors.append(invalid(f"{path}.minAvailable", minimum, f"must not be more than replicas, which is {replicas}"))
    partitions = task.get("partitionPolicy")
    if partitions is None:
        return errors
    where = f"{path}.partitionPolicy"
    size, total, least = partitions["partitionSize"], partitions["totalPartitions"], partitions.get("minPartitions", 0)
    if replicas != total * size:
        detail = f"must be {total * size}: {where} says {total} parts of {size} pods"
        errors.append(invalid(f"{path}.replicas", replicas, detail))
    if least > total:
        errors.append(invalid(f"{where}.minPartitions", least, f"there are only {total} parts"))
    elif least and minimum is not None and minimum != least * size:
        detail = f"must be {least * size}: {where} says that {least} parts of {size} pods start together"
        errors.append(invalid(f"{path}.minAvailable", minimum, detail))
    return errors + topology_errors(partitions.get("networkTopology"), f"{where}.networkTopology")


def _name_errors(task: Manifest, path: str, job_name: str) -> list[FieldError]:
    name = task.get("name", "")
    if faults := dns1123_label(name):
        return [invalid(f"{path}.name", name, fault) for fault in faults]
    if not job_name:
        return []
    pod = f"{job_name}-{name}-{max(task.get('replicas', 0) - 1, 0)}"
    if bytes_of(pod) <= LABEL_MAX_BYTES:
        return []
    detail = (
        f"its pods would be called {pod}, which has {bytes_of(pod)} characters; at most {LABEL_MAX_BYTES} are allowed: "
        "shorten the name of the Job or of the task"
    )
    return [invalid(f"{path}.name", name, detail)]


def _numa_errors(task: Manifest, path: str) -> Iterator[FieldError]:
    """Only whole CPUs can be pinned."""
    policy = task.get("topologyPolicy") or TopologyPolicy.NONE
    if policy == TopologyPolicy.NONE:
        return
    spec = (task.get("template") or {}).get("spec") or {}
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            resources = container.get("resources") or {}
            asked = (resources.get("requests") or resources.get("limits") or {}).get("cpu")
            where = f"{path}.template.spec.{group}[{index}].resources.requests[cpu]"
            if asked is None:
                yield required(where, f"with topologyPolicy {policy} each container must ask for whole CPUs")
            elif not _is_whole(asked):
                yield invalid(where, asked, f"must be a whole number of CPUs with topologyPolicy {policy}")


def _is_whole(cpu: object) -> bool:
    try:
        millis = Quantity.parse(str(cpu)).milli_value()
    except QuantityError:
        return True  # refused elsewhere
    return millis > 0 and millis % _MILLI == 0


def names_errors(tasks: Sequence[Manifest], path: str) -> list[FieldError]:
    """No two tasks of the same name."""
    seen: set[str] = set()
    errors: list[FieldError] = []
    for index, task in enumerate(tasks):
        name = task.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)
    return errors


def dependency_errors(tasks: Sequence[Manifest], path: str) -> list[FieldError]:
    """Tasks wait for others that are there, and not for each other."""
    errors: list[FieldError] = []
    waits: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    known = {task.get("name", "") for task in tasks}
    for index, task in enumerate(tasks):
        names = (task.get("dependsOn") or {}).get("name") or []
        where = f"{path}[{index}].dependsOn.name"
        errors += [not_found(f"{where}[{at}]", name) for at, name in enumerate(names) if name not in known]
        first = {name: at for at, name in reversed(list(enumerate(names)))}
        errors += [duplicate(f"{where}[{at}]", name) for at, name in enumerate(names) if first[name] != at]
        waits[task.get("name", "")] = [name for name in names if name in known]
        places[task.get("name", "")] = where
    cycle = first_cycle(waits)
    if cycle:
        detail = f"tasks would wait for each other for ever: {shown_cycle(cycle)}"
        errors.append(invalid(places[cycle[0]], waits[cycle[0]], detail))
    return errors


def first_cycle(waits: dict[str, list[str]]) -> list[str]:
    """Names that wait for each other in a circle, the first again at the end; nothing if nobody does."""
    done: set[str] = set()
    for start, targets in waits.items():
        trail: dict[str, Iterator[str]] = {start: iter(targets)} if start not in done else {}
        while trail:
            name = next(reversed(trail))
            target = next((it for it in trail[name] if it not in done), None)
            if target is None:
                done.add(name)
                del trail[name]
            elif target in trail:
                names = list(trail)
                return [*names[names.index(target) :], target]
            else:
                trail[target] = iter(waits[target])
    return []


def shown_cycle(names: list[str]) -> str:
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 2], "…", names[-1]]
    return " -> ".join(names)
