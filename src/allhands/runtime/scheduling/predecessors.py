"""Whether a Job may start yet, as far as the Jobs are concerned that must be complete before it; and if not, why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.model.reason import Explanation, Reason, explain
from allhands.runtime.informer import Informer, key_of

if TYPE_CHECKING:
    from allhands.dialects.groups import GroupRecord

COMPLETE: Final = "Complete"
MISSING: Final = 'There is no Job "{missing}" in its namespace.'
FAILED: Final = 'Job "{failed}" has failed, so it never starts unless that Job is made anew and completes.'
CIRCLE: Final = "They wait for each other: {circle}."
MORE: Final = "{more} more must be complete too."
MOST_SHOWN: Final = 5


def why_not_yet(
    record: GroupRecord, jobs: Informer[GroupRecord], completed: tuple[str, ...] = ()
) -> Explanation | None:
    """What it waits for; None if everyone before it is complete. `completed` have been, whatever there is now."""
    ends = {name: COMPLETE if name in completed else _end(record, name, jobs) for name in record.after}
    pending = [name for name, end in ends.items() if end != COMPLETE]
    if not pending:
        return None
    failed = [name for name in pending if ends[name]]
    missing = [name for name in pending if ends[name] is None]
    shown = next(iter((*failed, *missing, *pending)))
    why = explain(Reason.DEPENDENCY_PENDING, dependency=shown)
    if failed:
        why = why.with_more(FAILED, failed=shown)
    elif missing:
        why = why.with_more(MISSING, missing=shown)
    elif circle := _circle(record, jobs):
        why = why.with_more(CIRCLE, circle=circle)
    return why.with_more(MORE, more=len(pending) - 1) if len(pending) > 1 else why


def _end(record: GroupRecord, name: str, jobs: Informer[GroupRecord]) -> str | None:
    """How a Job ended, "" if it has not; None if there is no such Job."""
    found = jobs.get(key_of(record.namespace, name))
    return None if found is None else found.end


def _circle(record: GroupRecord, jobs: Informer[GroupRecord]) -> str:
    """The names on the way from a Job back to itself, "" if there is no such way."""
    came_from: dict[str, str] = {}
    open_names = [record.name]
    while open_names:
        name = open_names.pop()
        job = record if name == record.name else jobs.get(key_of(record.namespace, name))
        for following in job.after if job is not None and not job.end else ():
            if following == record.name:
                return _way(name, came_from)
            if following not in came_from:
                came_from[following] = name
                open_names.append(following)
    return ""


def _way(last: str, came_from: dict[str, str]) -> str:
    way = [last]
    while way[-1] in came_from:
        way.append(came_from[way[-1]])
    way.reverse()
    return ", ".join(way if len(way) <= MOST_SHOWN else [*way[:MOST_SHOWN], "…"])
