"""The shell of Volcano Jobs: what happens to pods, PodGroups and commands is the business of the Job they belong to.

Changes of pods are gathered for a moment, longer for bigger Jobs, and where nothing is to be done about them but
counting, once a second, or after all else if they are only new: so the work on a Job grows with its pods and not with
their square. What is remembered here may be lost; it only tells who was evicted, and makes refusals visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.api.volcano.job_status import JobPhase
from allhands.controllers.gathering import COUNT_SECONDS, count_seconds, gather_seconds
from allhands.controllers.left_alone import LeftAlone
from allhands.lifecycle.command import COMMANDS, CommandDocument, decode_command
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.volcano_job import (
    JOBS,
    POD_GROUPS,
    PODS,
    Equipment,
    JobDocument,
    Observed,
    PodGroup,
    TaskPod,
    decode_group,
    decode_job,
    decode_pod,
    reconcile,
)
from allhands.lifecycle.volcano_job.names import KIND, group_name
from allhands.lifecycle.volcano_job.plugins.catalog import plugins_of
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.api.errors import StatusError
    from allhands.lifecycle.volcano_job.extension import KeyPair
    from allhands.ports import Collections, Objects
    from allhands.runtime.workqueue import WorkQueue

COMMAND: Final = "command:"
"""Begins the key of a command whose Job is not there."""
EXPLAIN_SECONDS: Final = 10.0
"""How soon it is seen on a Job that its group waits for another reason than before."""
NEW_PODS_SECONDS: Final = 3.0
"""After the first of its new pods, when a Job is looked at to count those that only wait."""
SETTLE_SECONDS: Final = 5.0
"""After the first look: until then a pod that is not seen may only be late."""
_UNSPOKEN: Final = frozenset(("Conflict", "AlreadyExists", "NotFound"))
"""Refusals that are nobody's fault and say nothing to a user."""


class VolcanoJobController:
    name: Final = "volcano-job"

    def __init__(
        self,
        objects: Objects,
        *,
        scheduler_names: Sequence[str] = (),
        new_keys: Callable[[], KeyPair] | None = None,
        gathers: bool = True,
        pods: Collections | None = None,
    ) -> None:
        """`scheduler_names`: only Jobs are led that one of these places, or that leave it open; all if there are none.
        `new_keys`: makes a pair of keys, for plugins that need one. `gathers`: whether changes are gathered.
        `pods`: by what pods are followed, if not by `objects`."""
        self._scheduler_names = tuple(scheduler_names)
        self._left_alone = LeftAlone(self._scheduler_names)
        self._new_keys = new_keys
        self._gathers = gathers
        self._jobs: Informer[JobDocument] = Informer(objects, JOBS, decode_job, optional=True)
        self._pods: Informer[TaskPod] = Informer(pods or objects, PODS, decode_pod, indexes={"job": _job_of_pod})
        self._groups: Informer[PodGroup] = Informer(objects, POD_GROUPS, decode_group, optional=True)
        self._commands: Informer[CommandDocument] = Informer(
            objects, COMMANDS, decode_command, indexes={"job": _job_of_command}, optional=True
        )
        self._sizes: dict[str, int] = {}
        """How many pods a Job had when it was last looked at."""
        self._writing: dict[str, str] = {}
        """By key of the Job that is being looked at: the version for which its new status was made."""
        self._refusals: dict[str, str] = {}
        self._evicted: dict[str, dict[str, None]] = {}
        """By key of the Job: names of pods that somebody else took away."""
        self._first_look_seconds: float | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._jobs, self._pods, self._groups, self._commands)

    def wire(self, queue: WorkQueue) -> None:
        self._jobs.on_change(lambda key, old, new: self._see_job(queue, key, old, new))
        self._pods.on_change(lambda _key, old, new: self._see_pod(queue, old, new))
        self._groups.on_change(lambda _key, old, new: self._see_group(queue, old, new))
        self._commands.on_change(lambda key, _old, new: self._see_command(queue, key, new))

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._writing.pop(key, None)
        if refusal is None:
            self._refusals.pop(key, None)
        elif refusal.reason not in _UNSPOKEN:
            self._refusals[key] = refusal.message

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        if self._first_look_seconds is None:
            self._first_look_seconds = now_seconds
        if key.startswith(COMMAND):
            return self._reconcile_stray(key.removeprefix(COMMAND), now_seconds)
        job = self._jobs.get(key)
        if job is None:
            return NOTHING_TO_DO
        if not self._is_ours(job):
            return self._left_alone.see(job, now_seconds)
        meta = job.metadata
        pods = [it for it in self._pods.by("job", key) if it.owner_uid == meta.uid]
        self._sizes[key] = len(pods)
        self._writing[key] = meta.resource_version
        observed = Observed(
            pods,
            self._groups.get(f"{meta.namespace}/{group_name(meta.name, meta.uid)}"),
            sorted((it for it in self._commands.by("job", key) if _is_meant(it, job)), key=lambda it: it.order),
            evicted=self._evicted.pop(key, ()),
            refused=self._refusals.get(key, ""),
            is_settled=now_seconds >= self._first_look_seconds + SETTLE_SECONDS,
        )
        plugins = plugins_of(job) if job.spec.plugins else ()
        scheduler = self._scheduler_names[0] if self._scheduler_names else ""
        equipment = Equipment(plugins, self._new_keys, scheduler)
        return reconcile(job, observed, now_seconds, equipment=equipment)

    def _reconcile_stray(self, key: str, now_seconds: float) -> Outcome:
        command = self._commands.get(key)
        if command is None or any(_is_meant(command, job) for job in self._jobs_of(command)):
            return NOTHING_TO_DO
        return command.removed_in_time(self._first_look_seconds or 0.0, now_seconds)

    def _jobs_of(self, command: CommandDocument) -> Iterator[JobDocument]:
        for key in _job_of_command(command):
            job = self._jobs.get(key)
            if job is not None:
                yield job

    def _is_ours(self, job: JobDocument) -> bool:
        name = job.spec.scheduler_name
        return not name or not self._scheduler_names or name in self._scheduler_names

    # -- what concerns whom

    def _see_job(self, queue: WorkQueue, key: str, old: JobDocument | None, new: JobDocument | None) -> None:
        if new is None:
            for memory in (self._sizes, self._writing, self._refusals, self._evicted):
                memory.pop(key, None)
            for command in self._commands.keys_by("job", key):
                queue.add(COMMAND + command)
            return
        if old is not None and self._writing.get(key) == old.metadata.resource_version:
            # What we write ourselves is no news: the machine says when to look again. Should it be another's word,
            # then ours, which is meant for the version before, is refused, and we look again because of that.
            return
        queue.add(key)

    def _see_pod(self, queue: WorkQueue, old: TaskPod | None, new: TaskPod | None) -> None:
        pod = new or old
        if pod is None or not pod.owner_uid:
            return
        key = f"{pod.namespace}/{pod.owner_name}"
        if old is not None and (new is None or new.is_going) and self._is_evicted(key, old):
            self._evicted.setdefault(key, {})[pod.name] = None
        if old is not None and new is not None and old.uid == new.uid:
            if _is_no_news(old, new):
                return
            if new.phase in ("Running", "Succeeded") and old.is_going == new.is_going:
                queue.add_after(key, self._count_seconds(key))
                return
        elif old is None and not pod.has_ended:
            self._see_new_pod(queue, key)
            return
        queue.add_after(key, self._gather_seconds(key))

    def _see_new_pod(self, queue: WorkQueue, key: str) -> None:
        """Most run a moment later, and are told of then. How many wait decides something only where a policy says
        what is to be done about those that wait too long, or are gone."""
        job = self._jobs.get(key)
        if job is None or job.spec.policies or any(it.policies for it in job.spec.tasks or ()):
            queue.add_after(key, self._count_seconds(key))
        else:
            queue.add_after(key, NEW_PODS_SECONDS if self._gathers else 0.0, hurried=False)

    def _is_evicted(self, key: str, pod: TaskPod) -> bool:
        """Whether somebody else took it away. What its Job removes is marked, from before a restart, or not wanted in
        the Job's phase."""
        job = self._jobs.get(key)
        if job is None or pod.is_told or pod.version != (job.status.version or 0):
            return False
        phase = JobPhase.PENDING if job.status.state is None else job.status.state.phase
        return phase in (JobPhase.PENDING, JobPhase.RUNNING)

    def _see_group(self, queue: WorkQueue, old: PodGroup | None, new: PodGroup | None) -> None:
        group = new or old
        owner = None if group is None else group.metadata.controller
        if group is None or owner is None or owner.kind != KIND:
            return
        key = f"{group.metadata.namespace}/{owner.name}"
        if new is None or new.metadata.is_going or (old is None and new.is_open):
            queue.add(key)
        elif old is None:
            return  # it was made a moment ago; there is something to do when it is let in
        elif old.is_open != new.is_open or (old.phase != new.phase and new.phase == "Unknown"):
            queue.add(key)
        elif old.spec != new.spec or old.metadata.annotations != new.metadata.annotations:
            queue.add_after(key, self._gather_seconds(key))
        elif old.waits != new.waits:
            queue.add_after(key, EXPLAIN_SECONDS if old.waits[1] else COUNT_SECONDS)

    def _see_command(self, queue: WorkQueue, key: str, new: CommandDocument | None) -> None:
        if new is None:
            return
        for job_key in _job_of_command(new):
            queue.add(job_key)
            queue.add(COMMAND + key)

    def _count_seconds(self, key: str) -> float:
        """Until the next full second, for what is only to be counted."""
        return count_seconds(self._sizes.get(key, 0)) if self._gathers else 0.0

    def _gather_seconds(self, key: str) -> float:
        return gather_seconds(self._sizes.get(key, 0)) if self._gathers else 0.0


def _job_of_pod(pod: TaskPod) -> Iterator[str]:
    if pod.owner_uid:
        yield f"{pod.namespace}/{pod.owner_name}"


def _job_of_command(command: CommandDocument) -> Iterator[str]:
    if command.target is not None and command.is_for(JOBS.group, KIND):
        yield f"{command.metadata.namespace}/{command.target.name}"


def _is_meant(command: CommandDocument, job: JobDocument) -> bool:
    """Whether it is about this very Job, and not one that had its name before."""
    return command.target is not None and command.target.uid in ("", job.metadata.uid)


def _is_no_news(old: TaskPod, new: TaskPod) -> bool:
    """Whether nothing changed that a Job decides by; most reports of a kubelet are such."""
    return old == new
