"""How far a group is, counted from its pods, and what the status of its object says of that already.

Foreign kinds have their own words for it (one file each); what they have in common is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def progress_of(pods: Iterable[Pod], *, was_whole: bool, waits: str) -> Progress:
    total = bound = running = succeeded = failed = 0
    for pod in pods:
        total += 1
        if pod.phase == "Succeeded":
            succeeded += 1
        elif pod.phase == "Failed":
            failed += 1
        elif pod.node_name:
            bound += 1
            running += pod.phase == "Running"
    return Progress(total, bound, running, succeeded, failed, was_whole, waits)


class WrittenStatus(msgspec.Struct, frozen=True):
    """The status of a foreign group. What is not of the expected type is taken for not written."""

    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str = ""
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
        conditions=tuple(it for it in conditions if isinstance(it, dict)) if isinstance(conditions, list) else (),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
