"""What the demo paints while it runs: every GPU with the job that holds it, and the jobs that are not over.

Rows of coloured texts out of a picture of the cluster; nothing is read or written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.cli.demo_cast import GPU, GPUS_PER_NODE, MACHINE
from allhands.cli.grid_text import Cell, state_cell
from allhands.views.groups import groups_of
from allhands.views.moments import ahead_text
from allhands.views.rows import GroupState, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.cli.demo_history import History
    from allhands.views.picture import Picture
    from allhands.views.rows import GroupRow

FREE: Final = "·"
COLOURS: Final = ("green", "blue", "magenta", "red", "yellow", "cyan", "bright_green", "bright_blue", "bright_magenta")
MOST_WORDS: Final = 200


def painted(picture: Picture, history: History, now_seconds: int) -> list[list[Cell]]:
    """A row for each rack, one for the process node, and one for each job that waits or runs."""
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(history.jobs)}
    held = _held(picture)
    rows: list[list[Cell]] = []
    for rack in dict.fromkeys(history.racks.values()):
        row = [Cell(f"  {rack}  ")]
        for node in (name for name, its in history.racks.items() if its == rack):
            holders = [job for job, gpus, _ in held.get(node, ()) for _ in range(gpus)]
            row += [Cell(f" {node} [")]
            row += [Cell(job[:1], colours.get(job, "")) for job in holders]
            row += [Cell(f"{FREE * (GPUS_PER_NODE - len(holders))}]")]
        rows.append(row)
    processes = sum(pods for _, _, pods in held.get(MACHINE, ()))
    rows += [[Cell(f"  {MACHINE}  {processes} processes")]] if processes else []
    shown = (row_of(group) for group in groups_of(picture) if group.name in history.jobs)
    rows += [_job_row(row, colours, now_seconds) for row in shown if not row.state.is_over]
    return rows


def _held(picture: Picture) -> Mapping[str, list[tuple[str, int, int]]]:
    """By node: job, GPUs and one pod, for each pod on it."""
    held: dict[str, list[tuple[str, int, int]]] = {}
    for seen in picture.pods:
        pod = seen.record.pod
        if pod.holds_resources:
            held.setdefault(pod.node_name, []).append((seen.record.job_name, pod.requests.get(GPU), 1))
    return {node: sorted(holders) for node, holders in held.items()}


def _job_row(row: GroupRow, colours: Mapping[str, str], now: int) -> list[Cell]:
    head = [Cell(f"  {row.name:<10}", colours.get(row.name, "")), state_cell(row.state.value)]
    gap = " " * (11 - len(row.state.value))
    if row.state is not GroupState.WAITING:
        return [*head, Cell(f"{gap}{row.ready} of {row.total} workers")]
    when = ""
    if row.expected_start_seconds is not None:
        when = f"starts {ahead_text(row.expected_start_seconds, now)}: "
    return [*head, Cell(f"{gap}{when}{row.why[:MOST_WORDS]}")]
