"""One line about each group: how it is, how many of its pods run, why not more, and when it started or will.

What the scheduler said is repeated in its own words, never guessed; a group about which nobody said anything shows
what its objects show.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.job_status import JobPhase
from allhands.model.pod import PodPhase
from allhands.model.reason import NEVER, Number, Reason, explain
from allhands.model.resources import EMPTY, ResourceVector

if TYPE_CHECKING:
    from allhands.model.group_status import Said
    from allhands.views.groups import Group
    from allhands.views.picture import PodSeen


class GroupState(enum.StrEnum):
    """Of a group, as its owner sees it."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_over(self) -> bool:
        return self in (GroupState.SUCCEEDED, GroupState.FAILED)


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """`why` is the sentence about what is in the way now ("" if nothing is); `told` is all that was said about it."""

    kind: str
    """The word by which to ask for it."""
    full_kind: str
    """As the API's own tools print it."""
    api_group: str
    namespace: str
    name: str
    label: str
    """How to ask about it."""
    queue: str
    state: GroupState
    is_gang: bool
    min_count: int
    ready: int
    total: int
    bound: int
    waiting: int
    succeeded: int
    completions: int | None
    failed: int
    restarts: int
    priority: int
    created_at_seconds: int
    started_at_seconds: int | None = None
    finished_at_seconds: int | None = None
    expected_start_seconds: int | None = None
    is_never: bool = False
    """Whether it cannot start as long as it, the nodes and the quotas stay what they are."""
    reason: str = ""
    why: str = ""
    told: str = ""
    numbers: dict[str, Number] = msgspec.field(default_factory=dict)
    failed_starts: int = 0
    retry_at_seconds: int | None = None
    avoid_nodes: tuple[str, ...] = ()
    preempting_since_seconds: int | None = None
    nodes: tuple[str, ...] = ()
    requests: dict[str, str] = msgspec.field(default_factory=dict)
    """What its pods on nodes hold together."""


def row_of(group: Group) -> GroupRow:
    live = group.live_pods
    state = _state(group)
    waiting = [it for it in live if not it.record.pod.is_bound]
    reason, why, told, expected, numbers = _words(group, state, live, waiting)
    status = group.status
    succeeded = sum(it.record.pod.phase is PodPhase.SUCCEEDED for it in group.pods)
    is_over = state.is_over
    return GroupRow(
        kind=group.kind,
        full_kind=group.full_kind,
        api_group=group.api_group,
        namespace=group.namespace,
        name=group.name,
        label=group.label,
        queue=group.queue,
        state=state,
        is_gang=group.is_gang,
        min_count=group.min_count if group.is_gang else min(1, group.min_count),
        ready=sum(it.is_ready for it in live),
        total=_total(group, live),
        bound=len(live) - len(waiting),
        waiting=0 if is_over else len(waiting),
        succeeded=max(succeeded, group.job.succeeded) if group.job is not None else succeeded,
        completions=_completions(group),
        failed=max(_failed(group), group.job.failed if group.job is not None else 0),
        restarts=sum(it.restarts for it in group.pods),
        priority=_priority(group),
        created_at_seconds=group.declared.created_at_seconds,
        started_at_seconds=None if state is GroupState.WAITING else _started(group),
        finished_at_seconds=_finished(group) if is_over else None,
        expected_start_seconds=expected,
        is_never=reason in _NEVER or numbers.get("never") == 1,
        reason=reason,
        why=why,
        told=told,
        numbers=numbers,
        failed_starts=status.failed_starts,
        retry_at_seconds=status.retry_at_seconds or None,
        avoid_nodes=status.avoid_nodes,
        preempting_since_seconds=status.preempting_since_seconds,
        nodes=tuple(sorted({it.record.pod.node_name for it in live if it.record.pod.is_bound})),
        requests=held_by(group).to_quantities(),
    )


def held_by(group: Group) -> ResourceVector:
    """What its nodes must count; pods that are leaving still hold theirs."""
    total = EMPTY
    for seen in group.pods:
        if seen.record.pod.holds_resources:
            total = total + seen.record.pod.requests
    return total


def _state(group: Group) -> GroupState:
    if group.job is not None and (group.job.is_failed or group.job.is_complete):
        return GroupState.FAILED if group.job.is_failed else GroupState.SUCCEEDED
    pods = [it.record.pod for it in group.pods]
    if not pods and group.pod_group is not None and (end := _ENDS.get(group.pod_group.record.written.phase)):
        return end  # all that is left of it is what was written down
    need = max(1, group.min_count if group.is_gang else 1)
    if group.job is None and len(pods) >= need and all(pod.is_finished for pod in pods):
        return GroupState.FAILED if any(pod.phase is PodPhase.FAILED for pod in pods) else GroupState.SUCCEEDED
    live = [it.record.pod for it in group.live_pods]
    running = sum(pod.phase is PodPhase.RUNNING for pod in live)
    done = sum(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    done = max(done, group.job.succeeded) if group.job is not None else done
    if (running and running + done >= need) or _is_closing(group, done):
        return GroupState.RUNNING
    return GroupState.STARTING if any(pod.is_bound for pod in live) else GroupState.WAITING


_NEVER: Final = frozenset(it.value for it in NEVER)
_ENDS: Final = {
    "Completed": GroupState.SUCCEEDED,
    "Finished": GroupState.SUCCEEDED,
    "Failed": GroupState.FAILED,
}
"""The last words of Volcano's and coscheduling's PodGroups."""


def _is_closing(group: Group, done: int) -> bool:
    """Whether all that is left to do is to write down how the Job ended."""
    if group.job is None or group.declared.suspended:
        return False
    if group.job.is_ending:
        return True
    wanted = 1 if group.job.completions is None else group.job.completions
    return 0 < wanted <= done and not group.live_pods


def _priority(group: Group) -> int:
    """What it is ranked by: its own where it has one, whatever its pods have."""
    if group.declared.priority is not None:
        return group.declared.priority
    return max((it.record.pod.priority for it in group.pods), default=0)


def _total(group: Group, live: tuple[PodSeen, ...]) -> int:
    if group.job is None:
        return max(len(live), group.min_count) if group.is_gang else len(live)
    if group.job.completions is None:
        return max(len(live), group.declared.size)
    return max(len(live), min(group.declared.size, group.job.completions - group.job.succeeded))


def _completions(group: Group) -> int | None:
    if group.job is None:
        return len(group.pods) or None
    return group.declared.size if group.job.completions is None else group.job.completions


def _failed(group: Group) -> int:
    return sum(it.record.pod.phase is PodPhase.FAILED for it in group.pods)


def _started(group: Group) -> int | None:
    """When its first pod that is still known began; of a Job that is not a gang, the Job's own word will do."""
    moments = [it.record.pod.started_at_seconds for it in group.pods if it.record.pod.started_at_seconds is not None]
    first = min(moments, default=None)
    return group.job.started_at_seconds if first is None and group.job is not None else first


def _finished(group: Group) -> int | None:
    if group.job is not None:
        return group.job.finished_at_seconds
    return max((it.finished_at_seconds for it in group.pods if it.finished_at_seconds is not None), default=None)


_Words = tuple[str, str, str, int | None, dict[str, Number]]
"""Reason, sentence, all that was told, expected start, numbers."""
_NOTHING: Final[_Words] = ("", "", "", None, {})


def _words(group: Group, state: GroupState, live: tuple[PodSeen, ...], waiting: list[PodSeen]) -> _Words:
    if state is GroupState.SUCCEEDED:
        return _NOTHING
    if state is GroupState.FAILED:
        why = (group.job.verdict if group.job is not None else "") or trouble_of(group.pods)
        return "", why, why, None, {}
    if state is GroupState.WAITING:
        return _why_waiting(group, waiting)
    if group.job is not None and _restarts(group):
        return "", group.job.told, group.job.told, None, {}
    words = ""
    if waiting:
        said = _why_some_wait(group, waiting)
        words = (
            f"{len(waiting)} of {len(live)} pods wait: {said}" if said else f"{len(waiting)} of {len(live)} pods wait."
        )
    elif trouble := trouble_of(live):
        words = trouble
    elif not live:
        words = "Its pods have ended; the Job is about to."
    elif state is GroupState.STARTING:
        running = sum(it.record.pod.phase is PodPhase.RUNNING for it in live)
        words = f"{running} of {len(live)} pods have started."
        if failed := _failed(group):
            words = (
                f"{running} of {len(live)} pods run, and {failed} have failed; {group.min_count} were to run together."
            )
    return "", words, words, None, {}


def _why_waiting(group: Group, waiting: list[PodSeen]) -> _Words:
    if group.declared.suspended:
        told = group.job.told if group.job is not None else ""
        return (Reason.SUSPENDED.value, told, told, None, {}) if told else _standard(Reason.SUSPENDED)
    if group.declared.problem:
        return _standard(Reason.INVALID, problem=group.declared.problem)
    if group.pod_group is not None and group.pod_group.record.problem:
        return _standard(Reason.INVALID, problem=group.pod_group.record.problem)
    if not group.pods and group.pod_group is not None and group.pod_group.is_never and not _restarts(group):
        return Reason.GROUP_NEVER_FITS.value, group.pod_group.told, group.pod_group.told, None, {}
    if not group.pods and group.job is not None and group.job.told:
        return "", group.job.told, group.job.told, None, {}  # nobody knows better why it has no pods
    if not group.pods and group.pod_group is not None and group.pod_group.told:
        return "", group.pod_group.told, group.pod_group.told, None, {}  # it is not let in, so it has no pods
    said = group.status.said
    told = _most_common([it.told for it in waiting]) or (group.pod_group.told if group.pod_group is not None else "")
    if said is None and not group.is_gang:
        said = next((it.record.status.said for it in waiting if it.record.status.said is not None), None)
    if said is not None:
        return _as_said(said, told)
    told = told or (group.job.told if group.job is not None else "")
    if told:
        return "", told, told, None, {}
    need = max(group.declared.size if group.job is not None else group.min_count, 1)
    if len(waiting) < need:
        return _standard(Reason.GANG_INCOMPLETE, have=len(waiting), need=need)
    return _NOTHING


def _restarts(group: Group) -> bool:
    return group.job is not None and group.job.phase == JobPhase.RESTARTING


def _as_said(said: Said, told: str) -> _Words:
    sentence = str(said.explanation)
    # A pod may have been told the same with more: who stands in the way of an answer.
    whole = told if told.startswith(sentence) else sentence
    numbers = dict(said.explanation.numbers)
    return said.explanation.reason.value, sentence, whole, said.expected_start_seconds, numbers


def _standard(reason: Reason, **numbers: Number) -> _Words:
    sentence = str(explain(reason, **numbers))
    return reason.value, sentence, sentence, None, numbers


def _why_some_wait(group: Group, waiting: list[PodSeen]) -> str:
    said = group.status.said if group.is_gang else None
    return _most_common([it.told for it in waiting]) or (str(said.explanation) if said is not None else "")


def _most_common(texts: list[str]) -> str:
    counted = Counter(text for text in texts if text)
    return counted.most_common(1)[0][0] if counted else ""


def trouble_of(pods: tuple[PodSeen, ...]) -> str:
    """What is wrong on nodes: the first pod's trouble, and how many others are in trouble."""
    troubled = [it for it in pods if it.trouble]
    if not troubled:
        return ""
    first = f"pod {troubled[0].record.pod.name}: {troubled[0].trouble}"
    return first if len(troubled) == 1 else f"{first} (and {len(troubled) - 1} more)"
