"""When a Job is up, why it is not, when it is over, and how it has ended: what is found by counting its pods.

As in Volcano. A Job that was scaled to nothing stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.lifecycle.volcano_job.stages import why_never
from allhands.lifecycle.volcano_job.transitions import Finding

if TYPE_CHECKING:
    from allhands.api.volcano.job import JobSpec
    from allhands.lifecycle.volcano_job.pod_group import PodGroup
    from allhands.lifecycle.volcano_job.tally import Tally


class Found(NamedTuple):
    finding: Finding
    text: str = ""


def while_pending(tally: Tally) -> Found | None:
    if tally.number("Running") + tally.number("Succeeded") + tally.number("Failed") >= tally.tasks.minimum:
        return Found(Finding.MINIMUM_IS_UP)
    return _stuck(tally)


def while_running(spec: JobSpec, tally: Tally) -> Found | None:
    tasks, succeeded, failed = tally.tasks, tally.number("Succeeded"), tally.number("Failed")
    if not tasks.replicas:
        return None
    if spec.min_success is not None and succeeded >= spec.min_success:
        return Found(Finding.ENOUGH_SUCCEEDED, f"{succeeded} pods have succeeded, and {spec.min_success} had to.")
    if succeeded + failed >= tasks.replicas:
        return _ended(spec, tally, succeeded)
    if tally.number("Pending") > tasks.replicas - tasks.minimum:
        return Found(Finding.MINIMUM_IS_NOT_UP)
    return _stuck(tally)


def _ended(spec: JobSpec, tally: Tally, succeeded: int) -> Found:
    tasks = tally.tasks
    if tasks.minimum >= tasks.minimums:
        for task in tasks.all:
            of_task = tally.of[task.name].succeeded
            if task.spec.min_available is not None and of_task < task.minimum:
                text = f"{of_task} pods of task {task.name} have succeeded, and {task.minimum} had to."
                return Found(Finding.TOO_FEW_SUCCEEDED, text)
    needed = tasks.minimum if spec.min_success is None else spec.min_success
    text = f"{succeeded} pods have succeeded, and {needed} had to."
    return Found(Finding.ENOUGH_SUCCEEDED if succeeded >= needed else Finding.TOO_FEW_SUCCEEDED, text)


def why_pending(tally: Tally, group: PodGroup | None) -> tuple[str, str]:
    """Why it is not up, as a word and a sentence: what the scheduler says of its group, or who waits for whom."""
    if group is None:
        return "", ""
    reason, message = group.waits
    waiting = [it for it in tally.tasks.later if not tally.of[it.name].present]
    if not message and waiting and group.is_open:
        return "WaitsForTask", f"Task {waiting[0].name} waits for {', '.join(waiting[0].after)}."
    return reason, message


def _stuck(tally: Tally) -> Found | None:
    text = why_never(tally)
    return Found(Finding.CANNOT_GO_ON, text) if text else None
