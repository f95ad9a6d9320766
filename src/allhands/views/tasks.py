"""The tasks of a Job that has several, or some that wait for others: how far each is, and who waits for whom.

It counts as the machine of Jobs does: a task is up when its minimum is ready or has succeeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.model.pod import PodPhase

if TYPE_CHECKING:
    from allhands.views.groups import Group
    from allhands.views.picture import PodSeen, TaskSeen

TASKS_SHOWN: Final = 12


def task_lines(group: Group) -> list[str]:
    tasks = group.job.tasks if group.job is not None else ()
    if len(tasks) < 2:
        return []
    pods: dict[str, list[PodSeen]] = {task.name: [] for task in tasks}
    for seen in group.pods:
        if not seen.record.pod.deleting:
            pods.get(seen.record.task, []).append(seen)
    up = {name: sum(_is_up(it) for it in found) for name, found in pods.items()}
    needs = {task.name: task.minimum for task in tasks}
    lines = [f"{task.name}: {_how_it_is(task, pods[task.name], up, needs)}" for task in tasks[:TASKS_SHOWN]]
    return [*lines, f"and {len(tasks) - TASKS_SHOWN} more"] if len(tasks) > TASKS_SHOWN else lines


def _how_it_is(task: TaskSeen, pods: list[PodSeen], up: dict[str, int], needs: dict[str, int]) -> str:
    awaited = [name for name in task.after if up.get(name, 0) < needs.get(name, 1)]
    is_held = bool(awaited) and (not task.after_any or len(awaited) == len(task.after))
    if is_held and not pods:
        each = [
            f"{name} ({up.get(name, 0)} of {needs[name]} pods are up)" if name in needs else name for name in awaited
        ]
        return f"waits for {' or '.join(each) if task.after_any else ' and '.join(each)}; its pods are made after that"
    on_nodes = sum(it.record.pod.is_bound and not it.record.pod.is_finished for it in pods)
    done = sum(it.record.pod.phase is PodPhase.SUCCEEDED for it in pods)
    words = [f"{len(pods)} of {task.replicas} pods exist", f"{on_nodes} on nodes"]
    words += [f"{done} succeeded"] if done else []
    words += [f"{failed} failed"] if (failed := sum(it.record.pod.phase is PodPhase.FAILED for it in pods)) else []
    return ", ".join(words)


def _is_up(seen: PodSeen) -> bool:
    return seen.is_ready or seen.record.pod.phase is PodPhase.SUCCEEDED
