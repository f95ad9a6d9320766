"""One look at a Volcano Job, its pods, its PodGroup and its commands: what to write now, and when to look again.

Level-triggered: it decides by what is observed and keeps nothing. At most one status is written in one look, guarded by
the Job's version, before any pod is made or told to go on its account; so what the status counts is what will be left,
and a pod that is missing from it was taken away by somebody else. The first waits until there is something to say: a
Job without a status is as good as one that says Pending. A crash after any of the instructions, with
neighbours of one kind in any order, changes nothing in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_status import JobPhase
from allhands.api.volcano.lifecycle_policy import Action, Event
from allhands.lifecycle.changes import object_reference
from allhands.lifecycle.instructions import NOTHING_TO_DO, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.volcano_job.clocks import clocks_of
from allhands.lifecycle.volcano_job.documents import JOBS
from allhands.lifecycle.volcano_job.group_making import group_update, new_group
from allhands.lifecycle.volcano_job.inputs import Equipment, Observed
from allhands.lifecycle.volcano_job.names import API_VERSION, JOB_VERSION, KIND, OUT_OF_SYNC, POD_GROUPS, PODS
from allhands.lifecycle.volcano_job.preparations import keeping_up, preparations, removals, without_plugins
from allhands.lifecycle.volcano_job.retries import FLOW_SECONDS, most_retries, pause_seconds
from allhands.lifecycle.volcano_job.status import StatusDraft
from allhands.lifecycle.volcano_job.supply import missing_pods, pods_text
from allhands.lifecycle.volcano_job.tally import Tally
from allhands.lifecycle.volcano_job.tasks import Tasks
from allhands.lifecycle.volcano_job.transitions import PARTIAL, Finding, transition, transition_table
from allhands.lifecycle.volcano_job.triggers import (
    Trigger,
    eviction_clock,
    find_triggers,
    is_behind,
    lost_pods,
    recorded_pods,
    targets_of,
)
from allhands.lifecycle.volcano_job.verdict import while_pending, while_running, why_pending

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.lifecycle.command import CommandDocument
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.pod import TaskPod
    from allhands.lifecycle.volcano_job.pod_group import PodGroup
    from allhands.lifecycle.volcano_job.transitions import Cause
    from allhands.lifecycle.volcano_job.verdict import Found

FIRST_WORD_SECONDS: Final = 3.0
"""After its group or its pods were made, by when a Job has a status whatever there is to say. Moments of creation are
whole seconds, so it may be one earlier."""


def reconcile(
    job: JobDocument,
    observed: Observed,
    now_seconds: float,
    *,
    equipment: Equipment | None = None,
) -> Outcome:
    if job.metadata.is_going:
        return NOTHING_TO_DO  # what it owns goes with it
    return _Look(job, observed, now_seconds, equipment or Equipment()).outcome()


class _Look:
    """The state of one look, from what is observed to the instructions."""

    def __init__(self, job: JobDocument, observed: Observed, now_seconds: float, equipment: Equipment) -> None:
        self._job = job
        self._observed = observed
        self._now_seconds = now_seconds
        self._equipment = equipment
        self._tasks = Tasks(job.spec)
        self._draft = StatusDraft(job.status, job.metadata.created_seconds, now_seconds)
        self._before: list[Instruction] = []
        """What is done before the status is written."""
        self._after: list[Instruction] = []
        self._events: list[Record] = []
        self._doomed: dict[str, TaskPod] = {}
        """By uid, pods that this look tells to go."""
        self._makes_pods = False
        self._wakes: list[float] = []
        if self._draft.phase is None:
            self._draft.begin()
        self._tally = self._counted()
        self._clocks = clocks_of(observed.group, self._draft.version)

    def _counted(self) -> Tally:
        draft = self._draft
        renewing = draft.phase is JobPhase.RESTARTING and draft.reason == Action.RESTART_JOB
        return Tally(self._tasks, self._observed.pods, draft.version, renewing=renewing)

    @property
    def _phase(self) -> JobPhase:
        assert self._draft.phase is not None
        return self._draft.phase

    def outcome(self) -> Outcome:
        if self._observed.commands:
            self._obey(self._observed.commands[0])
        elif self._phase is JobPhase.RESTARTING:
            self._restart()
        elif self._phase in (JobPhase.PENDING, JobPhase.RUNNING):
            if not self._is_sure():
                return Outcome((), self._now_seconds + 1.0)
            self._live()
        else:
            self._wind_down()
        return self._written()

    def _is_sure(self) -> bool:
        """Whether no pod is missing that may only be late."""
        if self._observed.is_settled:
            return True
        recorded = recorded_pods(self._job)
        return not any(lost_pods(recorded, task, self._tally) for task in self._tasks.all)

    # -- what somebody asks for

    def _obey(self, command: CommandDocument) -> None:
        """A command is done before it is thrown away, and nothing else in the same look. Should the end come between
        the two, it finds the Job in a phase in which it does nothing, and is only thrown away."""
        meta = command.metadata
        row = transition(self._phase, Action(command.action)) if command.action in _COMMANDS else None
        if row is None:
            text = f"Command {meta.name} asks for {command.action or 'nothing'}, {_why_ignored(command, self._phase)}."
            self._tell("Warning", "CommandIgnored", text)
        else:
            self._follow(row.cause, command.message or command.reason or f"Command {meta.name} asks for it.")
            self._tell("Normal", "CommandIssued", f"Command {meta.name}: {row.cause}.")
        self._after.append(command.removal())
        self._wakes.append(self._now_seconds)

    def _follow(self, cause: Cause, message: str = "", reason: str = "") -> None:
        row = transition(self._phase, cause)
        assert row is not None
        self._draft.follow(row, reason, message)
        if cause is Action.RESUME_JOB:
            # Some of it may be gone already, though it is still noted: who makes it again finds what is left.
            self._draft.controlled = without_plugins(self._draft.controlled)
        self._tally = self._counted()
        if self._phase not in (JobPhase.PENDING, JobPhase.RUNNING):
            self._wakes.append(self._now_seconds)
        most = most_retries(self._job.spec)
        if row.retry and self._draft.retries >= most:
            text = f"All {most} attempts have failed (spec.maxRetry): {message}"
            self._draft.version -= row.renews  # nothing is made anew
            self._follow(Finding.RETRIES_ARE_USED_UP, text)
            return
        if self._phase.is_over:
            good = self._phase is JobPhase.COMPLETED
            self._tell("Normal" if good else "Warning", self._draft.reason, self._draft.message or self._phase.value)

    # -- phases

    def _live(self) -> None:
        triggers = find_triggers(self._job, self._tally, self._observed, self._clocks, self._now_seconds)
        useful = [it for it in triggers if transition(self._phase, it.action) is not None]
        due = [it for it in useful if it.due_seconds <= self._now_seconds]
        if due:
            self._act(due)
            return
        self._wakes += [it.due_seconds for it in useful[:1]]
        self._before += self._clock_notes()
        self._find_and_supply()

    def _find_and_supply(self) -> None:
        self._find()
        if self._phase.is_over:
            self._wind_down()
        else:
            self._supply()

    def _act(self, due: Sequence[Trigger]) -> None:
        first = due[0]
        self._tell("Normal", "ExecuteAction", f"{first.event}: {first.action}. {first.text}")
        tally = self._tally
        self._follow(first.action, first.text)
        if first.action in PARTIAL and not self._phase.is_over:
            self._restart_parts([it for it in due if it.action in PARTIAL], tally)

    def _restart_parts(self, triggers: Sequence[Trigger], tally: Tally) -> None:
        """Those that only go along are marked first, and what it all comes from last: until then a look that is cut off
        finds it again. Whoever is marked is told to go, now or at the next look."""
        targets = {pod.uid: pod for it in triggers for pod in targets_of(it, tally)}
        places = {(it.task, it.place) for it in triggers}
        causes = [pod for pod in targets.values() if (pod.task, pod.index) in places or (pod.task, -1) in places]
        along = [pod for pod in targets.values() if pod not in causes]
        self._before += [_mark(pod) for pod in along if not pod.is_told]
        self._after += [_mark(pod) for pod in causes if not pod.is_told]
        self._tell_to_go(targets.values())
        for it in triggers:
            if it.event is Event.POD_EVICTED:
                self._clocks.forget(eviction_clock(it.task, it.place))
        self._after += self._clock_notes()

    def _clock_notes(self) -> list[Patch]:
        """On a group that is to stay."""
        group = self._observed.group
        if group is None or group.metadata.is_going or self._is_old(group):
            return []
        patch = self._clocks.patch(group)
        return [] if patch is None else [patch]

    def _find(self) -> None:
        """Follows what is found, from Pending to Running to the end, as far as it goes."""
        if self._phase is JobPhase.PENDING:
            self._found(while_pending(self._tally) if self._is_begun else None)
        if self._phase is JobPhase.RUNNING:
            self._found(while_running(self._job.spec, self._tally))

    @property
    def _is_begun(self) -> bool:
        return self._observed.group is not None and self._observed.group.is_open

    def _found(self, found: Found | None) -> None:
        if found is not None:
            self._follow(found.finding, found.text)

    def _restart(self) -> None:
        draft, tally = self._draft, self._tally
        if draft.reason != Action.RESUME_JOB and draft.retries >= most_retries(self._job.spec):
            self._follow(Finding.RETRIES_ARE_USED_UP, draft.message)
            return
        triggers = find_triggers(self._job, tally, self._observed, self._clocks, self._now_seconds)
        partial = [it for it in triggers if it.action in PARTIAL and it.due_seconds <= self._now_seconds]
        if partial:
            self._restart_parts(partial, tally)
            return
        self._tell_to_go(self._no_longer_wanted())
        self._remove_old_group()
        over_at = draft.since_seconds
        if draft.reason != Action.RESUME_JOB:
            over_at += pause_seconds(draft.retries)
        if self._doomed or self._after or self._tasks.replicas - tally.terminating < self._tasks.minimum:
            return
        if self._now_seconds < over_at:
            self._wakes.append(over_at)
            return
        self._follow(Finding.OLD_PODS_ARE_GOING, draft.message)
        self._find_and_supply()

    def _no_longer_wanted(self) -> list[TaskPod]:
        """Pods that are marked, have no place, or are from before a restart; what succeeded before the Job was resumed
        stays, if its place is still there."""
        told = [pod for count in self._tally.of.values() for pod in count.by_index.values() if pod.is_told]
        renewing = self._phase is JobPhase.RESTARTING and self._draft.reason == Action.RESTART_JOB
        return [
            *told,
            *self._tally.homeless,
            *(it for it in self._tally.outdated if renewing or it.phase != "Succeeded"),
        ]

    def _wind_down(self) -> None:
        """Nothing runs on. What has ended stays, for people to look at."""
        pods = self._observed.pods
        nothing_runs = all(it.has_ended and not it.is_going for it in pods)
        if nothing_runs:
            row = transition(self._phase, Finding.NOTHING_RUNS)
            if row is not None:
                self._follow(Finding.NOTHING_RUNS, self._draft.message, self._draft.reason)
        self._tell_to_go(it for it in pods if not it.has_ended)
        group = self._observed.group
        if group is not None and not group.metadata.is_going:
            self._after.append(_group_removal(group))
        if self._phase.is_over:
            self._live_out()
        if nothing_runs and not self._after:
            self._tidy_up()

    def _tidy_up(self) -> None:
        """What plugins made goes before it is forgotten that it is there, and only when the end is written down: should
        it not be possible to remove it, that is no reason to keep anybody from learning of the end."""
        stored = self._job.status.state
        if stored is None or stored.phase is not self._phase or transition(self._phase, Finding.NOTHING_RUNS):
            return
        old = removals(self._job, self._equipment.plugins, self._draft.controlled)
        if old:
            self._before += old
            self._draft.controlled = without_plugins(self._draft.controlled)

    def _live_out(self) -> None:
        limit = self._job.spec.ttl_seconds_after_finished
        if limit is None:
            return
        owner = self._job.metadata.controller
        is_of_flow = owner is not None and owner.kind == JOB_FLOW.kind
        over_at = self._draft.since_seconds + (max(limit, FLOW_SECONDS) if is_of_flow else limit)
        if is_of_flow and not self._observed.is_settled:
            over_at = max(over_at, self._now_seconds + 1.0)  # who was away needs a moment, too
        if self._now_seconds < over_at or self._doomed or self._after:
            self._wakes.append(over_at)
            return
        meta = self._job.metadata
        self._after.append(Delete(JOBS, meta.namespace, meta.name, meta.uid, propagation="Background"))

    # -- pods and what is beside them

    def _supply(self) -> None:
        group = self._observed.group
        self._tell_to_go(self._no_longer_wanted())
        self._explain()
        if group is None:
            self._after.append(new_group(self._job, self._tasks, self._draft.version))
            return
        if self._remove_old_group() or group.metadata.is_going:
            return
        if is_behind(group, self._job):
            self._after += keeping_up(self._job, self._equipment.plugins, self._draft.controlled)
        update = group_update(self._job, self._tasks, group, self._draft.version)
        if update is not None:
            self._after.append(update)
        if not group.is_open:
            return
        lacking = preparations(self._job, self._equipment, self._draft.controlled)
        if lacking is None:
            self._make_pods()
            return
        self._wakes.append(self._now_seconds)
        if self._is_news_that_refused:
            # They are made before the status is written, which would never say why they are not.
            self._tell("Warning", "FailedCreate", f"Error creating: {self._observed.refused}")
            return
        self._before += lacking.creates
        self._draft.controlled |= lacking.notes

    @property
    def _is_news_that_refused(self) -> bool:
        stored = self._job.status.state
        return bool(self._observed.refused) and (stored is None or stored.message != self._draft.message)

    def _remove_old_group(self) -> bool:
        """Whether the group is from before a restart. One that was made by somebody else says nothing of it."""
        group = self._observed.group
        if group is None or not self._is_old(group):
            return False
        if not group.metadata.is_going:
            self._after.append(_group_removal(group))
        return True

    def _is_old(self, group: PodGroup) -> bool:
        return group.metadata.annotation(JOB_VERSION) not in ("", str(self._draft.version))

    def _make_pods(self) -> None:
        supply = missing_pods(self._job, self._tally, self._draft, self._equipment, self._observed)
        if not supply.creates:
            return
        if self._observed.refused:
            self._tell("Warning", "FailedCreate", f"Error creating: {self._observed.refused}")
        if supply.is_part:
            self._wakes.append(self._now_seconds)
        self._makes_pods = True
        self._after += supply.creates
        self._after.append(self._record("Normal", "SuccessfulCreate", pods_text("Created", supply.names)))

    def _tell_to_go(self, pods: Iterable[TaskPod]) -> None:
        self._doomed |= {it.uid: it for it in pods if not it.is_going}

    def _explain(self) -> None:
        """Why it waits, on the Job itself."""
        if self._observed.refused:
            self._draft.say("FailedCreate", self._observed.refused)
        elif self._phase is JobPhase.PENDING:
            self._draft.say(*why_pending(self._tally, self._observed.group))
        else:
            self._draft.say("", "")

    # -- writing

    def _written(self) -> Outcome:
        job, draft = self._job, self._draft
        tally, going = self._tally, len(self._doomed)
        if going:
            left = [it for it in self._observed.pods if it.uid not in self._doomed]
            tally = Tally(self._tasks, left, tally.version, renewing=tally.renewing)
        draft.count(tally, tally.terminating + going, self._tasks.minimum)
        first_word = self._first_word_seconds()
        patch = draft.patch() if first_word is None else {}
        instructions: list[Instruction] = [*self._before]
        if patch:
            meta = job.metadata
            instructions.append(
                Patch(JOBS, meta.namespace, meta.name, {"status": patch}, "status", meta.resource_version)
            )
        instructions += self._events
        marks = [it for it in self._after if isinstance(it, Patch) and it.resource == PODS]
        instructions += marks
        instructions += [Delete(PODS, it.namespace, it.name, it.uid) for it in self._doomed.values()]
        instructions += [it for it in self._after if it not in marks]
        if not self._wakes and first_word is not None:
            return Outcome(tuple(instructions), first_word, is_hurried=False)
        if not instructions and not self._wakes:
            return NOTHING_TO_DO
        return Outcome(tuple(instructions), min(self._wakes, default=None))

    def _first_word_seconds(self) -> float | None:
        """By when a new Job is told of, of which there is nothing to tell but that it is there. Most have pods a moment
        later, and one word says both. None if it is time, or no new Job."""
        if self._job.status.state is not None or self._draft.has_news:
            return None
        group, now = self._observed.group, self._now_seconds
        made = now if group is None or self._makes_pods else group.metadata.created_seconds
        return made + FIRST_WORD_SECONDS if made <= now < made + FIRST_WORD_SECONDS else None

    def _tell(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._events.append(self._record(type, reason, message))

    def _record(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
        return Record(object_reference(API_VERSION, KIND, self._job.metadata), type, reason, message)


_COMMANDS: Final = tuple(
    sorted({it.cause.value for it in transition_table() if isinstance(it.cause, Action) and it.cause not in PARTIAL})
)


def _why_ignored(command: CommandDocument, phase: JobPhase) -> str:
    if command.action in PARTIAL:
        return (
            "which only a policy can ask for: a command does not say which task, pod or partition it means. "
            "RestartJob restarts all of them, and a pod that is deleted is made anew"
        )
    if command.action in _COMMANDS:
        return f"which does nothing while the Job is {phase}"
    return f"and a Job knows {', '.join(_COMMANDS)}"


def _mark(pod: TaskPod) -> Patch:
    patch = {"metadata": {"uid": pod.uid, "annotations": {OUT_OF_SYNC: "true"}}}
    return Patch(PODS, pod.namespace, pod.name, patch)


def _group_removal(group: PodGroup) -> Delete:
    return Delete(POD_GROUPS, group.metadata.namespace, group.metadata.name, group.metadata.uid)
