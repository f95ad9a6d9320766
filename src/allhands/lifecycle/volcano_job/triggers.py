"""What has happened to pods, tasks and the group that a policy has an answer to.

Read from what is there, not from a stream of events: whoever looks late, or again after a crash, finds the same. A pod
whose Job has told it to go, or which is from before a restart, is no news. That a pod is gone without a trace is seen
by the status, which says how many there were. Since when something is so is read from objects, or noted (`clocks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.api.volcano.lifecycle_policy import Action, Event
from allhands.lifecycle.volcano_job.durations import duration_seconds
from allhands.lifecycle.volcano_job.names import JOB_GENERATION, pod_name
from allhands.lifecycle.volcano_job.transitions import PARTIAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allhands.api.volcano.job import JobSpec
    from allhands.api.volcano.lifecycle_policy import LifecyclePolicy
    from allhands.lifecycle.volcano_job.clocks import Clocks
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.inputs import Observed
    from allhands.lifecycle.volcano_job.pod import TaskPod
    from allhands.lifecycle.volcano_job.pod_group import PodGroup
    from allhands.lifecycle.volcano_job.tally import Tally
    from allhands.lifecycle.volcano_job.tasks import Task

DEFAULT_TASK_RETRIES: Final = 3
NO_LIMIT: Final = -1
LONGEST_INDEX: Final = 7


class Trigger(NamedTuple):
    """Something that has happened, and what is to be done about it from a moment on."""

    due_seconds: float
    event: Event
    action: Action
    text: str
    """What happened, for people."""
    task: str = ""
    """"" if it is about the whole Job."""
    place: int = -1
    """The index of the pod, -1 if it is about the whole task."""


def policy_for(spec: JobSpec, task: Task | None, event: Event, codes: Sequence[int] = ()) -> LifecyclePolicy | None:
    """The first that fits: those of the task go before those of the Job. What is about waiting fits only with a
    time-out, since everybody waits at first."""
    for policies in (() if task is None else task.spec.policies or (), spec.policies or ()):
        for policy in policies:
            if policy.action is not None and _fits(policy, event, codes):
                return policy
    return None


def _fits(policy: LifecyclePolicy, event: Event, codes: Sequence[int]) -> bool:
    named = policy.events or ()
    if policy.event is not None:
        named = (*named, policy.event)
    if (event in named or Event.ANY in named) and (event is not Event.POD_PENDING or policy.timeout):
        return True
    return policy.exit_code is not None and policy.exit_code in codes


def find_triggers(job: JobDocument, tally: Tally, observed: Observed, clocks: Clocks, now: float) -> list[Trigger]:
    """All of them, those that are due first. One that is due later is among them."""
    found = [*_of_the_whole(job, observed.group, clocks, now)]
    if job.spec.policies or any(it.spec.policies for it in tally.tasks.all):
        for task in tally.tasks.all:
            found += _of_task(job, task, tally, clocks, now)
            found += _of_evicted(job, task, tally, observed, clocks, now)
            found += _of_pods(job, task, tally)
    return sorted(found, key=lambda it: it.due_seconds)


def _trigger(
    policy: LifecyclePolicy | None, event: Event, since_seconds: float, text: str, task: str = "", place: int = -1
) -> Iterator[Trigger]:
    if policy is not None and policy.action is not None:
        delay = duration_seconds(policy.timeout) or 0.0
        yield Trigger(since_seconds + delay, event, policy.action, text, task, place)


def _since(policy: LifecyclePolicy, clocks: Clocks, what: str, seen_seconds: float) -> float:
    """Only a time-out needs to know it for longer than a look."""
    return clocks.since(what, seen_seconds) if duration_seconds(policy.timeout) else seen_seconds


def _of_the_whole(job: JobDocument, group: PodGroup | None, clocks: Clocks, now: float) -> Iterator[Trigger]:
    """Partial restarts have nothing to restart here: what happened is about no task. That the spec was changed stays
    so until it is answered; the group is brought up to it in the meantime."""
    happened = []
    if group is not None and group.phase == "Unknown":
        happened.append((Event.JOB_UNKNOWN, "Too few of its pods are left on nodes."))
    if group is not None and (is_behind(group, job) or Event.JOB_UPDATED in clocks):
        happened.append((Event.JOB_UPDATED, "Its spec was changed."))
    for event, text in happened:
        policy = policy_for(job.spec, None, event)
        if policy is not None and policy.action not in PARTIAL:
            yield from _trigger(policy, event, _since(policy, clocks, event, now), text)


def is_behind(group: PodGroup, job: JobDocument) -> bool:
    """Whether the Job's spec was changed since the group was last brought up to it."""
    noted = group.metadata.annotation(JOB_GENERATION)
    return bool(noted) and noted != str(job.metadata.generation)


def _of_task(job: JobDocument, task: Task, tally: Tally, clocks: Clocks, now: float) -> Iterator[Trigger]:
    """It stays so until all of its pods are told to go: a restart that is cut off in the middle is taken up again."""
    count = tally.of[task.name]
    if not count.fresh:  # what had succeeded before the Job was resumed is no news
        return
    if count.succeeded_at_all >= task.replicas:
        since = max(it.ended_at_seconds for it in count.by_index.values())
        text = f"All pods of task {task.name} have succeeded."
        policy = policy_for(job.spec, task, Event.TASK_COMPLETED)
        yield from _trigger(policy, Event.TASK_COMPLETED, since, text, task.name)
    limit = task.spec.max_retry or DEFAULT_TASK_RETRIES
    if limit != NO_LIMIT and count.restarts >= limit:
        text = f"Containers of task {task.name} were restarted {count.restarts} times, and may be {limit} times."
        policy = policy_for(job.spec, task, Event.TASK_FAILED)
        if policy is not None:
            since = _since(policy, clocks, f"{Event.TASK_FAILED}/{task.name}", now)
            yield from _trigger(policy, Event.TASK_FAILED, since, text, task.name)


def lost_pods(recorded: Mapping[str, int], task: Task, tally: Tally) -> int:
    """How many pods of a task the status has counted that are gone without a trace."""
    return max(0, min(recorded.get(task.name, 0), task.replicas) - tally.of[task.name].present)


def recorded_pods(job: JobDocument) -> dict[str, int]:
    """Task -> how many pods its status has counted."""
    counts = job.status.task_status_count or {}
    return {name: sum((it.phase or {}).values()) for name, it in counts.items()}


def _of_evicted(
    job: JobDocument, task: Task, tally: Tally, observed: Observed, clocks: Clocks, now: float
) -> Iterator[Trigger]:
    """With a time-out it is waited whether those that take their places come up."""
    policy = policy_for(job.spec, task, Event.POD_EVICTED)
    if policy is None:
        return
    taken = tally.of[task.name].by_index
    going = {index: pod for index, pod in taken.items() if pod.is_going and _is_news(pod, tally)}
    gone = _gone_places(job, task, tally, observed)
    if not duration_seconds(policy.timeout):
        for index, pod in going.items():
            text = f"Pod {pod.name} was told to go by somebody else."
            yield from _trigger(policy, Event.POD_EVICTED, pod.gone_at_seconds, text, task.name, index)
        text = f"{len(gone)} pods of task {task.name} are gone." if len(gone) > 1 else f"A pod of {task.name} is gone."
        for index in gone:
            yield from _trigger(policy, Event.POD_EVICTED, now, text, task.name, index)
        return
    seen = {index: pod.gone_at_seconds for index, pod in going.items()} | dict.fromkeys(gone, now)
    for index in (*_waited_for(task, tally, clocks), *seen):
        since = clocks.since(eviction_clock(task.name, index), seen.get(index, now))
        text = f"Pod {pod_name(job.metadata.name, task.name, index)} was evicted, and its place is not filled yet."
        yield from _trigger(policy, Event.POD_EVICTED, since, text, task.name, index)


def eviction_clock(task: str, index: int) -> str:
    return f"{Event.POD_EVICTED}/{task}/{index}"


def _gone_places(job: JobDocument, task: Task, tally: Tally, observed: Observed) -> list[int]:
    """Of pods that are gone without having been told to: by the count of the status, or by what was seen."""
    number = lost_pods(recorded_pods(job), task, tally)
    if not number and not observed.evicted:
        return []
    taken = tally.of[task.name].by_index
    missing = [it for it in range(task.replicas) if it not in taken]
    named = [it for it in missing if pod_name(job.metadata.name, task.name, it) in observed.evicted]
    return named if len(named) >= number else missing[:number]


def _waited_for(task: Task, tally: Tally, clocks: Clocks) -> Iterator[int]:
    """Places of evicted pods that nobody has filled yet."""
    taken = tally.of[task.name].by_index
    for text in clocks.below(f"{Event.POD_EVICTED}/{task.name}"):
        index = int(text) if text.isascii() and text.isdigit() and len(text) < LONGEST_INDEX else task.replicas
        pod = taken.get(index)
        waits = pod is None or (_is_news(pod, tally) and (pod.is_going or pod.phase == "Pending"))
        if index < task.replicas and waits:
            yield index


def _is_news(pod: TaskPod, tally: Tally) -> bool:
    return not pod.is_told and pod.version >= tally.version


def _of_pods(job: JobDocument, task: Task, tally: Tally) -> Iterator[Trigger]:
    spec = job.spec
    waits = policy_for(spec, task, Event.POD_PENDING)
    for index, pod in tally.of[task.name].by_index.items():
        if pod.is_going or not _is_news(pod, tally):
            continue
        if pod.phase == "Failed":
            policy = policy_for(spec, task, Event.POD_FAILED, pod.exit_codes)
            text = f"Pod {pod.name} has failed{_codes_text(pod)}."
            yield from _trigger(policy, Event.POD_FAILED, pod.ended_at_seconds, text, task.name, index)
        elif pod.phase == "Pending" and waits is not None:
            text = f"Pod {pod.name} has waited for {waits.timeout}."
            yield from _trigger(waits, Event.POD_PENDING, pod.created_at_seconds, text, task.name, index)


def _codes_text(pod: TaskPod) -> str:
    codes = sorted({it for it in pod.exit_codes if it})
    return f" with exit code {', '.join(map(str, codes))}" if codes else ""


def targets_of(trigger: Trigger, tally: Tally) -> list[TaskPod]:
    """The pods that a partial restart is about, of those that are there. What happened to a whole task is about all of
    its pods; in a task without partitions each pod is one."""
    task = tally.tasks.by_name.get(trigger.task)
    if task is None:
        return []
    by_index = tally.of[task.name].by_index
    pods = [by_index[index] for index in sorted(by_index)]
    if trigger.action is Action.RESTART_TASK or trigger.place < 0:
        return pods
    if trigger.action is Action.RESTART_PARTITION and task.partition_size:
        part = task.partition_of(trigger.place)
        return [it for it in pods if task.partition_of(it.index) == part]
    return [it for it in pods if it.index == trigger.place]
