"""Probes and metrics of a process that serves no API of its own, such as `allhands scheduler`: a server of four paths.

On loopback by default. Probes need no token, as kubelets send none; beyond loopback `/metrics` does: what it tells of
queues and jobs is not for everyone on the network.
"""

from __future__ import annotations

import contextlib
import hmac
from typing import TYPE_CHECKING

from allhands.api.errors import StatusError
from allhands.server import health
from allhands.server.answers import deliver, page_not_found, refusal
from allhands.server.limits import DEFAULT_LIMITS, Limits
from allhands.server.listening import is_loopback
from allhands.server.request import Request
from allhands.server.serve import serving_on

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from allhands.server.answers import Answer
    from allhands.server.asgi import Receive, Scope, Send
    from allhands.server.health import Checks


class HealthApp:
    """An ASGI application. `live` and `ready` are checks by name; one that fails `live` should be restarted."""

    def __init__(
        self,
        metrics: Callable[[], str],
        *,
        live: Checks | None = None,
        ready: Checks | None = None,
        token: str = "",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._metrics = metrics
        self._live = live or {}
        self._ready = ready or {}
        self.token = token
        self._limits = limits
        self._stopping = False

    def stop(self) -> None:
        """From now on it is not ready."""
        self._stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive, self._limits)
        try:
            answer = self._answer(request)
        except StatusError as error:
            answer = refusal(error)
        await deliver(answer, request, send, self._limits.write_seconds)

    def _answer(self, request: Request) -> Answer:
        segments = request.segments
        first = segments[0] if segments else ""
        found: Answer | None = None
        if first == "readyz":
            found = health.verdict(request, segments, {"shutdown": lambda: not self._stopping, **self._ready})
        elif first in health.PATHS:
            found = health.verdict(request, segments, self._live)
        elif segments == [health.METRICS]:
            self._check_token(request)
            found = health.metrics_answer(request, self._metrics)
        return found or page_not_found()

    def _check_token(self, request: Request) -> None:
        if not self.token:
            return
        scheme, _, token = request.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            raise StatusError(401, "Unauthorized", "Unauthorized")


@contextlib.asynccontextmanager
async def serving_health(app: HealthApp, listening: socket.socket) -> AsyncIterator[None]:
    """Serves while the context is open, in plain HTTP."""
    host = listening.getsockname()[0]
    if not is_loopback(host) and not app.token:
        raise ValueError(f"on {host}, which is not a loopback address, /metrics needs a token")
    async with serving_on(app, listening, None):
        yield
