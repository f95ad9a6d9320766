"""Options that several commands share, and the way objects are named on the command line: KIND/NAME."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allhands.api.kinds import Resource

F = TypeVar("F", bound="Callable[..., Any]")

OUTPUTS: Final = ("table", "wide", "json", "yaml", "name")
ALIASES: Final = {
    "job": ("job", "jobs", "job.batch", "jobs.batch"),
    "vcjob": ("vcjob", "vcjobs", "vj", "job.batch.volcano.sh", "jobs.batch.volcano.sh"),
    "pod": ("pod", "pods", "po"),
    "podgroup": ("podgroup", "podgroups", "pg"),
    "queue": ("queue", "queues", "q", "queue.scheduling.volcano.sh", "queues.scheduling.volcano.sh"),
    "flow": ("flow", "flows", "jobflow", "jobflows", "jf", "jobflow.flow.volcano.sh", "jobflows.flow.volcano.sh"),
}
POD_GROUP_GROUPS: Final = ("scheduling.k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io")
"""Whose PodGroups there are: without a word, all of them are meant."""
_KINDS: Final = {alias: kind for kind, aliases in ALIASES.items() for alias in aliases}
FULL_NAMES: Final = {
    "job": "job.batch",
    "vcjob": "job.batch.volcano.sh",
    "pod": "pod",
    "podgroup": "podgroup",
    "queue": "queue.scheduling.volcano.sh",
    "flow": "jobflow.flow.volcano.sh",
}
"""As the API's own tools print kinds."""


PLACES: Final = {
    "job": ("batch", "v1", "jobs"),
    "cronjob": ("batch", "v1", "cronjobs"),
    "vcjob": ("batch.volcano.sh", "v1alpha1", "jobs"),
    "cronvcjob": ("batch.volcano.sh", "v1alpha1", "cronjobs"),
    "queue": ("scheduling.volcano.sh", "v1beta1", "queues"),
    "command": ("bus.volcano.sh", "v1alpha1", "commands"),
}
"""Group, version and plural of kinds that commands write."""


def resource_of(kind: str) -> Resource:
    from allhands.api.kinds import Resource  # noqa: PLC0415 (`--help` must not pay for it)

    return Resource(*PLACES[kind])


class Subject(NamedTuple):
    """What a command is about. A `kind` of "" is any; `api_group` says whose PodGroup, "" if only one can be meant."""

    kind: str
    name: str
    api_group: str = ""

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.api_group}" if self.api_group else self.kind
        return f"{kind}/{self.name}" if kind else self.name

    @property
    def full_name(self) -> str:
        """As the API's own tools print it, as far as it is known."""
        return str(self) if self.api_group else f"{FULL_NAMES[self.kind]}/{self.name}"


class SubjectType(click.ParamType["Subject"]):
    """KIND/NAME, of some of the kinds; NAME alone if `plain` names are taken."""

    name = "KIND/NAME"

    def __init__(self, *kinds: str, plain: bool = False) -> None:
        self._kinds = kinds
        self._plain = plain

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Subject:
        if isinstance(value, Subject):
            return value
        written, slash, name = str(value).partition("/")
        kind, api_group = _kind_of(written.lower())
        known = ", ".join(self._kinds)
        if self._plain and written and not slash:
            return Subject("", written)
        if not slash or not name or "/" in name:
            self.fail(f"{value!r} is not KIND/NAME, such as {self._kinds[0]}/hello", param, ctx)
        if kind not in self._kinds:
            self.fail(f"{written!r} is not one of the kinds that this is for: {known}", param, ctx)
        return Subject(kind, name, api_group)


def _kind_of(written: str) -> tuple[str, str]:
    """The kind, and the API group where it says which of several: podgroup.GROUP, podgroups.VERSION.GROUP."""
    if (kind := _KINDS.get(written, "")) != "":
        return kind, ""
    word, _, rest = written.partition(".")
    if _KINDS.get(word) == "podgroup":
        for group in POD_GROUP_GROUPS:
            if rest == group or (rest.endswith(f".{group}") and "." not in rest.removesuffix(f".{group}")):
                return "podgroup", group
    return "", ""


def ambiguous(subject: Subject, choices: Iterable[str]) -> click.ClickException:
    """Says which of several may be meant."""
    listed = sorted(choices)
    return click.ClickException(f"{subject} may be any of {', '.join(listed)}: say which, such as {listed[0]}")


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
        text += f" Did you mean {' or '.join(str(subject._replace(name=name)) for name in near)}?"
    if spaces := sorted(set(elsewhere)):
        text += f" There is one in {' and '.join(repr(space) for space in spaces[:3])}: add -n {spaces[0]}."
    return click.ClickException(text)
