"""In what two plans for the same cluster differ: pod by pod and group by group, in words that fit a table.

It compares a plan with one that was recorded, perhaps by an older version: what such a version could not say is not
compared. It judges nothing: which of the two is better is for the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from allhands.core.recording import canonical_plan
from allhands.model.reason import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.plan import Plan

_Value: TypeAlias = dict[str, Any]
NOTHING = ""


class Difference(NamedTuple):
    """`recorded` or `now` is empty where a plan says nothing about it."""

    what: str
    recorded: str
    now: str


def differences(recorded: bytes, plan: Plan) -> tuple[Difference, ...]:
    """Between a recorded plan (see `recording`) and this one; empty if they decide the same."""
    made = canonical_plan(plan)
    if made == recorded:
        return ()
    before: _Value = msgspec.msgpack.decode(recorded)
    after: _Value = msgspec.msgpack.decode(made)
    one, other = dict(_statements(before)), dict(_statements(after))
    found = [
        Difference(what, _words(one.get(what)), _words(other.get(what)))
        for what in sorted({*one, *other})
        if what not in one or what not in other or not _is_same(one[what], other[what])
    ]
    if not found and not _is_same(before, after):
        found.append(Difference("order", "another order", "this order"))
    return tuple(found)


def _statements(plan: _Value) -> Iterator[tuple[str, Any]]:
    """What is said about whom. A group that grows may have a second start."""
    times: dict[str, int] = {}
    for start in plan.get("starts", ()):
        group = start["group"]
        times[group] = times.get(group, 0) + 1
        about = {name: value for name, value in start.items() if name not in ("group", "binds")}
        yield f"start {group}" + (f" ({times[group]})" if times[group] > 1 else ""), about
        for pod, _, node in start["binds"]:
            yield f"bind {pod}", node
    for evict in plan.get("evictions", ()):
        yield f"evict {evict['pod']}", evict
    for hold in plan.get("holds", ()):
        yield f"hold {hold['group']}", hold
    for release in plan.get("releases", ()):
        yield f"release {release['group']}", release
    for wait in plan.get("waits", ()):
        yield f"wait {wait['group']}", wait
    for kind, name, why in plan.get("set_aside", ()):
        yield f"set aside {kind} {name}", why


def _is_same(recorded: Any, now: Any) -> bool:
    """Fields that did not exist when it was recorded are not compared."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return all(name in now and _is_same(value, now[name]) for name, value in recorded.items())
    if isinstance(recorded, list) and isinstance(now, list):
        return len(recorded) == len(now) and all(map(_is_same, recorded, now))
    return type(recorded) is type(now) and bool(recorded == now)


def _words(value: Any) -> str:
    match value:
        case None:
            return NOTHING
        case str():
            return value
        case {"explanation": why, "expected_start_seconds": start}:
            return f"{_sentence(why)} Start: {'unknown' if start is None else start}."
        case {"nodes": nodes, "start_seconds": start}:
            once = "those who leave are gone" if value.get("awaits_leaving") else "it is free"
            return f"{_plain(nodes)} {f'once {once}' if start is None else f'from {start}'}"
        case {"node": node, "for_group": group, "why": why}:
            return f"from {node} for {group}: {_sentence(why)}"
        case {"reason": _, "message": _}:
            return _sentence(value)
    shown = (f"{name}={_plain(item)}" for name, item in value.items() if name != "group" and item not in ("", [], None))
    return ", ".join(shown)


def _plain(value: Any) -> str:
    return "+".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _sentence(why: _Value) -> str:
    return str(msgspec.convert(why, Explanation))
