"""How far a flow is: where each step stands, by its Job or by what is remembered of it, and what it still waits for.

Read off once for each look, in one pass over the steps.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from allhands.lifecycle.job_flow.account import (
    condition_of,
    entry_of,
    failed_seconds,
    failures_of,
    outside_condition,
    written_entries,
)
from allhands.lifecycle.job_flow.documents import COMPLETED, LOST, OUTSIDE
from allhands.lifecycle.job_flow.plan import retries_of
from allhands.lifecycle.job_flow.probing import judge

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.lifecycle.job_flow.documents import FlowDocument, Step
    from allhands.lifecycle.job_flow.machine import Around
    from allhands.lifecycle.job_flow.plan import FlowPlan
    from allhands.lifecycle.job_flow.probing import Question


class Standing(enum.Enum):
    """Where a step is."""

    UNMADE = "has no Job, or lost it before it ended"
    LIVE = "has a Job that has not ended"
    DONE = "is completed"
    AGAIN = "has failed and may be tried again"
    LOST = "has failed for good"


class Progress:
    def __init__(self, flow: FlowDocument, plan: FlowPlan, around: Around, now_seconds: float) -> None:
        self.plan = plan
        self._flow = flow
        self._around = around
        self.jobs = around.jobs
        self.written = written_entries(flow)
        self.entries = self._entries(now_seconds)
        self.conditions = self._conditions()
        self.mistakes: list[str] = []
        """What is wrong with what was written about retries."""
        self._retries, wrong = retries_of(flow.metadata)
        if wrong:
            self.mistakes.append(wrong)
        self.standing = {step.name: self._stands(step) for step in plan.steps}
        self.losses = [
            f"Job {flow.job_name(name)} has {self._phase(name).lower()}"
            for name, it in self.standing.items()
            if it is Standing.LOST
        ]
        """Why it cannot succeed any more."""
        needed = {it for step in plan.steps if self.standing[step.name] is Standing.UNMADE for it in step.targets}
        self.losses += [
            f"{target}, which is waited for, has failed"
            for target in plan.outside
            if target in needed and (self.conditions.get(target) or {}).get("phase") == "Failed"
        ]

    @property
    def is_lost(self) -> bool:
        return bool(self.losses)

    @property
    def is_done(self) -> bool:
        return all(it is Standing.DONE for it in self.standing.values())

    @property
    def is_live(self) -> bool:
        return any(it is Standing.LIVE for it in self.standing.values())

    @property
    def has_begun(self) -> bool:
        return any(it.get("state") != "Pending" for it in self.entries.values())

    def failures(self, step: Step) -> int:
        return failures_of(self.entries.get(self._flow.job_name(step.name)))

    def retry_at_seconds(self, step: Step, first_seconds: float, longest_seconds: float) -> tuple[float, int]:
        """When the next try is due, and how many have failed. Each waits twice as long as the one before."""
        entry = self.entries.get(self._flow.job_name(step.name))
        failures = failures_of(entry)
        pause = min(longest_seconds, first_seconds * 2.0 ** min(failures - 1, 30))
        return failed_seconds(entry) + pause, failures

    def is_waiting(self, step: Step) -> bool:
        """Whether another step must end before. One that was begun before has waited already."""
        if self._flow.job_name(step.name) in self.entries:
            return False
        has_probe = step.depends_on is not None and step.depends_on.probe is not None
        up = (Standing.DONE, Standing.LIVE) if has_probe else (Standing.DONE,)
        return any(self.standing.get(target, up[0]) not in up for target in step.targets)

    def lacks(self, step: Step) -> tuple[str, tuple[Question, ...]]:
        """What else than a step it waits for, and what must be asked about it."""
        if step.depends_on is None or self.is_waiting(step) or self._flow.job_name(step.name) in self.entries:
            return "", ()
        for target in step.targets:
            if target.startswith(OUTSIDE) and (lack := self._lack_of_outside(target)):
                return lack, ()
        if step.depends_on.probe is None:
            return "", ()
        live = [it for it in step.targets if self.standing.get(it) is Standing.LIVE]
        verdict = judge(step.depends_on.probe, [self.jobs[self._flow.job_name(it)] for it in live], self._around.holds)
        return verdict.lacks, verdict.questions

    def _lack_of_outside(self, target: str) -> str:
        phase = (self.conditions.get(target) or {}).get("phase")
        if phase == COMPLETED:
            return ""
        return f"{target} is not there" if phase is None else f"{target} is not complete yet"

    def _phase(self, step: str) -> str:
        return str((self.entries.get(self._flow.job_name(step)) or {}).get("state") or "")

    def _stands(self, step: Step) -> Standing:
        name = self._flow.job_name(step.name)
        phase = self._phase(step.name)
        if phase == COMPLETED:
            return Standing.DONE
        if phase in LOST:
            return Standing.AGAIN if failures_of(self.entries[name]) <= self._allowed(step) else Standing.LOST
        return Standing.LIVE if name in self.jobs else Standing.UNMADE

    def _allowed(self, step: Step) -> int:
        template = self._around.template(step.name)
        own, wrong = retries_of(template.metadata) if template is not None else (None, "")
        if wrong:
            self.mistakes.append(wrong)
        return own if own is not None else self._retries or 0

    def _entries(self, now_seconds: float) -> dict[str, Manifest]:
        """In the order of the steps; what else is remembered follows."""
        names = dict.fromkeys(self._flow.job_name(step.name) for step in self.plan.steps)
        names |= dict.fromkeys((*self.written, *sorted(self.jobs)))
        entries: dict[str, Manifest] = {}
        for name in names:
            job, before = self.jobs.get(name), self.written.get(name)
            if job is not None:
                entries[name] = entry_of(job, before, now_seconds)
            elif before is not None:
                entries[name] = before
        return entries

    def _conditions(self) -> dict[str, Manifest]:
        """Of Jobs that are gone what was said last."""
        written = self._flow.written.get("conditions")
        conditions: dict[str, Manifest] = dict(written) if isinstance(written, dict) else {}
        conditions |= {name: condition_of(job) for name, job in sorted(self.jobs.items())}
        for target in self.plan.outside:
            known = conditions.get(target)
            job = self._around.outside(target.removeprefix(OUTSIDE))
            if job is not None and not (isinstance(known, dict) and known.get("phase") == COMPLETED):
                conditions[target] = outside_condition(job)
        return conditions
