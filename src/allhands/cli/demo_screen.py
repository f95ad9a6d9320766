"""How the demo shows itself: lines that stay and, on a terminal, a picture of the cluster below them, painted in place.

Without a terminal only the lines are written. It knows nothing of clusters: what it paints is given to it.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import TYPE_CHECKING, Final

import click

from allhands.cli.grid_text import is_terminal, say, width_of_output
from allhands.cli.plan_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.grid_text import Cell

TEXT_WIDTH: Final = 100
_HIDE_CURSOR: Final = "\033[?25l"
_SHOW_CURSOR: Final = "\033[?25h"


class Screen:
    """Use as a context manager: whatever happens, the terminal is as before."""

    def __init__(self) -> None:
        self._paints = is_terminal() and os.environ.get("TERM", "") not in ("", "dumb")
        self._painted: list[str] = []

    def __enter__(self) -> Screen:
        if self._paints:
            _control(_HIDE_CURSOR)
        return self

    def __exit__(self, *reason: object) -> None:
        del reason
        if self._paints:
            self.wipe()
            _control(_SHOW_CURSOR)

    @property
    def width(self) -> int:
        return min(TEXT_WIDTH, width_of_output())

    def heading(self, text: str) -> None:
        self.lines(["", click.style(printable(text), bold=True)])

    def words(self, text: str, indent: str = "") -> None:
        """A paragraph."""
        self.lines(wrapped(text, self.width, indent, indent))

    def news(self, at_seconds: float, text: str) -> None:
        """What happened just now."""
        self.lines(wrapped(text, self.width, f"  {at_seconds:5.1f} s  ", " " * 11))

    def lines(self, lines: Sequence[str]) -> None:
        """They stay; what is painted moves down. They may hold styles."""
        below = self._painted
        self.wipe()
        for line in lines:
            say(line)
        self._paint(below)

    def paint(self, rows: Sequence[Sequence[Cell]]) -> None:
        """Shows the rows below everything else, in place of those before, as far as there is room for them."""
        if not self._paints:
            return
        size = shutil.get_terminal_size()
        lines = [_fitted(row, size.columns - 1) for row in rows[: max(0, size.lines - 3)]]
        if lines != self._painted:
            self.wipe()
            self._paint(lines)

    def _paint(self, lines: list[str]) -> None:
        if lines:
            say("\n".join(["", *lines]))
        self._painted = lines

    def wipe(self) -> None:
        """Takes away what is painted."""
        if self._painted:
            _control(f"\033[{len(self._painted) + 1}A\r\033[J")
        self._painted = []


def _control(code: str) -> None:
    """To the terminal itself: who wants no colours still wants the cursor where it belongs."""
    click.echo(code, nl=False, color=True)


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Words that come from others are made harmless; names are not cut."""
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _fitted(row: Sequence[Cell], width: int) -> str:
    """Cut where the terminal ends, so that a line never becomes two."""
    shown, left = "", width
    for text, colour in row:
        part = printable(text)[:left]
        left -= len(part)
        shown += click.style(part, fg=colour) if colour else part
    return shown
