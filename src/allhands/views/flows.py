"""Volcano's JobFlows as their users see them: how far each is, which steps run, and what the others wait for.

A step is told by its Job as long as there is one; the flow's own status remembers those that are gone. What the
controller says of a flow is repeated, not reworded.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.lifecycle.job.moments import moment_seconds
from allhands.lifecycle.job_flow.account import failures_of, written_entries
from allhands.lifecycle.job_flow.documents import COMPLETED, LOST, FlowDocument
from allhands.views.groups import groups_of
from allhands.views.moments import ago_text, dated, span_text
from allhands.views.picture import VCJOB
from allhands.views.rows import GroupState, row_of
from allhands.views.story import Story, event_lines, told

if TYPE_CHECKING:
    from allhands.lifecycle.job_flow.documents import Step
    from allhands.views.picture import Picture
    from allhands.views.rows import GroupRow


class FlowState(enum.StrEnum):
    """Of a flow, in the words that are used of jobs."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ENDING = "Ending"


_STATES: Final = {
    "Running": FlowState.RUNNING,
    "Succeed": FlowState.SUCCEEDED,
    "Failed": FlowState.FAILED,
    "Terminating": FlowState.ENDING,
}
_ENDS: Final = {COMPLETED: GroupState.SUCCEEDED, **dict.fromkeys(LOST, GroupState.FAILED)}


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is None of a step whose Job is yet to be made; `waits_for` are the targets that are not complete."""

    name: str
    job: str
    state: GroupState | None = None
    waits_for: tuple[str, ...] = ()
    has_probes: bool = False
    failures: int = 0
    """How many Jobs of it have failed."""
    started_at_seconds: int | None = None
    finished_at_seconds: int | None = None
    why: str = ""


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """`phase` is Volcano's own word; `why` is what the flow says, or what is in the way of a step that waits."""

    namespace: str
    name: str
    state: FlowState
    phase: str
    done: int
    steps: tuple[StepRow, ...]
    created_at_seconds: int
    finished_at_seconds: int | None = None
    reason: str = ""
    why: str = ""


def flow_rows(picture: Picture) -> list[FlowRow]:
    """By namespace and name."""
    jobs = {(it.namespace, it.name): row_of(it) for it in groups_of(picture) if it.kind == VCJOB}
    flows = sorted(picture.flows or (), key=lambda it: (it.metadata.namespace, it.metadata.name))
    return [_row(it, jobs) for it in flows]


def _row(flow: FlowDocument, jobs: dict[tuple[str, str], GroupRow]) -> FlowRow:
    entries, space = written_entries(flow), flow.metadata.namespace
    steps = flow.spec.flows or ()
    names = {it.name: flow.job_name(it.name) for it in steps}
    complete = {step for step, job in names.items() if _has_completed(entries.get(job), jobs.get((space, job)))}
    rows = tuple(_step(it, names[it.name], entries, jobs.get((space, names[it.name])), complete) for it in steps)
    state = FlowState.ENDING if flow.metadata.is_going else _STATES.get(flow.phase, FlowState.WAITING)
    ends = [it.finished_at_seconds for it in rows if it.finished_at_seconds is not None]
    is_over = state in (FlowState.SUCCEEDED, FlowState.FAILED)
    return FlowRow(
        namespace=space,
        name=flow.metadata.name,
        state=state,
        phase=flow.phase,
        done=len(complete),
        steps=rows,
        created_at_seconds=int(flow.metadata.created_seconds),
        finished_at_seconds=max(ends) if is_over and ends else None,
        reason=flow.reason,
        why=flow.message or next((f"step {it.name}: {it.why}" for it in rows if it.why), ""),
    )


def _has_completed(entry: dict[str, Any] | None, job: GroupRow | None) -> bool:
    return (entry or {}).get("state") == COMPLETED or (job is not None and job.state is GroupState.SUCCEEDED)


def _step(
    step: Step, name: str, entries: dict[str, dict[str, Any]], job: GroupRow | None, complete: set[str]
) -> StepRow:
    entry = entries.get(name)
    probe = step.depends_on.probe if step.depends_on is not None else None
    known = StepRow(name=step.name, job=name, has_probes=probe is not None, failures=failures_of(entry))
    if job is not None:
        return msgspec.structs.replace(
            known,
            state=job.state,
            started_at_seconds=job.started_at_seconds,
            finished_at_seconds=job.finished_at_seconds,
            why=job.why,
        )
    if entry is None:
        return msgspec.structs.replace(known, waits_for=tuple(it for it in step.targets if it not in complete))
    return msgspec.structs.replace(
        known,
        state=_ENDS.get(str(entry.get("state"))),
        started_at_seconds=_moment(entry, "startTimestamp"),
        finished_at_seconds=_moment(entry, "endTimestamp"),
    )


def _moment(entry: dict[str, Any], name: str) -> int | None:
    """What cannot be read is not known."""
    seconds = moment_seconds(text) if isinstance(text := entry.get(name), str) else None
    return None if seconds is None else int(seconds)


# -- the story of one


def flow_story(namespace: str, name: str, picture: Picture, now_seconds: int) -> Story | None:
    """None if there is none of that name."""
    row = next((it for it in flow_rows(picture) if (it.namespace, it.name) == (namespace, name)), None)
    flow = next((it for it in picture.flows or () if it.metadata.key == f"{namespace}/{name}"), None)
    if row is None or flow is None:
        return None
    failed = sum(it.state is GroupState.FAILED for it in row.steps)
    facts = [
        ("Kind", "JobFlow of flow.volcano.sh"),
        ("Phase", row.phase),
        ("Steps", f"{row.done} of {len(row.steps)} done" + (f", {failed} failed" if failed else "")),
        ("Its Jobs", "are removed when it has succeeded" if flow.spec.job_retain_policy == "delete" else ""),
        ("Created", dated(row.created_at_seconds, ago_text(row.created_at_seconds, now_seconds))),
    ]
    if row.finished_at_seconds is not None:
        facts.append(("Took", span_text(row.finished_at_seconds - row.created_at_seconds)))
    heading = "Why it failed" if row.state is FlowState.FAILED else "Why it does not go on"
    sections = [
        (heading, [row.why] if row.why else []),
        ("Its steps", [_step_line(it, now_seconds) for it in row.steps]),
        ("What happened", event_lines((it for it in picture.events if it.uid == flow.metadata.uid), now_seconds)),
    ]
    return told(f'flow/{name} in namespace "{namespace}"', row.state.value, facts, sections)


def _step_line(step: StepRow, now: int) -> str:
    again = f"; {step.failures} failed before" if step.failures and step.state is not GroupState.FAILED else ""
    tries = f" after {step.failures} tries" if step.failures > 1 and step.state is GroupState.FAILED else ""
    if step.state is None:
        probes = "until its probes are answered" if step.has_probes else ""
        waits = " and ".join(it for it in (_for(step.waits_for), probes) if it)
        return f"{step.name}: waits {waits}{again}" if waits else f"{step.name}: not begun yet{again}"
    words = f"{step.name}: {step.state.value}{tries}"
    if step.started_at_seconds is not None and step.finished_at_seconds is not None:
        words += f", took {span_text(step.finished_at_seconds - step.started_at_seconds)}"
    elif step.started_at_seconds is not None:
        words += f" since {span_text(now - step.started_at_seconds)}"
    why = f": {step.why}" if step.why else ""
    return f"{words} (vcjob/{step.job}){again}{why}"


def _for(targets: tuple[str, ...]) -> str:
    return f"for {', '.join(targets)}" if targets else ""
