"""A job of a trace: when it came, how wide it is, how long it ran and how long it said it would.

Whole seconds and whole processors, whatever the format of the file was.
"""

from typing import Final

import msgspec

MOST_SECONDS: Final = 1 << 38
"""Some 8,700 years: no time in a trace is longer, so that sums stay far within 64 bits."""
MOST_WIDTH: Final = 1 << 30


class TraceJob(msgspec.Struct, frozen=True, gc=False):
    name: str
    """What the trace calls it."""
    submit_seconds: int
    run_seconds: int
    """How long it really runs, without interruption."""
    width: int
    """How many processors or GPUs it needs, all at once."""
    requested_seconds: int | None = None
    """How long it says that it runs; None where the trace does not know."""
    user: str = ""
    queue: str = ""
    """The queue, partition or virtual cluster that it was submitted to."""

    @property
    def area(self) -> int:
        """Processors times seconds."""
        return self.width * self.run_seconds

    @property
    def expected_seconds(self) -> int:
        """What a scheduler is told: what was requested, else the truth."""
        return self.run_seconds if self.requested_seconds is None else self.requested_seconds
