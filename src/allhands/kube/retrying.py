"""Whether a request that failed is sent again, and when. Reads may be repeated; a write only if it was certainly not
done: it never reached the server, or the server turned it away before looking at it. Everybody waits a random time
(full jitter), so that those who failed together do not come back together; Retry-After is a least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.kube.refusals import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    SERVER_MISTAKE,
    TOO_MANY,
    UNAVAILABLE,
    UnansweredError,
    UntrustedError,
    UnusableError,
)

if TYPE_CHECKING:
    import random

    from allhands.api.errors import StatusError

READS: Final = frozenset({"GET", "HEAD"})
BUDGET_CAUSE: Final = "DisruptionBudget"


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a caller is kept waiting for a server that is not well. Who watches or leads goes on by himself after
    that; a person at a terminal wants to know."""

    attempts: int = 5
    asked_to_wait_attempts: int = 10
    """When the server itself says when to come back."""
    first_seconds: float = 0.1
    most_seconds: float = 2.0
    total_seconds: float = 60.0
    """For all attempts together, with the waiting."""


IMPATIENT: Final = Patience(attempts=1, asked_to_wait_attempts=1)


def is_repeatable(method: str, error: StatusError) -> bool:
    """Whether asking again can help and can do no harm."""
    if isinstance(error, UntrustedError):
        return False
    asked_to_wait = "retryAfterSeconds" in (error.details or {})
    if error.code == TOO_MANY:
        return asked_to_wait and not _is_about_a_budget(error)
    if isinstance(error, UnansweredError) and not error.was_sent:
        return True
    if method in READS:
        if isinstance(error, UnansweredError) or error.code in (BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT):
            return not isinstance(error, UnusableError)
        return error.code == SERVER_MISTAKE and asked_to_wait
    return error.code == UNAVAILABLE and asked_to_wait


def _is_about_a_budget(error: StatusError) -> bool:
    """An eviction that is refused to protect others: that is an answer, not a busy server."""
    causes = (error.details or {}).get("causes")
    return any(isinstance(it, dict) and it.get("reason") == BUDGET_CAUSE for it in causes or ())


def is_unknown(method: str, error: StatusError) -> bool:
    """Whether a write may have been done although it was not answered well."""
    if method in READS:
        return False
    if isinstance(error, UnansweredError):
        return error.was_sent
    return error.code >= SERVER_MISTAKE and not is_repeatable(method, error)


def pause_seconds(
    patience: Patience, method: str, error: StatusError, attempt: int, chance: random.Random
) -> float | None:
    """How long to wait after the attempt with this number, counted from 1; None if there shall be no other."""
    if not is_repeatable(method, error):
        return None
    asked_to_wait = "retryAfterSeconds" in (error.details or {})
    if attempt >= (patience.asked_to_wait_attempts if asked_to_wait else patience.attempts):
        return None
    jitter = chance.uniform(0, min(patience.most_seconds, patience.first_seconds * 2 ** (attempt - 1)))
    return error.retry_after_seconds + jitter if asked_to_wait else jitter
