"""Which reader a trace file needs: said by the user, or told by its name and first line. A line for each format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from allhands.sim.traces.lines import TraceError
from allhands.sim.traces.swf import SwfTrace
from allhands.sim.traces.tables import MURI_COLUMNS, PHILLY_COLUMNS, MuriTrace, PhillyTrace, heading_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from allhands.sim.traces.job import TraceJob


class Trace(Protocol):
    """A file of jobs. `left_out` is complete when all have been read, `processors` known from the first on."""

    left_out: dict[str, int]

    @property
    def processors(self) -> int | None: ...

    def __iter__(self) -> Iterator[TraceJob]: ...


FORMATS: Final[Mapping[str, Callable[[Path], Trace]]] = {"swf": SwfTrace, "philly": PhillyTrace, "muri": MuriTrace}


def open_trace(path: Path, format_name: str = "") -> Trace:
    """A reader of the file; nothing is read yet but, at most, its first line."""
    name = format_name or format_of(path)
    if name not in FORMATS:
        raise TraceError(path, 0, f"no such format: {name}; there are {', '.join(FORMATS)}")
    return FORMATS[name](path)


def format_of(path: Path) -> str:
    """By the name of the file, else by the names of its columns."""
    names = path.name.removesuffix(".gz").split(".")
    if "swf" in names:
        return "swf"
    if names[-1] == "csv":
        heading = set(heading_of(path))
        for name, columns in (("muri", MURI_COLUMNS), ("philly", PHILLY_COLUMNS)):
            if heading.issuperset(columns):
                return name
    raise TraceError(path, 0, f"its format cannot be told; say which of {', '.join(FORMATS)} it is")
