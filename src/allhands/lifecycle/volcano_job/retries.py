"""How often a Job may be restarted, how long it is waited before, and how long it stays when it is over. Numbers from
numbers; it keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from allhands.api.volcano.job import JobSpec

FIRST_PAUSE_SECONDS: Final = 10.0
MOST_PAUSE_SECONDS: Final = 300.0
DEFAULT_MAX_RETRY: Final = 3
FLOW_SECONDS: Final = 10.0
"""The Job of a flow stays at least so long: a flow that has not noted how it ended would make it again."""


def most_retries(spec: JobSpec) -> int:
    """With this one it has failed."""
    return max(1, spec.max_retry or DEFAULT_MAX_RETRY)


def pause_seconds(retries: int) -> float:
    """Before a Job is tried again: the first time none, then longer and longer."""
    return 0.0 if retries <= 1 else min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(retries - 2, 10))
