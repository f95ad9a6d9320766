"""Members of gangs that have succeeded and are gone: nobody makes them again, so nobody may wait for them.

A pod that has succeeded counts for its gang as long as it is there. Once it is removed, only its Job knows of it: what
the Job counts beyond the pods that are there is what its gang needs no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.dialects.groups import job_group_name
from allhands.model.pod import PodPhase
from allhands.runtime.informer import key_of, split_key

if TYPE_CHECKING:
    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodRecord
    from allhands.model.podgroup import PodGroup
    from allhands.runtime.informer import Informer


def is_only_counted(before: GroupRecord | None, after: GroupRecord | None) -> bool:
    """Whether a Job is the same but for how many of its pods have succeeded."""
    if before is None or after is None or before.succeeded == after.succeeded:
        return False
    return msgspec.structs.replace(before, succeeded=after.succeeded) == after


def gone_of_job(job: GroupRecord | None, pods: Informer[PodRecord]) -> int:
    """How many pods of the Job have succeeded and are not there any more."""
    if job is None or not job.succeeded:
        return 0
    members = pods.by("job", key_of(job.namespace, job.name))
    there = sum(it.pod.phase is PodPhase.SUCCEEDED and it.job_uid == job.uid for it in members)
    return max(0, job.succeeded - there)


def gone_members(record: GroupRecord, key: str, pods: Informer[PodRecord], jobs: Informer[GroupRecord]) -> int:
    """The same for the gang of this key: that of a Job, or a PodGroup with the pods of Jobs in it."""
    if not len(jobs):
        return 0
    if split_key(key)[1] == job_group_name(record.name):
        return gone_of_job(record, pods)
    named = {it.job_name: None for it in pods.by("group", key) if it.job_name}
    return sum(gone_of_job(jobs.get(key_of(record.namespace, name)), pods) for name in named)


def without(group: PodGroup, gone: int) -> PodGroup:
    """The group, which needs so many fewer; one at least, as long as somebody makes members."""
    members = group.members
    if not gone or members.min_count <= 1:
        return group
    fewer = msgspec.structs.replace(members, min_count=max(1, members.min_count - gone))
    return msgspec.structs.replace(group, members=fewer)
