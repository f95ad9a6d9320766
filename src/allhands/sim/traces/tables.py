"""Traces that are tables with a heading: GPU jobs of Microsoft's Philly clusters, and Muri's extracts of them.

Columns are found by their names, so their order and further ones do not matter; a missing one is said at once.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from allhands.sim.traces.job import MOST_SECONDS, TraceJob
from allhands.sim.traces.lines import Fields, TraceError, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PHILLY_COLUMNS: Final = ("timestamp", "duration", "num_gpus", "cluster")
MURI_COLUMNS: Final = ("job_id", "num_gpu", "submit_time", "duration")
_MILLIS: Final = 1000


class PhillyTrace:
    """`timestamp` (a local time, taken as it is), `duration` in seconds, `num_gpus`, `cluster`. In no order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.processors: int | None = None
        self.left_out: dict[str, int] = {}

    def __iter__(self) -> Iterator[TraceJob]:
        for number, row in _rows(self._path, PHILLY_COLUMNS):
            fields = Fields(self._path, number)
            run = fields.seconds("duration", row["duration"])
            width = fields.width("num_gpus", row["num_gpus"], least=0)
            submit = _moment(fields, row["timestamp"])
            if run == 0 or width == 0:
                reason = "never ran" if run == 0 else "no GPUs"
                self.left_out[reason] = self.left_out.get(reason, 0) + 1
                continue
            yield TraceJob(f"line-{number}", submit, run, width, None, queue=row["cluster"])


class MuriTrace:
    """`submit_time` and `duration` in milliseconds, `num_gpu`; jobs shorter than a second count as one second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.processors: int | None = None
        self.left_out: dict[str, int] = {}

    def __iter__(self) -> Iterator[TraceJob]:
        for number, row in _rows(self._path, MURI_COLUMNS):
            fields = Fields(self._path, number)
            submit = fields.whole("submit_time", row["submit_time"], 0, MOST_SECONDS * _MILLIS)
            run = fields.whole("duration", row["duration"], 1, MOST_SECONDS * _MILLIS)
            width = fields.width("num_gpu", row["num_gpu"])
            yield TraceJob(row["job_id"], submit // _MILLIS, max(1, -(-run // _MILLIS)), width, None)


def heading_of(path: Path) -> list[str]:
    """The names in the first line; none if there is no line."""
    for _, line in lines_of(path):
        return next(csv.reader([line]), [])
    return []


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    heading: list[str] = []
    for number, line in lines_of(path):
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise TraceError(path, number, f"not a line of a table: {error}") from None
        if not heading:
            missing = [name for name in needed if name not in cells]
            if missing:
                raise TraceError(path, number, f"the heading lacks {', '.join(missing)}")
            heading = cells
        elif len(cells) != len(heading):
            problem = f"{len(heading)} fields expected, {len(cells)} found (is the file cut off?)"
            raise TraceError(path, number, problem)
        else:
            yield number, dict(zip(heading, cells, strict=True))
    if not heading:
        raise TraceError(path, 0, "it is empty")


def _moment(fields: Fields, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise fields.error(f"timestamp is no time of the form 2017-10-09 07:01:55: {text.strip()[:40]!r}") from None
    seconds = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    if not 0 <= seconds <= MOST_SECONDS:
        raise fields.error(f"timestamp is before 1970: {text.strip()!r}")
    return seconds
