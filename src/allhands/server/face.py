"""What every handler of the HTTP face is given: the port, the kinds, the clock and the limits, and what is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.errors import StatusError
from allhands.server.answers import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.agents.logs import Logs
    from allhands.agents.usage import Usages
    from allhands.api.kinds import Kind, Kinds
    from allhands.ports import Clock, Objects
    from allhands.server.accept import Form
    from allhands.server.access.audit import Audit
    from allhands.server.access.gate import Gate
    from allhands.server.health import Checks
    from allhands.server.limits import Limits
    from allhands.server.logs import LogStream
    from allhands.server.request import Request
    from allhands.server.watching import WatchStream


class Face:
    """Shared by all requests of one server."""

    def __init__(
        self,
        objects: Objects,
        kinds: Kinds,
        clock: Clock,
        limits: Limits,
        logs: Logs | None = None,
        *,
        gate: Gate,
        audit: Audit | None = None,
        metrics: Callable[[], str] | None = None,
        ready: Checks | None = None,
        usages: Usages | None = None,
    ) -> None:
        """`metrics` is what `/metrics` answers with; `ready` are checks of `/readyz` by name."""
        self.objects = objects
        self.kinds = kinds
        self.clock = clock
        self.limits = limits
        self.gate = gate
        self.audit = audit
        self.logs = logs
        self.usages = usages
        self.metrics = metrics
        self.ready: Checks = ready or {}
        self.watches: set[WatchStream | LogStream] = set()
        self.in_flight = 0
        self.stopping = False

    def writer(self, kind: Kind, form: Form, request: Request) -> Writer:
        return Writer(kind, form, request, self.clock.now, self.limits.rows_per_turn)

    def check_room_for_watch(self) -> None:
        if len(self.watches) >= self.limits.watches:
            raise too_many_requests()


def too_many_requests() -> StatusError:
    message = "Too many requests, please try again later."
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})
