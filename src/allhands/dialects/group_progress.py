"""How far a group is, counted from its pods, and what the status of its object says of that already.

Each kind has its own words for it (one file each); what they have in common is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.api.document import Manifest
    from allhands.model.pod import Pod


class Progress(NamedTuple):
    """`bound` are those on nodes that have not ended; of these, some run."""

    pods: int = 0
    bound: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    was_whole: bool = False
    """Whether all that must run together was on nodes once."""
    waits: str = ""
    """Why it does not start, "" if it need not wait or nobody has said yet."""
    is_never: bool = False
    """Whether it waits for what cannot come, as things are."""
    is_enqueued: bool = False
    """Whether its queue has room for it, so that its pods may be made."""
    owner: str = ""
    """Whose its pods are, by name, "" if nobody's."""


def progress_of(pods: Iterable[Pod], *, was_whole: bool, waits: str) -> Progress:
    total = bound = running = succeeded = failed = 0
    owner = ""
    for pod in pods:
        total += 1
        owner = owner or pod.owner.partition("/")[2]
        if pod.phase == "Succeeded":
            succeeded += 1
        elif pod.phase == "Failed":
            failed += 1
        elif pod.node_name:
            bound += 1
            running += pod.phase == "Running"
    return Progress(total, bound, running, succeeded, failed, was_whole, waits, owner=owner)


class WrittenStatus(msgspec.Struct, frozen=True):
    """The status of a foreign group. What is not of the expected type is taken for not written."""

    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str = ""
    occupied_by: str = ""
    conditions: tuple[Any, ...] = ()


NOTHING_WRITTEN: Final = WrittenStatus()


def written_status(status: Any) -> WrittenStatus:
    """Somebody else may have written it: it must never spoil the group."""
    if not isinstance(status, dict):
        return NOTHING_WRITTEN
    conditions = status.get("conditions")
    return WrittenStatus(
        phase=_text(status.get("phase")),
        running=_number(status.get("running")),
        succeeded=_number(status.get("succeeded")),
        failed=_number(status.get("failed")),
        schedule_start_time=_text(status.get("scheduleStartTime")),
        occupied_by=_text(status.get("occupiedBy")),
        conditions=tuple(it for it in conditions if isinstance(it, dict)) if isinstance(conditions, list) else (),
    )


def with_condition(
    conditions: Iterable[Manifest], type: str, status: str, reason: str, message: str, now: str, **more: Any
) -> list[Manifest]:
    """All of them with this one set; it is a new one only if something but its time and `more` is different."""
    new = {"type": type, "status": status, "reason": reason, "message": message}
    found = [dict(it) for it in conditions]
    for number, condition in enumerate(found):
        if condition.get("type") == type:
            if any(condition.get(name) != value for name, value in new.items()):
                found[number] = {**condition, **new, "lastTransitionTime": now, **more}
            return found
    return [*found, {**new, "lastTransitionTime": now, **more}]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
