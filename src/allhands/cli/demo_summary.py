"""The end of the demo: a table of what happened to each job and why, and what to try next."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from allhands.cli.demo_screen import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.demo_history import History

GAP: Final = "  "
LEAST_WORDS: Final = 20
EXAMPLE: Final = "examples/gang.yaml"
HEADING: Final = ("JOB", "QUEUE", "WAITED", "RAN", "WHERE", "WHY IT WAITED")


def table(history: History, at: float, width: int) -> list[str]:
    """A line for each job; the last column takes as many lines as it needs."""
    rows = []
    for job in history.jobs.values():
        queue = job.row.queue if job.row is not None else ""
        waited, ran = f"{job.waited_seconds(at):.1f} s", f"{job.ran_seconds(at):.1f} s"
        rows.append((job.name, queue or "-", waited, ran, _where(history, job.name), job.why() or "-"))
    widths = [max(len(row[column]) for row in (HEADING, *rows)) for column in range(len(HEADING) - 1)]
    room = max(LEAST_WORDS, width - sum(widths) - len(GAP) * len(widths))
    lines: list[str] = []
    for row in (HEADING, *rows):
        lines += _lines_of(row, widths, room)
    return lines


def _where(history: History, name: str) -> str:
    is_everywhere = history.racks_of(name) == set(history.racks.values())
    return "all racks" if is_everywhere else history.where(name)


def _lines_of(row: Sequence[str], widths: Sequence[int], room: int) -> list[str]:
    first = GAP.join(cell.ljust(most) for cell, most in zip(row[:-1], widths, strict=True))
    rest = " " * len(first)
    words = wrapped(row[-1], room)
    return [f"{first if number == 0 else rest}{GAP}{part}".rstrip() for number, part in enumerate(words)]


def next_steps(program: str) -> list[str]:
    """Commands that work as they stand, in the order in which a person would give them."""
    steps = [
        ("export KUBECONFIG=~/.allhands/kubeconfig", ""),
        ("kubectl create job hello --image=any -- echo hello", "a job of your own"),
        (f"{program} explain job/hello", "where it ran, or why it waits"),
        (f"{program} logs job/hello", "what it wrote"),
    ]
    if Path(EXAMPLE).is_file():
        steps.append((f"{program} submit -f {EXAMPLE}", "four workers, together or not at all"))
        steps.append((f"{program} explain job/training", "where they run, or why they wait"))
    steps.append((f"{program} jobs --watch", "who runs, who waits, and until when"))
    first = (f"{program} up --local", "a cluster that stays, on this machine")
    most = max(len(command) for command, _ in (first, *steps))
    lines = [f"  {command.ljust(most)}  {words}".rstrip() for command, words in (first, *steps)]
    return [lines[0], "and in another terminal:", *lines[1:]]


def how_to_call() -> str:
    """As the user can type it here: by name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("allhands")
    if found is not None and called.exists() and Path(found).resolve() == called.resolve():
        return "allhands"
    return str(called) if called.name == "allhands" and called.parent != Path() else "allhands"
