"""The comparison for people and programs: a table of at most 100 columns, a JSON document, a page with curves.

Nothing is computed here but how things look. The page refers to nothing outside itself.
"""

from __future__ import annotations

import html
import json
import os
import platform
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.measure.api.comparison import GOALS_FROM_PODS
from allhands.sim.plots import Line, plot
from allhands.sim.report import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.measure.api.comparison import Goal, Row

_COLUMNS: Final = "{:<10}{:<6}{:<21}{:>9}{:>8}  {:<13}{:>7}{:>6}{:>8}{:>9}"
HEADING: Final = _COLUMNS.format(
    "SHAPE", "GANGS", "SCHEDULER", "SECONDS", "÷ NULL", "LOW-HIGH", "CPU S", "MIB", "CALLS", "GROUP"
)
"""CALLS and GROUP: requests per pod, and those of them that write about groups, which are not in CALLS."""
_GOALS: Final = "{:<32}{:>9}  {:<10}{:<18}{}"


def table_line(row: Row) -> str:
    gangs = "on" if row.with_gangs else "off"
    if row.seconds is None:
        return f"{row.shape:<10}{gangs:<6}{row.scheduler:<21}{unfinished(row)}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    spread = ""
    if row.ratio_lowest is not None and row.ratio_highest is not None and len(row.runs) > 1:
        spread = f"{row.ratio_lowest:.2f}-{row.ratio_highest:.2f}"
    return _COLUMNS.format(
        row.shape, gangs, row.scheduler, f"{row.seconds:.2f}", ratio, spread,
        f"{row.cpu_seconds:.2f}", f"{row.peak_mib:.0f}", f"{row.calls_per_pod:.2f}", f"{row.group_writes_per_pod:.2f}",
    ).rstrip()  # fmt: skip


def unfinished(row: Row) -> str:
    """A scheduler that did not bind all pods in time has no figures, only this."""
    text = f"not finished in time: {row.bound:,} of {row.pods:,} pods bound"
    return f"{text}, {row.half_gangs} gangs in part" if row.half_gangs and row.with_gangs else text


def table(rows: Sequence[Row], goals: Sequence[Goal]) -> Iterator[str]:
    """Rows, an empty line between cases, and what is promised of ours."""
    yield HEADING
    before = None
    for row in rows:
        if before not in (None, (row.shape, row.with_gangs)):
            yield ""
        before = (row.shape, row.with_gangs)
        yield table_line(row)
    for row in rows:
        if row.overfull_nodes:
            yield f"{row.scheduler}, {row.shape}: {row.overfull_nodes} nodes were given more than they have"
    if goals:
        yield ""
        yield _GOALS.format("ALLHANDS, WORST ROW", "VALUE", "GOAL", "WHERE", "").rstrip()
    is_judged = any(row.pods >= GOALS_FROM_PODS for row in rows)
    for goal in goals:
        verdict = ("met" if goal.is_met else "MISSED") if is_judged else ""
        yield _GOALS.format(goal.name, f"{goal.value:.2f}", f"≤ {goal.goal:g}", goal.where, verdict).rstrip()
    if goals and not is_judged:
        yield f"With fewer than {GOALS_FROM_PODS:,} pods the start of a process weighs too much: nothing is judged."


def document(facts: dict[str, Any], rows: Sequence[Row], goals: Sequence[Goal]) -> dict[str, Any]:
    """For programs: every round of every row. `facts` say what was run, and how."""
    judged = [{**msgspec.to_builtins(goal), "met": goal.is_met} for goal in goals]
    return {**facts, "machine": machine(), "rows": msgspec.to_builtins(rows), "goals": judged}


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def page(facts: dict[str, Any], rows: Sequence[Row], goals: Sequence[Goal]) -> str:
    """A page of its own: the table, and for each case how many pods were bound when."""
    title = html.escape(str(facts["command"]))
    parts = [f"<h1>{title}</h1>", f"<pre>{html.escape(chr(10).join(table(rows, goals)))}</pre>"]
    cases = dict.fromkeys((row.shape, row.with_gangs) for row in rows)
    for shape, with_gangs in cases:
        of_case = [row for row in rows if (row.shape, row.with_gangs) == (shape, with_gangs)]
        drawing = plot([_line(row) for row in of_case], "seconds since the start of the process", "pods bound")
        parts.append(f"<h2>{html.escape(shape)}, gangs {'on' if with_gangs else 'off'}</h2>\n{drawing}")
    data = json.dumps(document(facts, rows, goals)).replace("<", "\\u003c")
    parts.append(f'<script type="application/json" id="results">\n{data}\n</script>')
    return PAGE.format(title=title, body="\n".join(parts))


def _line(row: Row) -> Line:
    """Of the round in the middle."""
    ordered = sorted(row.runs, key=lambda run: run.seconds if run.seconds is not None else float("inf"))
    middle = ordered[(len(ordered) - 1) // 2]
    return Line(row.scheduler, ((0.0, 0.0), *((seconds, float(count)) for seconds, count in middle.curve)))
