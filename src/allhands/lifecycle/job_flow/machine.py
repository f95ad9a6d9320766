"""What a flow does next: Jobs for the steps whose turn it is, new ones for steps that failed, and its status.

Every Job has a name that follows from its step, so no step is begun twice, whatever crashed in between. What is gone is
remembered in the status, and nothing is deleted before the status says how it ended. After a step has failed for good
no further one is begun; a step that the server refuses keeps nobody but those who wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from allhands.api.volcano.job_flow import JOB_FLOW, FlowPhase, RetainPolicy
from allhands.lifecycle.changes import merge_patch, object_reference
from allhands.lifecycle.instructions import Create, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.job_flow.account import is_recorded, job_lists
from allhands.lifecycle.job_flow.documents import FLOWS, JOBS
from allhands.lifecycle.job_flow.making import job_of
from allhands.lifecycle.job_flow.progress import Progress, Standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.cron_job import CronsJob
    from allhands.lifecycle.job_flow.documents import FlowDocument, FlowsJob, Step, TemplateDocument
    from allhands.lifecycle.job_flow.plan import FlowPlan
    from allhands.lifecycle.job_flow.probing import Question

PAUSE_SECONDS: Final = 1.0
"""At least so long between two writes of one flow's status, unless its phase changes."""
FIRST_RETRY_SECONDS: Final = 10.0
LONGEST_RETRY_SECONDS: Final = 300.0
LOOK_AGAIN_SECONDS: Final = 30.0
"""How often it is looked whether a Job of somebody else is still in the way."""
MOST_TOLD: Final = 3
WAITING: Final = "Waiting"
"""The reason of a flow that waits for something outside of it; that is no event."""


class Refused(msgspec.Struct, frozen=True):
    """Why the server took no Job of a step. `is_final`: it would not take the same again."""

    message: str
    again_at_seconds: float
    is_final: bool = False
    times: int = 1


class Around(Protocol):
    """What a flow may know of other objects."""

    @property
    def jobs(self) -> Mapping[str, FlowsJob]:
        """By name, those that it manages; also ones that are gone, if they had ended and it may not know."""

    @property
    def refusals(self) -> Mapping[str, Refused]:
        """By step."""

    def template(self, name: str) -> TemplateDocument | None: ...

    def outside(self, name: str) -> CronsJob | None:
        """A Job of batch/v1."""

    def is_taken(self, name: str) -> bool:
        """Whether a Job of that name is there that somebody else manages."""

    def holds(self, question: Question) -> bool:
        """Whether it was asked and answered well."""


class Look(NamedTuple):
    """`questions`: what must be asked before it goes on; `begun`: the steps whose Jobs are to be made now; `gathers`:
    whether there is something to tell that can wait until it wakes."""

    outcome: Outcome
    questions: tuple[Question, ...] = ()
    begun: tuple[str, ...] = ()
    gathers: bool = False


class Trouble(NamedTuple):
    """Why something does not go on: a word for programs, a sentence for people."""

    reason: str
    message: str


def reconcile(
    flow: FlowDocument,
    plan: FlowPlan,
    around: Around,
    now_seconds: float,
    *,
    written_at_seconds: float | None = None,
    pause_seconds: float = PAUSE_SECONDS,
) -> Look:
    progress = Progress(flow, plan, around, now_seconds)
    if flow.metadata.is_going:
        state: Manifest = {"phase": FlowPhase.TERMINATING.value}
        patch, wake = _status_patch(flow, progress, state, now_seconds, written_at_seconds, pause_seconds)
        return Look(Outcome(tuple(patch), wake), gathers=wake is not None)
    turn = _Turn(flow, progress, around, now_seconds)
    if not plan.problem and not progress.is_lost:
        turn.take()
    phase = _phase(flow, plan, progress, turn)
    troubles = _troubles(plan, progress, turn)
    state = {"phase": phase.value}
    if troubles and phase is not FlowPhase.SUCCEED:
        state |= {"reason": troubles[0].reason, "message": _told(troubles)}
    patch, wake = _status_patch(flow, progress, state, now_seconds, written_at_seconds, pause_seconds)
    told: list[Instruction] = [_event(flow, "Normal", "Created", f"Created Job {it}.") for it in turn.made_names]
    if state.get("reason", WAITING) not in (flow.reason, WAITING):
        told.append(_event(flow, "Warning", state["reason"], state["message"]))
    wakes = [it for it in (*turn.wakes, wake) if it is not None]
    instructions = (*turn.creations, *patch, *told, *turn.deletions, *_unretained(flow, progress))
    outcome = Outcome(instructions, min(wakes, default=None))
    return Look(outcome, tuple(turn.questions), tuple(turn.begun), wake is not None)


class _Turn:
    """Whose turn it is."""

    def __init__(self, flow: FlowDocument, progress: Progress, around: Around, now_seconds: float) -> None:
        self._flow = flow
        self._progress = progress
        self._around = around
        self._now = now_seconds
        self.creations: list[Instruction] = []
        self.deletions: list[Instruction] = []
        self.questions: list[Question] = []
        self.wakes: list[float] = []
        self.begun: list[str] = []
        self.made_names: list[str] = []
        self.troubles: list[Trouble] = []
        self.final_refusals = 0
        self.has_news = False
        """Whether a step is begun that was not refused before."""
        self.waits: list[Trouble] = []
        self._again: list[tuple[Step, TemplateDocument]] = []

    def take(self) -> None:
        for step in self._progress.plan.steps:
            standing = self._progress.standing[step.name]
            if standing is Standing.UNMADE and self._may_begin(step):
                self._begin(step)
            elif standing is Standing.AGAIN:
                self._begin_again(step)
        # One that was refused before goes last and alone, so that it holds up nobody and is known by its refusal.
        self.has_news = bool(self.creations)
        for step, template in self._again[:1]:
            self._create(step, template)

    def _may_begin(self, step: Step) -> bool:
        lacks, questions = self._progress.lacks(step)
        self.questions += questions
        if lacks:
            self.waits.append(Trouble(WAITING, f"step {step.name}: {lacks}"))
        return not lacks and not self._progress.is_waiting(step)

    def _begin_again(self, step: Step) -> None:
        name = self._flow.job_name(step.name)
        due, failures = self._progress.retry_at_seconds(step, FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        often = "once" if failures == 1 else f"{failures} times"
        self.waits.append(Trouble("Retrying", f"Job {name} has failed {often} and is made again"))
        if self._now < due:
            self.wakes.append(due)
            return
        job = self._around.jobs.get(name)
        if job is None:
            self._begin(step)
        elif is_recorded(self._progress.written.get(name), job) and not job.metadata.is_going:
            self.deletions.append(_deletion(job))

    def _begin(self, step: Step) -> None:
        name = self._flow.job_name(step.name)
        template = self._around.template(step.name)
        refused = self._around.refusals.get(step.name)
        if template is None:
            self.troubles.append(Trouble("MissingTemplate", f'step {step.name}: there is no JobTemplate "{step.name}"'))
        elif self._around.is_taken(name):
            text = f"step {step.name}: a Job {name} is there that is not of this flow"
            self.troubles.append(Trouble("NameTaken", text))
            self.wakes.append(self._now + LOOK_AGAIN_SECONDS)
        elif refused is not None:
            self.troubles.append(Trouble("StepRefused", f"step {step.name}: {refused.message}"))
            self.final_refusals += refused.is_final
            if self._now < refused.again_at_seconds:
                self.wakes.append(refused.again_at_seconds)
            else:
                self._again.append((step, template))
        else:
            self._create(step, template)

    def _create(self, step: Step, template: TemplateDocument) -> None:
        manifest = job_of(self._flow, step, template, self._progress.failures(step))
        self.creations.append(Create(JOBS, self._flow.metadata.namespace, manifest, unless_there=True))
        self.begun.append(step.name)
        self.made_names.append(manifest["metadata"]["name"])


def _phase(flow: FlowDocument, plan: FlowPlan, progress: Progress, turn: _Turn) -> FlowPhase:
    if plan.problem or progress.is_lost:
        return FlowPhase.FAILED
    if progress.is_done:
        return FlowPhase.SUCCEED
    nothing_goes_on = not progress.is_live and not turn.has_news and not turn.waits
    if turn.final_refusals and turn.final_refusals == len(turn.troubles) and nothing_goes_on:
        return FlowPhase.FAILED
    has_begun = flow.phase == FlowPhase.RUNNING or progress.has_begun
    return FlowPhase.RUNNING if has_begun else FlowPhase.PENDING


def _troubles(plan: FlowPlan, progress: Progress, turn: _Turn) -> Sequence[Trouble]:
    if plan.problem:
        return [Trouble("InvalidFlow", plan.problem)]
    failed = [Trouble("StepFailed", it) for it in progress.losses]
    wrong = [Trouble("InvalidAnnotation", it) for it in progress.mistakes]
    return [*failed, *turn.troubles, *wrong, *turn.waits]


def _told(troubles: Sequence[Trouble]) -> str:
    text = "; ".join(it.message for it in troubles[:MOST_TOLD])
    more = len(troubles) - MOST_TOLD
    return f"{text}; and {more} more" if more > 0 else text


def _status_patch(
    flow: FlowDocument,
    progress: Progress,
    state: Manifest,
    now_seconds: float,
    written_at_seconds: float | None,
    pause_seconds: float,
) -> tuple[list[Instruction], float | None]:
    """The write, or when it may be made."""
    entries = progress.entries
    wanted = job_lists(entries) | {
        "jobStatusList": list(entries.values()),
        "conditions": progress.conditions,
        "state": state,
    }
    told = {field: flow.written.get(field) for field in wanted}
    patch = merge_patch(told, wanted)
    if not patch:
        return [], None
    since = None if written_at_seconds is None else now_seconds - written_at_seconds
    if state["phase"] == flow.phase and since is not None and 0 <= since < pause_seconds:
        return [], now_seconds + pause_seconds - since
    metadata = flow.metadata
    version = metadata.resource_version
    return [Patch(FLOWS, metadata.namespace, metadata.name, {"status": patch}, "status", version)], None


def _unretained(flow: FlowDocument, progress: Progress) -> list[Instruction]:
    """Once it is known to all that the flow has succeeded."""
    if flow.spec.job_retain_policy != RetainPolicy.DELETE or flow.phase != FlowPhase.SUCCEED or not progress.is_done:
        return []
    jobs = progress.jobs.items()
    return [
        _deletion(job)
        for name, job in jobs
        if is_recorded(progress.written.get(name), job) and not job.metadata.is_going
    ]


def _deletion(job: FlowsJob) -> Delete:
    metadata = job.metadata
    return Delete(JOBS, metadata.namespace, metadata.name, metadata.uid, propagation="Background")


def _event(flow: FlowDocument, type: str, reason: str, message: str) -> Record:
    involved = object_reference(JOB_FLOW.api_version, JOB_FLOW.kind, flow.metadata)
    return Record(involved, "Warning" if type == "Warning" else "Normal", reason, message)
