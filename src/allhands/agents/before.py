"""What the API still knows of containers that an agent before this one ran, and the back-off that follows from it.

Pure. An agent that finds a pod anew goes on from here: a count that began again would let a container that always fails
put off its Job's limit for ever. Never guesses: what the status does not say was not so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.pod_status import Running, State, Terminated, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.api.document import Manifest

CRASH_LOOP: Final = "CrashLoopBackOff"
_MOST_DOUBLINGS: Final = 30
_NEVER_BEGUN: Final = Waiting("ContainerCreating")


class Before(msgspec.Struct, frozen=True):
    """One container as it was last reported."""

    restarts: int = 0
    state: State = _NEVER_BEGUN
    last: Terminated | None = None


def before_by_name(statuses: Iterable[Manifest] | None) -> dict[str, Before]:
    """From the container statuses of a pod."""
    return {
        str(it.get("name", "")): Before(
            int(it.get("restartCount") or 0), _state(it.get("state") or {}), _terminated(it.get("lastState") or {})
        )
        for it in statuses or ()
    }


def _state(state: Manifest) -> State:
    running, waiting = state.get("running"), state.get("waiting")
    if running and running.get("startedAt"):
        return Running(str(running["startedAt"]))
    if waiting:
        return Waiting(str(waiting.get("reason") or ""), str(waiting.get("message") or ""))
    return _terminated(state) or _NEVER_BEGUN


def _terminated(state: Manifest) -> Terminated | None:
    ended = state.get("terminated")
    if not ended:
        return None
    return Terminated(
        int(ended.get("exitCode") or 0),
        str(ended.get("reason") or ""),
        ended.get("startedAt"),
        str(ended.get("finishedAt") or ""),
        str(ended.get("message") or ""),
    )


def back_off_seconds(restarts: int, first_seconds: float, most_seconds: float) -> float:
    """How long a container that was restarted so often waits after it fails again: the first restart comes at once."""
    if restarts <= 0:
        return 0.0
    doubled: float = first_seconds * 2.0 ** min(restarts - 1, _MOST_DOUBLINGS)
    return min(most_seconds, doubled)
