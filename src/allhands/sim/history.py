"""What came out of a simulation, job by job: when each started and ended, and who never could.

Nothing is judged here; `metrics` does that. A trace has whole seconds and processors, a scenario fractions of both.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec


class PastJob(Protocol):
    """A job as the measures see it, once it is over."""

    @property
    def name(self) -> str: ...

    @property
    def submit_seconds(self) -> float: ...

    @property
    def run_seconds(self) -> float:
        """How long it runs if nobody interrupts it."""

    @property
    def width(self) -> float:
        """How many units of the machine it needs at once."""

    @property
    def area(self) -> float:
        """Units times seconds, of all that it had to do."""

    @property
    def user(self) -> str: ...

    @property
    def queue(self) -> str: ...


class Place(Protocol):
    """Where the jobs ran."""

    @property
    def units(self) -> float: ...

    @property
    def nodes(self) -> int: ...

    @property
    def resource(self) -> str:
        """What a unit is."""

    @property
    def is_pool(self) -> bool:
        """Whether nodes do not matter."""


class Ran(msgspec.Struct, frozen=True, gc=False):
    """A job that ended. `start_seconds` is its first start."""

    job: PastJob
    start_seconds: float
    end_seconds: float
    preemptions: int = 0
    idle_seconds: float | None = None
    """How long none of it ran, where that is not just what its run time leaves of its completion time."""

    @property
    def wait_seconds(self) -> float:
        """How long it did not run although it could have: before it started, and whenever it was taken back."""
        return self.completion_seconds - self.job.run_seconds if self.idle_seconds is None else self.idle_seconds

    @property
    def completion_seconds(self) -> float:
        return self.end_seconds - self.job.submit_seconds


class Moment(msgspec.Struct, frozen=True, gc=False):
    """How things stood from this moment on."""

    at_seconds: float
    used: float
    waiting: int
    waiting_width: float


class History(msgspec.Struct, frozen=True):
    machine: Place
    policy: str
    ran: tuple[Ran, ...]
    """In the order in which they ended."""
    too_wide: tuple[PastJob, ...]
    """Wider than the whole machine: not submitted."""
    unfinished: tuple[PastJob, ...]
    """Submitted, and still waiting when nothing could happen any more."""
    moments: tuple[Moment, ...]
    cycles: int
    start_whole: bool = True
    """Whether every job ran all of its width from its start on."""
    used_by_queue: Mapping[str, tuple[tuple[float, float], ...]] = {}
    """Of each queue: moments, and what its jobs used from then on. Empty where nobody looked."""
