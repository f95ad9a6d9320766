"""Who is number how many among the processes of a Job: the master's pods first, then the workers, each by its index.

Without a task of the master's name the first worker leads. Pods of other tasks are no part of it and have no number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.api.errors import FieldError, invalid
from allhands.lifecycle.volcano_job.plugins.hosts import hosts_of, task_called, task_names

if TYPE_CHECKING:
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument


class Ranks(NamedTuple):
    size: int
    leader: str
    """The host of number 0."""
    first: dict[str, int]
    """Task -> the number of its first pod."""

    def of(self, task: str, index: int) -> int | None:
        return self.first[task] + index if task in self.first else None


def ranks_of(job: JobDocument, master: str, worker: str) -> Ranks | None:
    """None if nobody is there to be counted."""
    members: list[TaskSpec] = []
    for name in dict.fromkeys((master, worker)):
        task = task_called(job, name)
        if task is not None and task.replicas:
            members.append(task)
    if not members:
        return None
    first: dict[str, int] = {}
    size = 0
    for task in members:
        first[task.name] = size
        size += task.replicas
    return Ranks(size, hosts_of(job, members[0]).full_name(0), first)


def nobody_to_count(job: JobDocument, plugin: str, master: str, worker: str, path: str) -> list[FieldError]:
    """Refuses a Job that has neither of the two tasks."""
    if task_called(job, master) is not None or task_called(job, worker) is not None:
        return []
    there = f"the tasks are {task_names(job)}"
    told = f"no task is called {master!r} or {worker!r}; {there}; name them by --master and --worker"
    return [invalid(path, plugin, told)]
