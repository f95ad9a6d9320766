"""The status of native PodGroups (`scheduling.k8s.io`): the condition PodGroupScheduled, as kube-scheduler keeps it.

It is not taken back once it is true, for want of room for more pods than must run together; only a group that has lost
some of these is unschedulable again. Conditions of others are not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.dialects.group_progress import with_condition

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.dialects.group_progress import Progress
    from allhands.dialects.groups import GroupRecord

SCHEDULED: Final = "PodGroupScheduled"
WHOLE: Final = "All pods that must run together are bound."


def status_of(record: GroupRecord, progress: Progress, now: str) -> Manifest:
    """What its status should say; empty if it does, or if nobody knows yet."""
    own = [it for it in record.written.conditions if it.get("type") == SCHEDULED]
    if not record.is_gang:
        return {}
    if progress.bound + progress.succeeded >= max(1, record.min_count):
        new = ("True", "Scheduled", WHOLE)
    elif progress.waits:
        new = ("False", "Unschedulable", progress.waits)
    else:
        return {}
    conditions = with_condition(own, SCHEDULED, *new, now, observedGeneration=record.generation)
    return {"conditions": conditions} if conditions != own else {}
