"""Results of simulations for people and programs: a table, a JSON document, and a page with plots that opens offline.

Nothing is computed here but how things look. The page refers to nothing outside itself.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from allhands.sim.plots import Line, plot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.sim.history import History, Moment
    from allhands.sim.metrics import Summary

MOST_POINTS: Final = 600
"""Of a line in a plot: more than a screen shows."""


UNIT_NAMES: Final = {"memory": "GiB of memory"}


class Result(NamedTuple):
    history: History
    summary: Summary
    wall_seconds: float


class Column(NamedTuple):
    title: str
    value: Callable[[Summary], str]
    meaning: str


def duration_text(seconds: float) -> str:
    """`7.3 s`, `12 min 30 s`, `5 h 20 min`, `12 d 3 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds % 1 else f"{int(seconds)} s"
    whole = round(seconds)
    for size, name, smaller, smaller_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // smaller} {smaller_name}"
    return f"{whole} s"


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


COLUMNS: Final = (
    Column("POLICY", lambda it: it.policy, "who goes first, and who may pass"),
    Column("JOBS", lambda it: f"{it.jobs_succeeded:,}", "that ran to their end"),
    Column("FAILED", lambda it: f"{it.jobs_failed:,}", "that failed, or could never start"),
    Column("JCT MEAN", lambda it: duration_text(it.jct_mean_seconds), "from submission to end"),
    Column("JCT P99", lambda it: duration_text(it.jct_p99_seconds), "99 of 100 jobs took no longer"),
    Column("WAIT MEAN", lambda it: duration_text(it.wait_mean_seconds), "time in which a job did not run"),
    Column("WAIT P99", lambda it: duration_text(it.wait_p99_seconds), "99 of 100 jobs waited no longer"),
    Column("WAIT MAX", lambda it: duration_text(it.wait_max_seconds), "the longest of all"),
    Column("SLOWDOWN", lambda it: f"{it.bounded_slowdown_mean:,.2f}", "mean bounded slowdown"),
    Column("USED", lambda it: _percent(it.utilisation), "of the machine"),
    Column("IDLE", lambda it: _percent(it.fragmentation), "of the machine while somebody waited"),
    Column("FAIRNESS", lambda it: f"{it.fairness:.3f}", "Jain's index of slowdown; 1 is even"),
    Column("MAKESPAN", lambda it: duration_text(it.makespan_seconds), "first submission to last end"),
    Column("/BOUND", lambda it: _ratio(it.makespan_seconds, it.lower_bound_seconds), "makespan to its lower bound"),
)


def table_text(summaries: Sequence[Summary]) -> str:
    """One line for each policy. Numbers stand at the right."""
    rows = [[column.title for column in COLUMNS], *([column.value(it) for column in COLUMNS] for it in summaries)]
    widths = [max(len(row[number]) for row in rows) for number in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def document(about: str, results: Sequence[Result], *, what: str = "trace") -> dict[str, Any]:
    """For programs. Seconds, shares of one, counts."""
    return {
        what: about,
        "machine": msgspec.to_builtins(results[0].history.machine) if results else None,
        "results": [
            {
                **_numbers(it.summary),
                "wall_seconds": round(it.wall_seconds, 3),
                "jobs_per_wall_second": round(it.summary.jobs_succeeded / it.wall_seconds, 1) if it.wall_seconds else 0,
            }
            for it in results
        ],
    }


def _numbers(summary: Summary) -> dict[str, Any]:
    numbers: dict[str, Any] = msgspec.to_builtins(summary)
    if not summary.cycles:  # nobody counted them
        del numbers["cycles"]
    return numbers


def page(about: str, results: Sequence[Result], *, what: str = "trace", more: Sequence[str] = ()) -> str:
    """A page of its own: the table, what its columns mean, and plots over time and over jobs. `more` are sentences."""
    title = html.escape(f"allhands simulate: {about}")
    how = "decisions only" if what == "trace" else "the whole system"
    parts = [f"<h1>{title}</h1>", _machine_text(results, how), _html_table([it.summary for it in results])]
    parts += [f"<p>{html.escape(sentence)}</p>" for sentence in more]
    parts += [f"<h2>{html.escape(heading)}</h2>\n{drawing}" for heading, drawing in _plots(results)]
    data = json.dumps(document(about, results, what=what), indent=1).replace("<", "\\u003c")
    parts.append(f'<script type="application/json" id="results">\n{data}\n</script>')
    return PAGE.format(title=title, body="\n".join(parts))


def _machine_text(results: Sequence[Result], how: str) -> str:
    if not results:
        return "<p>Nothing was simulated.</p>"
    machine = results[0].history.machine
    where = "in one pool" if machine.is_pool else f"on {machine.nodes:,} nodes"
    unit = UNIT_NAMES.get(machine.resource, machine.resource)
    return f"<p>{machine.units:,.15g} × {html.escape(unit)} {where}; {how}, in virtual time.</p>"


def _html_table(summaries: Sequence[Summary]) -> str:
    heads = "".join(f'<th title="{html.escape(it.meaning)}">{html.escape(it.title)}</th>' for it in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(column.value(it))}</td>" for column in COLUMNS) + "</tr>"
        for it in summaries
    )
    meanings = "".join(f"<dt>{html.escape(it.title)}</dt><dd>{html.escape(it.meaning)}</dd>" for it in COLUMNS)
    table = f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"{table}<details><summary>What the columns mean</summary><dl>{meanings}</dl></details>"


def _plots(results: Sequence[Result]) -> list[tuple[str, str]]:
    axis = time_axis(max((_span_seconds(it.history) for it in results), default=0.0))
    used = [_over_time(it, axis, lambda moment, units: 100 * moment.used / units) for it in results]
    waiting = [_over_time(it, axis, lambda moment, _: moment.waiting) for it in results]
    completion = [_over_jobs(it, [float(ran.completion_seconds) for ran in it.history.ran]) for it in results]
    waits = [_over_jobs(it, [float(ran.wait_seconds) for ran in it.history.ran]) for it in results]
    queues = [
        (f"Used by queues, {it.summary.policy}" if len(results) > 1 else "Used by queues", _by_queue(it, axis))
        for it in results
        if it.history.used_by_queue
    ]
    return [
        ("Used over time", plot(used, axis.name, "% of the machine")),
        *queues,
        ("Waiting over time", plot(waiting, axis.name, "jobs")),
        ("Completion times", plot(completion, "seconds from submission to end", "% of jobs", logarithmic=True)),
        ("Waiting times", plot(waits, "seconds", "% of jobs", logarithmic=True)),
    ]


class TimeAxis(NamedTuple):
    name: str
    seconds: int


_TIMES: Final = (TimeAxis("days", 86_400), TimeAxis("hours", 3_600), TimeAxis("minutes", 60), TimeAxis("seconds", 1))


def time_axis(span_seconds: float) -> TimeAxis:
    """The largest unit of which there are at least two."""
    return next((it for it in _TIMES if span_seconds >= 2 * it.seconds), _TIMES[-1])


def _span_seconds(history: History) -> float:
    moments = history.moments
    return moments[-1].at_seconds - moments[0].at_seconds if moments else 0.0


def _over_time(result: Result, axis: TimeAxis, value: Callable[[Moment, float], float]) -> Line:
    moments, units = result.history.moments, result.history.machine.units
    if not moments:
        return Line(result.summary.policy, ())
    first = moments[0].at_seconds
    points = [((it.at_seconds - first) / axis.seconds, value(it, units)) for it in moments]
    return Line(result.summary.policy, _thinned(points), is_stepped=True)


def _by_queue(result: Result, axis: TimeAxis) -> str:
    history = result.history
    first = history.moments[0].at_seconds
    lines = [
        Line(
            name,
            _thinned([((at - first) / axis.seconds, 100 * used / history.machine.units) for at, used in points]),
            is_stepped=True,
        )
        for name, points in history.used_by_queue.items()
    ]
    return plot(lines, axis.name, "% of the machine")


def _over_jobs(result: Result, values: Sequence[float]) -> Line:
    ordered = sorted(values)
    points = [(value, 100 * number / len(ordered)) for number, value in enumerate(ordered, 1)]
    return Line(result.summary.policy, _thinned(points))


def _thinned(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Of every stretch the first, lowest and highest point, so that no peak is lost."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    stride = -(-3 * len(points) // MOST_POINTS)
    kept: list[tuple[float, float]] = []
    for begin in range(0, len(points), stride):
        stretch = points[begin : begin + stride]
        extremes = {stretch[0], min(stretch, key=lambda it: it[1]), max(stretch, key=lambda it: it[1])}
        kept += sorted(extremes)
    return (*kept, points[-1])


def _ratio(value: float, bound: float) -> str:
    return f"{value / bound:.3f}" if bound else "-"


PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2430; --faint: #8a94a3; --line: #d8dde5; --paper: #ffffff; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e9ee; --line: #39424f; --paper: #151a21; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }}
body {{ max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }}
th, td {{ text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }}
th:first-child, td:first-child {{ text-align: left; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }} dd {{ margin: 0; }}
svg {{ width: 100%; height: auto; }} svg text {{ fill: var(--ink); font: 12px system-ui, sans-serif; }}
svg .grid {{ stroke: var(--line); }} svg .faint {{ fill: var(--faint); }} svg path {{ fill: none; stroke-width: 1.6; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
