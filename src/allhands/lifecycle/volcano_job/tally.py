"""A Job's pods, sorted: which are its own, which are too many or from before a restart, how many are in which phase.

It only counts. A pod counts if it has a place in the spec, was not told to go, and is of the present version; one that
ended well before the Job was resumed counts on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.lifecycle.volcano_job.pod import TaskPod
    from allhands.lifecycle.volcano_job.tasks import Tasks

PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")


class TaskCount:
    """The pods of one task."""

    __slots__ = ("by_index", "fresh", "phases", "present", "restarts", "succeeded_at_all", "up")

    def __init__(self) -> None:
        self.by_index: dict[int, TaskPod] = {}
        """All that have a place, even if they are going or of an earlier version: until they are gone it is taken."""
        self.phases: dict[str, int] = {}
        self.present = 0
        """How many of the present version there are, going or not."""
        self.up = 0
        """How many are ready or have succeeded."""
        self.fresh = 0
        """How many are of the present version, and nobody has told them to go."""
        self.restarts = 0
        """Of containers, in pods that are still on, told to go or not."""
        self.succeeded_at_all = 0
        """How many have succeeded, told to go or not."""

    @property
    def succeeded(self) -> int:
        return self.phases.get("Succeeded", 0)

    @property
    def failed(self) -> int:
        return self.phases.get("Failed", 0)


class Tally:
    """`version`: that of the Job. `renewing`: all pods of earlier versions are on their way out, even those that have
    succeeded."""

    def __init__(self, tasks: Tasks, pods: Iterable[TaskPod], version: int, *, renewing: bool = False) -> None:
        self.tasks = tasks
        self.version = version
        self.renewing = renewing
        self.of = {it.name: TaskCount() for it in tasks.all}
        self.homeless: list[TaskPod] = []
        """Pods without a place: the Job was made smaller."""
        self.outdated: list[TaskPod] = []
        """Pods from before a restart."""
        self.terminating = 0
        for pod in pods:
            self._add(pod)

    def _add(self, pod: TaskPod) -> None:
        task = self.tasks.by_name.get(pod.task)
        if pod.is_going:
            self.terminating += 1
        if task is None or not 0 <= pod.index < task.replicas:
            self.homeless.append(pod)
            return
        count = self.of[pod.task]
        count.by_index[pod.index] = pod
        if pod.version < self.version:
            self.outdated.append(pod)
            if self.renewing or pod.phase != "Succeeded":
                return
        count.present += 1
        if pod.is_going:
            return
        phase = pod.phase if pod.phase in PHASES else "Unknown"
        count.succeeded_at_all += phase == "Succeeded"
        if phase in ("Running", "Pending"):
            count.restarts += pod.restarts
        if pod.is_told:
            return
        count.fresh += pod.version == self.version
        count.phases[phase] = count.phases.get(phase, 0) + 1
        if phase == "Succeeded" or (phase == "Running" and pod.is_ready):
            count.up += 1

    def number(self, phase: str) -> int:
        return sum(it.phases.get(phase, 0) for it in self.of.values())

    def all_pods(self) -> list[TaskPod]:
        """In the order of tasks and indexes, then those without a place."""
        return [
            *(count.by_index[index] for count in self.of.values() for index in sorted(count.by_index)),
            *self.homeless,
        ]
