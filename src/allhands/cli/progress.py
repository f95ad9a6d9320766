"""A bar on a terminal's standard error, overwritten in place; elsewhere nothing is shown."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

ERASE_LINE = "\r\x1b[K"
_BAR_WIDTH = 30
_SECONDS_BETWEEN = 0.1


def progress_bar(before: str = "") -> Callable[[int, int, str], None] | None:
    """Call it with how many of how many are done, and what to say behind the bar. None where nobody would see it."""
    if not sys.stderr.isatty():
        return None
    shown_at = 0.0

    def show(done: int, total: int, text: str) -> None:
        nonlocal shown_at
        now = time.perf_counter()
        if now - shown_at >= _SECONDS_BETWEEN:
            shown_at = now
            bar = "█" * (_BAR_WIDTH * done // total)
            click.echo(f"{ERASE_LINE}{before}{bar:░<{_BAR_WIDTH}}  {text}", nl=False, err=True)

    return show


def erase_progress() -> None:
    if sys.stderr.isatty():
        click.echo(ERASE_LINE, nl=False, err=True)
