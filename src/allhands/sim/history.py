"""What came out of a simulation, job by job: when each started and ended, and who never could.

Nothing is judged here; `metrics` does that.
"""

import msgspec

from allhands.sim.machine import Machine
from allhands.sim.traces.job import TraceJob


class Ran(msgspec.Struct, frozen=True, gc=False):
    """A job that ended. `start_seconds` is its first start."""

    job: TraceJob
    start_seconds: int
    end_seconds: int
    preemptions: int = 0

    @property
    def wait_seconds(self) -> int:
        """How long it did not run although it could have: before it started, and whenever it was taken back."""
        return self.completion_seconds - self.job.run_seconds

    @property
    def completion_seconds(self) -> int:
        return self.end_seconds - self.job.submit_seconds


class Moment(msgspec.Struct, frozen=True, gc=False):
    """How things stood from this moment on."""

    at_seconds: int
    used: int
    waiting: int
    waiting_width: int


class History(msgspec.Struct, frozen=True):
    machine: Machine
    policy: str
    ran: tuple[Ran, ...]
    """In the order in which they ended."""
    too_wide: tuple[TraceJob, ...]
    """Wider than the whole machine: not submitted."""
    unfinished: tuple[TraceJob, ...]
    """Submitted, and still waiting when nothing could happen any more."""
    moments: tuple[Moment, ...]
    cycles: int
