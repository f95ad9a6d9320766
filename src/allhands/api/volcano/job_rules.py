"""What is refused of a Volcano Job, when it comes and when it changes, with the path of each field.

Pure, over documents whose defaults are filled in (`job_defaults`); what others decide (queues, the plugins that are
there) is asked of the surroundings that are passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, forbidden, invalid, not_supported, required
from allhands.api.names import qualified_name
from allhands.api.volcano.budget_rules import BUDGETS, budget_errors
from allhands.api.volcano.plugin_names import DEFAULT_MPI_MASTER, MPI
from allhands.api.volcano.policy_rules import duration_errors, policy_errors
from allhands.api.volcano.queue_tree_rules import submission_errors
from allhands.api.volcano.task_rules import count_errors, dependency_errors, names_errors, task_errors
from allhands.api.volcano.topology_rules import topology_errors
from allhands.api.volcano.volume_rules import volume_errors

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from allhands.api.document import Manifest
    from allhands.api.volcano.surroundings import Surroundings

MOST_PODS: Final = 100_000
"""Of one Job. Kubernetes has the same limit for Jobs whose pods have indexes."""
_MAY_CHANGE: Final = frozenset({"minAvailable", "priorityClassName"})
_OF_TASKS_MAY_CHANGE: Final = frozenset({"minAvailable", "replicas"})
_IMMUTABLE: Final = (
    "must stay as it is; of a Job that exists only minAvailable, priorityClassName, tasks[*].replicas and "
    "tasks[*].minAvailable may change"
)


def create_errors(job: Manifest, around: Surroundings) -> list[FieldError]:
    """Why a new Job is refused."""
    spec, name = job.get("spec") or {}, job["metadata"].get("name", "")
    errors = [invalid("metadata.name", name, fault) for fault in qualified_name(name)]
    errors += budget_errors(job["metadata"].get("annotations") or {})
    errors += spec_errors(spec, "spec", name, around.plugins)
    if not errors:
        errors += around.plugin_errors(job)
    return errors + submission_errors(spec.get("queue", ""), "spec.queue", around)


def update_errors(new: Manifest, old: Manifest, around: Surroundings) -> list[FieldError]:
    """Why a changed Job is refused. What stays as it was is not looked at: it must be possible to end the Job."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    stated, was_stated = (it["metadata"].get("annotations") or {} for it in (new, old))
    budget = budget_errors(stated) if any(stated.get(it) != was_stated.get(it) for it in BUDGETS) else []
    if spec == before:
        return budget
    tasks = spec.get("tasks") or []
    errors = [*budget]
    for index, task in enumerate(tasks):
        errors += count_errors(task, f"spec.tasks[{index}]")
    errors += _total_errors(spec, "spec")
    if len(tasks) != len(before.get("tasks") or ()):
        errors.append(forbidden("spec.tasks", "tasks can neither be added nor removed"))
    else:
        for index, (task, was) in enumerate(zip(tasks, before.get("tasks") or (), strict=True)):
            errors += _changed(task, was, f"spec.tasks[{index}]", _OF_TASKS_MAY_CHANGE)
    errors += _changed(_comparable(spec), _comparable(before), "spec", _MAY_CHANGE)
    if not errors:
        # What its plugins had against it before is not this change's fault.
        known = around.plugin_errors(old)
        errors = [it for it in around.plugin_errors(new) if it not in known]
    return errors


def spec_errors(spec: Manifest, path: str, job_name: str, plugins: Set[str]) -> list[FieldError]:
    """What is wrong with the spec of a Job, whatever queues there are. `job_name` is "" for a template of Jobs."""
    tasks = spec.get("tasks") or []
    if not tasks:
        return [required(f"{path}.tasks", "a Job needs at least one task")]
    errors = names_errors(tasks, f"{path}.tasks")
    for index, task in enumerate(tasks):
        errors += task_errors(task, f"{path}.tasks[{index}]", job_name)
    errors += dependency_errors(tasks, f"{path}.tasks")
    errors += _total_errors(spec, path)
    errors += _success_errors(spec, path)
    has_parts = any(task.get("partitionPolicy") is not None for task in tasks)
    errors += policy_errors(
        spec.get("policies") or (), f"{path}.policies", "" if has_parts else "no task has a partitionPolicy"
    )
    errors += topology_errors(spec.get("networkTopology"), f"{path}.networkTopology")
    errors += _plugin_errors(spec, f"{path}.plugins", plugins)
    errors += volume_errors(spec.get("volumes") or (), f"{path}.volumes")
    if spec.get("runningEstimate") is not None:
        errors += duration_errors(spec["runningEstimate"], f"{path}.runningEstimate")
    return errors


def _success_errors(spec: Manifest, path: str) -> list[FieldError]:
    """Only of a new Job: one that is there may be scaled down and up again."""
    total, wanted = _replicas(spec), spec.get("minSuccess") or 0
    detail = f"must not be more than the replicas of all tasks together, which are {total}"
    return [invalid(f"{path}.minSuccess", wanted, detail)] if wanted > total else []


def _replicas(spec: Manifest) -> int:
    return sum(task.get("replicas", 0) for task in spec.get("tasks") or ())


def _total_errors(spec: Manifest, path: str) -> list[FieldError]:
    total = _replicas(spec)
    minimum = spec.get("minAvailable", 0)
    errors: list[FieldError] = []
    if total > MOST_PODS:
        detail = f"all replicas together are {total}; a Job may have at most {MOST_PODS} pods"
        errors.append(invalid(f"{path}.tasks", total, detail))
    if minimum > total:
        detail = f"must not be more than the replicas of all tasks together, which are {total}"
        errors.append(invalid(f"{path}.minAvailable", minimum, detail))
    return errors


def _plugin_errors(spec: Manifest, path: str, plugins: Set[str]) -> list[FieldError]:
    named = spec.get("plugins") or {}
    errors = [not_supported(f"{path}[{name}]", name, sorted(plugins)) for name in named if name not in plugins]
    if MPI in named:
        master = _flag(named[MPI] or (), "master") or DEFAULT_MPI_MASTER
        if all(task.get("name") != master for task in spec.get("tasks") or ()):
            detail = f'no task is called "{master}"; name the task that starts the others by --master='
            errors.append(invalid(f"{path}[{MPI}]", list(named[MPI] or ()), detail))
    return errors


def _flag(arguments: Sequence[str], name: str) -> str:
    """The value of the last `--name=value` or `--name value`, as Go's flags are written."""
    found = ""
    for index, argument in enumerate(arguments):
        word, equals, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and word == name:
            found = value if equals else next(iter(arguments[index + 1 :]), "")
    return found


def _comparable(spec: Manifest) -> Manifest:
    """What must stay, apart from tasks. The controller writes the name of a claim that it made beside the claim."""
    kept = {name: value for name, value in spec.items() if name != "tasks"}
    if kept.get("volumes"):
        kept["volumes"] = [
            {name: value for name, value in volume.items() if name != "volumeClaimName"}
            if volume.get("volumeClaim") is not None
            else volume
            for volume in kept["volumes"]
        ]
    return kept


def _changed(new: Manifest, old: Manifest, path: str, allowed: frozenset[str]) -> list[FieldError]:
    names = [name for name in {**old, **new} if name not in allowed and new.get(name) != old.get(name)]
    return [forbidden(f"{path}.{name}", _IMMUTABLE) for name in names]
