"""By what words plain pods and their owners ask Volcano for a group, and what that group is called.

Facts that other programs rely on, in one place: the controller that makes such groups, and the scheduler that waits for
them, must never read them differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEDULER_NAME: Final = "volcano"
"""Pods that name it were written for Volcano: each of them has a group."""
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
"""On the owner of pods: so many of them start together."""
PREFIX: Final = "podgroup-"
OWNERS: Final = frozenset({("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("batch", "Job")})
"""Group and kind of those whose annotations are read. Pods of others are in a group of at least one."""
MOST_MEMBERS: Final = 2**31 - 1


class MinMemberError(ValueError):
    """What is wrong with the annotation."""


def group_name(uid: str) -> str:
    """Of the group of all pods of an owner, or of the pod that nobody owns."""
    return f"{PREFIX}{uid}"


def min_member_of(annotations: Mapping[str, str] | None) -> int:
    """How many pods of an owner start together: one where it says nothing. Raises a MinMemberError."""
    text = None if annotations is None else annotations.get(MIN_MEMBER)
    if text is None:
        return 1
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MOST_MEMBERS)):
        raise MinMemberError(f"metadata.annotations[{MIN_MEMBER}]: {text[:40]!r} is not a whole number of pods")
    if int(digits) > MOST_MEMBERS:
        raise MinMemberError(f"metadata.annotations[{MIN_MEMBER}]: {text} is more than {MOST_MEMBERS}")
    return int(digits)


def least_of(annotations: Mapping[str, str] | None) -> int:
    """The same, with one for what makes no sense, as in Volcano."""
    try:
        return min_member_of(annotations)
    except MinMemberError:
        return 1
