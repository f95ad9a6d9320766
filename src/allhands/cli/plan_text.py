"""A plan for people, as tables that fit a terminal, and for programs, as plain values.

Names and texts in it come from others: whatever in them would control a terminal is not printed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.cli.table_text import MAX_WIDTH
from allhands.core.plan_volumes import BindClaim
from allhands.views.moments import span_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allhands.core.plan import Evict, Hold, Plan, Release, Start, Wait
    from allhands.core.plan_difference import Difference
    from allhands.core.plan_volumes import PrepareVolume
    from allhands.model.reason import Explanation

GAP = "  "
LEAST_WIDTH = 8
MAX_DIFFERENCES = 20
ALIKE_SHOWN = 10
"""Of texts that differ late, so many characters before the first difference."""


def grid(title: str, heading: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = MAX_WIDTH) -> str:
    """A title, a heading and a line a row, cut to the width with an ellipsis; nothing if there are no rows."""
    lines = [list(heading), *([printable(cell) or "-" for cell in row] for row in rows)]
    if len(lines) == 1:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    if width is not None:
        widths = _narrowed(widths, width - len(GAP) * (len(heading) - 1))
    shown = (
        GAP.join(_cut(cell, most).ljust(most) for cell, most in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return f"{title}\n" + "\n".join(shown) + "\n"


def _narrowed(widths: list[int], most: int) -> list[int]:
    """The widest columns give way first; none to less than a word."""
    cap = max(widths)
    while cap > LEAST_WIDTH and sum(min(width, cap) for width in widths) > most:
        cap -= 1
    return [min(width, cap) for width in widths]


def apart(difference: Difference) -> tuple[str, str, str]:
    """A difference as a row in which it can be seen: long texts that begin alike are shown from where they part."""
    what, recorded, now = difference
    alike = next((at for at, (one, other) in enumerate(zip(recorded, now, strict=False)) if one != other), 0)
    first = max(0, alike - ALIKE_SHOWN)
    return (what, recorded, now) if first == 0 else (what, f"…{recorded[first:]}", f"…{now[first:]}")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str) -> str:
    return text if text.isprintable() else "".join(it if it.isprintable() else "�" for it in text)


def tables(plan: Plan, now: int, *, width: int | None = MAX_WIDTH) -> Iterator[str]:
    """Who starts where, who must leave for whom, and why everybody else waits."""
    yield grid("Starts", ("GROUP", "PODS", "DOMAIN", "NODES"), map(_start_row, plan.starts), width=width)
    steps = [(start.group, *_step_words(step)) for start in plan.starts for step in start.prepare]
    yield grid("To prepare before", ("GROUP", "CLAIM", "STEP"), steps, width=width)
    yield grid("Evictions", ("POD", "NODE", "FOR", "WHY"), map(_evict_row, plan.evictions), width=width)
    yield grid(
        "Failed starts that are taken back",
        ("GROUP", "RETRY", "AVOIDS"),
        ((it.group, _moment(it.retry_at_seconds, now), ", ".join(it.avoid_nodes)) for it in plan.releases),
        width=width,
    )
    yield grid(
        "Room that is held",
        ("FOR", "FROM", "NODES"),
        ((it.group, _moment(it.start_seconds, now, "once free"), ", ".join(it.nodes)) for it in plan.holds),
        width=width,
    )
    waits = ((it.group, _expected(it, now), str(it.explanation)) for it in plan.waits)
    yield grid("Waiting", ("GROUP", "START", "WHY"), waits, width=width)
    aside = ((it.kind, it.name, str(it.why)) for it in plan.set_aside)
    yield grid("Set aside", ("KIND", "NAME", "WHY"), aside, width=width)


def _start_row(start: Start) -> tuple[str, ...]:
    counts = Counter(bind.node for bind in start.binds)
    nodes = ", ".join(node if count == 1 else f"{node} ×{count}" for node, count in counts.items())
    return start.group, str(len(start.binds)), start.domain, nodes


def _step_words(step: PrepareVolume) -> tuple[str, str]:
    if isinstance(step, BindClaim):
        return step.claim, f"bind to volume {step.volume}"
    return step.claim, f"make a volume for node {step.node}"


def _evict_row(evict: Evict) -> tuple[str, ...]:
    return evict.pod, evict.node, evict.for_group, str(evict.why)


def _expected(wait: Wait, now: int) -> str:
    if wait.expected_start_seconds is not None:
        return _moment(wait.expected_start_seconds, now)
    return f"after {wait.unknown_because_of}" if wait.unknown_because_of else "unknown"


def _moment(seconds: int | None, now: int, unknown: str = "unknown") -> str:
    if seconds is None:
        return unknown
    return "now" if seconds <= now else f"in {span_text(seconds - now, ' ')}"


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def document(plan: Plan) -> dict[str, Any]:
    """The whole plan as plain values."""
    return {
        "starts": [_start_values(start) for start in plan.starts],
        "evictions": [{**_fields(evict), "why": explanation(evict.why)} for evict in plan.evictions],
        "releases": [_fields(release) for release in plan.releases],
        "holds": [_fields(hold) for hold in plan.holds],
        "waits": [{**_fields(wait), "explanation": explanation(wait.explanation)} for wait in plan.waits],
        "set_aside": [{"kind": it.kind, "name": it.name, "why": explanation(it.why)} for it in plan.set_aside],
    }


def _start_values(start: Start) -> dict[str, Any]:
    binds = [bind._asdict() for bind in start.binds]
    return {**_fields(start), "binds": binds}


def _fields(value: Start | Evict | Release | Hold | Wait) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields


def explanation(why: Explanation) -> dict[str, Any]:
    return {"reason": why.reason.value, "sentence": str(why), "numbers": dict(why.numbers)}
