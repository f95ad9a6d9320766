"""Tables for people: as wide as the terminal, or 100 columns where there is none, with colours only on a terminal.

Texts in them come from others: whatever in them would control a terminal is not printed. The column that may be long
gives way first, with an ellipsis.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from allhands.cli.plan_text import printable
from allhands.cli.table_text import MAX_WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "
LEAST_LONG = 16
LEAST_WIDTH = 8
LEAST_TERMINAL = 60
STATE_COLOURS = {
    "Waiting": "yellow",
    "Starting": "cyan",
    "Running": "green",
    "Succeeded": "blue",
    "Failed": "red",
    "Ready": "green",
    "NotReady": "red",
    "Cordoned": "yellow",
    "Tainted": "yellow",
    "Invalid": "red",
    "Missing": "red",
    "Closed": "yellow",
}


class Cell(NamedTuple):
    text: str
    colour: str = ""


def state_cell(state: str) -> Cell:
    return Cell(state, STATE_COLOURS.get(state, ""))


def width_of_output() -> int:
    """The terminal's, or what fits everywhere."""
    return max(LEAST_TERMINAL, shutil.get_terminal_size((MAX_WIDTH, 24)).columns) if is_terminal() else MAX_WIDTH


def is_terminal() -> bool:
    return sys.stdout.isatty()


def say(text: str = "", *, nl: bool = True) -> None:
    """To stdout; styles are left out where they are not wanted."""
    click.echo(text, nl=nl, color=False if os.environ.get("NO_COLOR") else None)


def control(code: str) -> None:
    """To the terminal on stdout, whether or not colours are wanted: they are another matter."""
    click.echo(code, nl=False, color=True)


def grid_lines(
    heading: Sequence[str], rows: Sequence[Sequence[Cell | str]], *, width: int | None = None, long: int | None = None
) -> list[str]:
    """A line of headings and one for each row. `width` None: nothing is cut. `long` is the column that gives way."""
    cells = [[_clean(it) for it in row] for row in rows]
    widths = [
        max(len(name), *(len(row[column].text) for row in cells)) if cells else len(name)
        for column, name in enumerate(heading)
    ]
    if width is not None:
        widths = _narrowed(widths, width - len(GAP) * (len(heading) - 1), long)
    titles = [Cell(name) for name in heading]
    return [
        GAP.join(_shown(cell, most) for cell, most in zip(row, widths, strict=True)).rstrip()
        for row in (titles, *cells)
    ]


def _clean(cell: Cell | str) -> Cell:
    text, colour = (cell, "") if isinstance(cell, str) else cell
    return Cell(printable(text) or "-", colour)


def _shown(cell: Cell, most: int) -> str:
    text = cell.text if len(cell.text) <= most else cell.text[: most - 1] + "…"
    padded = text.ljust(most)
    return click.style(text, fg=cell.colour) + " " * (most - len(text)) if cell.colour else padded


def _narrowed(widths: list[int], most: int, long: int | None) -> list[int]:
    excess = sum(widths) - most
    if excess > 0 and long is not None:
        kept = max(min(widths[long], LEAST_LONG), widths[long] - excess)
        widths[long] = kept
    cap = max(widths)
    while cap > LEAST_WIDTH and sum(min(it, cap) for it in widths) > most:
        cap -= 1
    return [min(it, cap) for it in widths]


def bar(percent: int, length: int = 10) -> str:
    """`█████░░░░░`; something is never shown as nothing."""
    filled = min(length, -(-percent * length // 100))
    return "█" * filled + "░" * (length - filled)
