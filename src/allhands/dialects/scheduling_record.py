"""What the scheduler must remember of a group, as the text of one annotation on the object that the group comes from.

It is all that a new leader needs beside the pods. A text that cannot be read, or that somebody made up, is no record:
then the group is as if it were new. What a newer release has added is passed over, and so is an explanation that only
that one has words for: the older one must be able to lead in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.dialects.annotations import SCHEDULING
from allhands.model.group_status import NO_STATUS, GroupStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES: Final = 64 * 1024
MOST: Final = 2**53
"""Seconds and counts beyond this were not written by us."""
_NUMBERS: Final = (
    "admitted_at_seconds",
    "started_at_seconds",
    "failed_starts",
    "retry_at_seconds",
    "preempting_since_seconds",
)
_decoder = msgspec.json.Decoder(GroupStatus)
_encoder = msgspec.json.Encoder()


def read_record(annotations: Mapping[str, str] | None) -> GroupStatus:
    text = annotations.get(SCHEDULING) if annotations else None
    if text is None or len(text) > MOST_BYTES:
        return NO_STATUS
    try:
        status = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # the last: brackets in brackets in brackets
        status = _without_what_was_said(text)
    return status if _is_ours(status) else NO_STATUS


def _without_what_was_said(text: str) -> GroupStatus:
    """It is only said again; the rest must hold whoever leads."""
    try:
        fields = msgspec.json.decode(text)
        if not isinstance(fields, dict) or fields.pop("said", None) is None:
            return NO_STATUS
        return msgspec.convert(fields, GroupStatus)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NO_STATUS


def _is_ours(status: GroupStatus) -> bool:
    numbers = [number for name in _NUMBERS if (number := getattr(status, name)) is not None]
    if status.said is not None and status.said.expected_start_seconds is not None:
        numbers.append(status.said.expected_start_seconds)
    return all(0 <= number < MOST for number in numbers)


def record_text(status: GroupStatus) -> str:
    return _encoder.encode(status).decode()
