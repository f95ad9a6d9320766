"""Reads what users want created: YAML or JSON, several documents in a file, lists of objects. Changes nothing.

Whatever is wrong is told with the file and the line or the number of the document.
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

MAX_BYTES: Final = 64 << 20
_SEPARATOR: Final = re.compile(rb"^---(?=[ \t\r]|$)", re.MULTILINE)


class Wanted(NamedTuple):
    """One object and where it was written."""

    place: str
    manifest: Manifest

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def is_volcano_job(self) -> bool:
        """Whether it says in fields of its own what others are annotated with."""
        return self.kind == "Job" and str(self.manifest["apiVersion"]).startswith("batch.volcano.sh/")

    @property
    def name(self) -> str:
        metadata = self.manifest["metadata"]
        return str(metadata.get("name") or f"{metadata.get('generateName')}…")


def read_file(name: str) -> list[Wanted]:
    """All objects of a file, or of stdin if it is called `-`."""
    place = "stdin" if name == "-" else name
    try:
        text = sys.stdin.buffer.read(MAX_BYTES + 1) if name == "-" else _read(Path(name))
    except OSError as error:
        raise click.ClickException(f"{place}: {error.strerror or error}") from None
    if len(text) > MAX_BYTES:
        raise click.ClickException(f"{place}: is larger than {MAX_BYTES >> 20} MiB")
    found = [wanted for number, raw in enumerate(_documents(text), 1) for wanted in _objects(place, number, raw)]
    if not found:
        raise click.ClickException(f"{place}: has no objects in it")
    return found


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _documents(text: bytes) -> Iterator[bytes]:
    """Each with empty lines before it, so that complaints name the lines of the file."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    for begin, end in itertools.pairwise(starts):
        if text[begin:end].strip():
            yield b"\n" * text.count(b"\n", 0, begin) + text[begin:end]


def _objects(place: str, number: int, raw: bytes) -> Iterator[Wanted]:
    from allhands.server.yamltext import MalformedError, parse  # noqa: PLC0415 (`--help` must not pay for it)

    try:
        value, complaints = parse(raw)
    except MalformedError as error:
        raise click.ClickException(f"{place}: {error}") from None
    if complaints:
        raise click.ClickException(f"{place}: {'; '.join(complaints)}")
    if value is None:
        return  # only comments
    yield from _checked(f"{place}: document {number}", value)


def _checked(place: str, value: Any) -> Iterator[Wanted]:
    if not isinstance(value, dict):
        raise click.ClickException(f"{place}: must be an object with apiVersion, kind and metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise click.ClickException(f"{place}: {field}: must be a text, such as {_SUCH_AS[field]}")
    if value["kind"].endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _checked(f"{place}: items[{index}]", item)
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise click.ClickException(f"{place}: metadata.name: must be set, or metadata.generateName")
    yield Wanted(place, value)


_SUCH_AS: Final = {"apiVersion": "batch/v1", "kind": "Job"}


_QUEUED: Final = {
    "Job": ("metadata",),
    "Pod": ("metadata",),
    "PodGroup": ("metadata",),
    "CronJob": ("spec", "jobTemplate", "metadata"),
    "Deployment": ("spec", "template", "metadata"),
    "ReplicaSet": ("spec", "template", "metadata"),
    "StatefulSet": ("spec", "template", "metadata"),
}
"""Where a kind says which queue it is in."""
_GANGS: Final = {"Job": ("metadata",), "CronJob": ("spec", "jobTemplate", "metadata")}
"""Where a kind says how many of its pods must start together."""


def annotate(wanted: list[Wanted], name: str, value: str, *, gangs: bool = False) -> int:
    """Sets an annotation wherever it means something; how many objects it was set on."""
    places = _GANGS if gangs else _QUEUED
    count = 0
    for it in wanted:
        if it.is_volcano_job:
            count += _set_field(it, value, gangs=gangs)
            continue
        path = places.get(it.kind)
        if path is None:
            continue
        target = it.manifest
        for field in (*path, "annotations"):
            below = target.get(field)
            if below is None:
                below = target[field] = {}
            if not isinstance(below, dict):
                raise click.ClickException(f"{it.place}: {'.'.join(path)}: must be an object")
            target = below
        target[name] = value
        count += 1
    return count


def _set_field(it: Wanted, value: str, *, gangs: bool) -> int:
    spec = it.manifest.setdefault("spec", {})
    if not isinstance(spec, dict):
        raise click.ClickException(f"{it.place}: spec: must be an object")
    if not gangs:
        spec["queue"] = value
    elif value == "all":
        for task in spec.get("tasks") or ():
            if isinstance(task, dict):
                task.pop("minAvailable", None)
        spec.pop("minAvailable", None)  # without a word all of them start together
    else:
        spec["minAvailable"] = int(value)
    return 1
