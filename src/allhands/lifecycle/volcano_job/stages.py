"""Tasks that wait for others (`dependsOn`), together with gangs.

What is promised: the tasks that wait for nobody are the first stage; its minimum starts together or not at all. The
pods of a task that waits are made when those it waits for are up (their minimum is ready, or has succeeded), and then
its own minimum starts together or not at all, as a sub-group of the same PodGroup. A later stage that finds no room
waits; it never takes the earlier ones down, and the room for all of them is asked of the queue before the first pod is
made. A task that waits for one that can never come up any more ends the Job. Nothing here blocks: who is not up yet is
asked again at the next look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.lifecycle.volcano_job.tally import Tally
    from allhands.lifecycle.volcano_job.tasks import Task, Tasks


def may_begin(task: Task, tally: Tally) -> bool:
    """Whether those that it waits for are up."""
    if not task.after:
        return True
    answers = [_is_up(name, tally) for name in task.after]
    return any(answers) if task.after_any else all(answers)


def _is_up(name: str, tally: Tally) -> bool:
    awaited = tally.tasks.by_name.get(name)
    return awaited is not None and tally.of[name].up >= awaited.minimum


def why_never(tally: Tally) -> str:
    """What keeps a task from ever beginning, "" if nothing does."""
    beginnable = _beginnable(tally.tasks)
    for task in tally.tasks.later:
        if task.name not in beginnable:
            return f"Task {task.name} waits for {', '.join(task.after)}: a task that is not there, or waits for it."
        if tally.of[task.name].present or not task.replicas or may_begin(task, tally):
            continue
        lost = [name for name in task.after if _is_over(name, tally)]
        if lost and (not task.after_any or len(lost) == len(task.after)):
            return f"Task {task.name} waits for {lost[0]}, too many of whose pods have failed."
    return ""


def _is_over(name: str, tally: Tally) -> bool:
    """Whether all of its pods have ended, and too few of them well."""
    awaited, count = tally.tasks.by_name[name], tally.of[name]
    return (
        awaited.replicas > 0
        and count.succeeded + count.failed == awaited.replicas
        and count.succeeded < awaited.minimum
    )


def _beginnable(tasks: Tasks) -> set[str]:
    """Names of tasks whose turn can come at all."""
    reached = {it.name for it in tasks.first}
    while True:
        more = {it.name for it in tasks.later if it.name not in reached and _can_follow(it, reached)}
        if not more:
            return reached
        reached |= more


def _can_follow(task: Task, reached: set[str]) -> bool:
    answers = [name in reached for name in task.after]
    return any(answers) if task.after_any else all(answers)
