"""What a benchmark says: figures with their rounds, and how they are shown to people and to programs.

A figure keeps the value of every round, so that nobody has to trust a median. A table never exceeds 100 columns.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

MAX_COLUMNS = 100
_NAME_COLUMNS = 46


T = TypeVar("T")


def in_fresh_process(module: str, *arguments: object, answers: type[T]) -> T:
    """What `python -m MODULE ARGUMENTS` prints: memory and caches of other rounds must not count."""
    answer = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=Path(__file__).parent.parent,
        check=True,
        stdout=subprocess.PIPE,
    )
    return msgspec.json.decode(answer.stdout, type=answers)


class Goal(msgspec.Struct, frozen=True):
    """What a figure's median must reach."""

    direction: Literal["at least", "at most"]
    value: float

    def is_met_by(self, value: float) -> bool:
        return value >= self.value if self.direction == "at least" else value <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.direction == 'at least' else '≤'} {self.value:g}"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity, measured in every round."""

    name: str
    unit: str
    rounds: tuple[float, ...]
    goal: Goal | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "met" if self.goal.is_met_by(self.median) else "MISSED"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one benchmark."""

    name: str
    title: str
    command: str
    settings: tuple[str, ...]
    """Everything a reader needs to judge the figures: sizes, counts, collector settings, what was found best."""
    figures: tuple[Figure, ...]


def machine() -> dict[str, str]:
    """Where and under what load it ran; absolute values mean nothing without it."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "load": load,
    }


def command_line(name: str, *, quick: bool) -> str:
    return " ".join(["python", "-m", "bench", name, *(["--quick"] if quick else [])])


def as_table(report: Report) -> str:
    lines = [f"== {report.name}: {report.title}", f"   {report.command}"]
    for setting in report.settings:
        lines += _wrapped(setting)
    head = ("figure", "median", "lowest", "highest", "goal", "")
    lines += ["", _row(head), _row(("-" * _NAME_COLUMNS, "-" * 10, "-" * 9, "-" * 9, "-" * 7, "-" * 6))]
    for figure in report.figures:
        low, high = min(figure.rounds), max(figure.rounds)
        goal = str(figure.goal) if figure.goal else ""
        name = f"{figure.name} [{figure.unit}]"
        lines.append(_row((name, _number(figure.median), _number(low), _number(high), goal, figure.verdict)))
    return "\n".join(lines)


def _row(cells: tuple[str, str, str, str, str, str]) -> str:
    name, median, low, high, goal, verdict = cells
    return f"{name:<{_NAME_COLUMNS}}  {median:>10}  {low:>9}  {high:>9}  {goal:>7}  {verdict:<6}".rstrip()


def _wrapped(text: str) -> list[str]:
    lines, line = [], "   -"
    for word in text.split():
        if len(line) + 1 + len(word) > MAX_COLUMNS:
            lines.append(line)
            line = "    "
        line += f" {word}"
    return [*lines, line]


def _number(value: float) -> str:
    """Three significant digits, and no exponent where people read."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = 1 if value >= 10 else 2 if value >= 1 else 4
    return f"{value:.{digits}f}"


def as_json(reports: list[Report]) -> bytes:
    return msgspec.json.format(
        msgspec.json.encode(
            {
                "machine": machine(),
                "command": " ".join(["python", "-m", "bench", *sys.argv[1:]]),
                "reports": [_report_values(report) for report in reports],
            }
        )
    )


def _report_values(report: Report) -> dict[str, object]:
    figures = [
        {
            "name": figure.name,
            "unit": figure.unit,
            "median": figure.median,
            "low": min(figure.rounds),
            "high": max(figure.rounds),
            "rounds": figure.rounds,
            "goal": str(figure.goal) if figure.goal else None,
            "met": figure.goal.is_met_by(figure.median) if figure.goal else None,
        }
        for figure in report.figures
    ]
    return {
        "name": report.name,
        "title": report.title,
        "command": report.command,
        "settings": report.settings,
        "figures": figures,
    }
