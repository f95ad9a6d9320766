"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, `;` before what is about the file.

-1 means that nobody knows. Jobs that never ran, or of which it is not known how wide they were or how long they ran,
are left out and counted by the reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.sim.traces.job import TraceJob
from allhands.sim.traces.lines import Fields, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS: Final = 18
_HEADER: Final = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d{1,9})\b")


class SwfTrace:
    """The jobs are read while one iterates; what else there is to know is known when that is over."""

    def __init__(self, path: Path, unknown_run_seconds: int | None = None) -> None:
        """`unknown_run_seconds` is taken where a run time is unknown; None leaves such jobs out."""
        self._path = path
        self._unknown_run_seconds = unknown_run_seconds
        self._sizes: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        """Reason -> how many jobs."""

    @property
    def processors(self) -> int | None:
        """Of the machine, as the head of the file says; it stands before the first job."""
        return self._sizes.get("MaxProcs") or self._sizes.get("MaxNodes") or None

    def __iter__(self) -> Iterator[TraceJob]:
        for number, line in lines_of(self._path):
            if line.startswith(";"):
                if (known := _HEADER.match(line)) is not None:
                    self._sizes[known[1]] = int(known[2])
            elif line.strip():
                job = self._job(Fields(self._path, number), line.split())
                if job is not None:
                    yield job

    def _job(self, fields: Fields, columns: list[str]) -> TraceJob | None:
        if len(columns) != COLUMNS:
            raise fields.error(f"{COLUMNS} numbers expected, {len(columns)} found (is the file cut off?)")
        submit = fields.seconds("submit time (column 2)", columns[1])
        run = fields.seconds("run time (column 4)", columns[3], least=-1)
        used = fields.width("processors (column 5)", columns[4], least=-1)
        asked = fields.width("requested processors (column 8)", columns[7], least=-1)
        requested = fields.seconds("requested time (column 9)", columns[8], least=-1)
        if run < 0 and self._unknown_run_seconds is not None:
            run = self._unknown_run_seconds
        width = max(used, asked)
        reason = "run time unknown" if run < 0 else "never ran" if run == 0 else "width unknown" if width < 1 else ""
        if reason:
            self.left_out[reason] = self.left_out.get(reason, 0) + 1
            return None
        return TraceJob(
            name=columns[0],
            submit_seconds=submit,
            run_seconds=run,
            width=width,
            requested_seconds=requested if requested >= 0 else None,
            user="" if columns[11] == "-1" else columns[11],
            queue="" if columns[14] == "-1" else columns[14],
        )
