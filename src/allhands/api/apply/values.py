"""Values as the merge sees them: what is absent is not null, truth is no number, and 1 is 1.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from allhands.api.document import Json

ABSENT: Final[Any] = object()
"""Where there is no value at all."""


def same(left: Json, right: Json) -> bool:
    """Whether the merge sees no difference. (A patch does: to it, 1.0 is another number than 1.)"""
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def as_map(value: Json) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def as_list(value: Json) -> list[Any] | None:
    return value if isinstance(value, list) else None
