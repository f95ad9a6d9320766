"""Small pieces that every machine needs to say what should change: owner references, conditions, patches of a status.

Pure functions over values; none of them knows a kind's rules.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.lifecycle.observed import Metadata


def time_text(now_seconds: float) -> str:
    """The moment as the API writes it; the fraction is dropped, as everywhere in the API."""
    return utc_text(math.floor(now_seconds))


def owner_reference(api_version: str, kind: str, owner: Metadata) -> Manifest:
    """Makes `owner` the one that manages the object that gets it."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def object_reference(api_version: str, kind: str, subject: Metadata) -> Manifest:
    """Names the object, for events and for lists of objects."""
    reference = {"apiVersion": api_version, "kind": kind, "name": subject.name, "uid": subject.uid}
    if subject.namespace:
        reference["namespace"] = subject.namespace
    if subject.resource_version:
        reference["resourceVersion"] = subject.resource_version
    return reference


def merge_patch(old: Manifest, new: Manifest) -> Manifest:
    """The JSON merge patch from one to the other: maps field by field, lists whole, what is gone is null.

    Absent, null, empty and zero are one and the same, as they are to a server that leaves such fields out.
    """
    patch: Manifest = {}
    for field in [*old, *(it for it in new if it not in old)]:
        before, after = old.get(field), new.get(field)
        if before == after or (_is_nothing(before) and _is_nothing(after)):
            continue
        if isinstance(before, dict) and isinstance(after, dict) and after:
            inner = merge_patch(before, after)
            if inner:  # what differs may be nothing but zeros
                patch[field] = inner
        else:
            patch[field] = None if _is_nothing(after) else after
    return patch


def _is_nothing(value: Json) -> bool:
    return value is None or (value in ([], {}, 0, "", False))


def condition_of(conditions: list[Manifest], type: str) -> Manifest | None:
    return next((it for it in conditions if it.get("type") == type), None)


def with_condition(conditions: list[Manifest], condition: Manifest, now: str) -> list[Manifest]:
    """The conditions with this one in its place. Equal status and reason: nothing changes, whatever the message.

    The time of the transition stays while the status stays.
    """
    present = condition_of(conditions, condition["type"])
    stamped = {**condition, "lastTransitionTime": condition.get("lastTransitionTime", now)}
    if present is None:
        return [*conditions, stamped]
    if present.get("status") == condition["status"]:
        if present.get("reason", "") == condition.get("reason", ""):
            return conditions
        stamped["lastTransitionTime"] = present.get("lastTransitionTime", now)
    return [*without_condition(conditions, condition["type"]), stamped]


def judged_conditions(written: Json, condition: Manifest, generation: int, now: str) -> list[Manifest] | None:
    """All that is written with this one, found of that generation, in its place; None if it is there already.

    The time of the transition stays while the status stays. What makes no sense among the written is dropped.
    """
    present = [it for it in written if isinstance(it, dict)] if isinstance(written, list) else []
    known = condition_of(present, condition["type"])
    stamped = condition | {"lastTransitionTime": now}
    if generation:
        stamped["observedGeneration"] = generation
    if known is not None and known.get("status") == condition["status"]:
        stamped["lastTransitionTime"] = known.get("lastTransitionTime", now)
        if known == stamped:
            return None
    return [*(it for it in present if it is not known), stamped]


def without_condition(conditions: list[Manifest], type: str) -> list[Manifest]:
    return [it for it in conditions if it.get("type") != type]


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """What `3` or `"25%"` of a total is; nothing for a text that is no percentage. Never negative."""
    if isinstance(value, int):
        return max(0, value)
    if not isinstance(value, str) or not value.endswith("%") or not value[:-1].isdecimal() or len(value) > 10:
        return 0
    hundredths = int(value[:-1]) * max(0, total)
    return -(-hundredths // 100) if round_up else hundredths // 100


def is_scalable(value: int | str | None) -> bool:
    """Whether it is a number or a percentage at all."""
    if isinstance(value, bool) or value is None:
        return False
    return isinstance(value, int) or (value.endswith("%") and value[:-1].isdecimal() and len(value) <= 10)
