"""Which pods of a Job are to be made now: those that have a place, whose turn has come, and that are not there.

All of them, in portions, without pauses. It never makes a second pod for a place, not even beside one that is going.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.lifecycle.volcano_job.pod_making import PodMaker
from allhands.lifecycle.volcano_job.stages import may_begin

if TYPE_CHECKING:
    from allhands.lifecycle.instructions import Create
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.inputs import Equipment, Observed
    from allhands.lifecycle.volcano_job.status import StatusDraft
    from allhands.lifecycle.volcano_job.tally import Tally

MOST_AT_ONCE: Final = 500
"""So many pods are made in one look; a bigger Job is looked at again at once, and others get their turn between."""
NAMES_IN_EVENT: Final = 5


class Supply(NamedTuple):
    """`is_part`: more are to be made at once."""

    creates: list[Create]
    is_part: bool

    @property
    def names(self) -> list[str]:
        return [it.manifest["metadata"]["name"] for it in self.creates]


def missing_pods(
    job: JobDocument, tally: Tally, draft: StatusDraft, equipment: Equipment, observed: Observed
) -> Supply:
    maker = PodMaker(job, draft.version, draft.retries, equipment.plugins, equipment.scheduler)
    # After a refusal one pod shows whether it is over.
    left = 1 if observed.refused else MOST_AT_ONCE
    creates: list[Create] = []
    is_part = False
    for task in tally.tasks.all:
        taken = tally.of[task.name].by_index
        if len(taken) >= task.replicas or not may_begin(task, tally):
            continue
        missing = [index for index in range(task.replicas) if index not in taken]
        is_part = is_part or len(missing) > left
        creates += maker.pods(task, missing[:left])
        left -= min(left, len(missing))
    return Supply(creates, is_part)


def pods_text(what: str, names: list[str]) -> str:
    """One event for all pods of one look, since a gang is one piece of news."""
    if len(names) == 1:
        return f"{what} pod: {names[0]}"
    more = f" and {len(names) - NAMES_IN_EVENT} more" if len(names) > NAMES_IN_EVENT else ""
    return f"{what} {len(names)} pods: {', '.join(names[:NAMES_IN_EVENT])}{more}"
