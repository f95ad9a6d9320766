"""Options that several commands share, and the way objects are named on the command line: KIND/NAME."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F = TypeVar("F", bound="Callable[..., Any]")

OUTPUTS: Final = ("table", "wide", "json", "yaml", "name")
ALIASES: Final = {
    "job": ("job", "jobs", "job.batch", "jobs.batch"),
    "pod": ("pod", "pods", "po"),
    "podgroup": ("podgroup", "podgroups", "pg", "podgroup.scheduling.k8s.io", "podgroups.scheduling.k8s.io"),
    "queue": ("queue", "queues", "q", "queue.scheduling.volcano.sh", "queues.scheduling.volcano.sh"),
}
_KINDS: Final = {alias: kind for kind, aliases in ALIASES.items() for alias in aliases}
FULL_NAMES: Final = {
    "job": "job.batch",
    "pod": "pod",
    "podgroup": "podgroup.scheduling.k8s.io",
    "queue": "queue.scheduling.volcano.sh",
}
"""As the API's own tools print kinds."""


class Subject(NamedTuple):
    """What a command is about."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class SubjectType(click.ParamType["Subject"]):
    """KIND/NAME, of some of the kinds."""

    name = "KIND/NAME"

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Subject:
        if isinstance(value, Subject):
            return value
        written, slash, name = str(value).partition("/")
        kind = _KINDS.get(written.lower(), "")
        known = ", ".join(self._kinds)
        if not slash or not name or "/" in name:
            self.fail(f"{value!r} is not KIND/NAME, such as {self._kinds[0]}/hello", param, ctx)
        if kind not in self._kinds:
            self.fail(f"{written!r} is not one of the kinds that this is for: {known}", param, ctx)
        return Subject(kind, name)


def output_option(*choices: str) -> Callable[[F], F]:
    return click.option(
        "-o", "--output", type=click.Choice(choices or OUTPUTS), default="table", help="How to print. [default: table]"
    )


def watch_option(function: F) -> F:
    return click.option("-w", "--watch", is_flag=True, help="Go on showing what changes, until Ctrl-C.")(function)


def near_misses(name: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, sorted(set(names)), n=3, cutoff=0.6)


def not_found(
    subject: Subject, namespace: str, here: Iterable[str], elsewhere: Iterable[str] = ()
) -> click.ClickException:
    """Says so, with the names that might have been meant."""
    where = f' in namespace "{namespace}"' if namespace else ""
    text = f"{subject} was not found{where}."
    if near := near_misses(subject.name, here):
        text += f" Did you mean {' or '.join(f'{subject.kind}/{name}' for name in near)}?"
    if spaces := sorted(set(elsewhere)):
        text += f" There is one in {' and '.join(repr(space) for space in spaces[:3])}: add -n {spaces[0]}."
    return click.ClickException(text)
