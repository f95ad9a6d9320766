"""Requests out, answers back: credentials, bounded flight, retries and limits of size, in one place.

Every failure is a `StatusError`. A read is repeated while the server is not well; a write only if it was certainly not
done, and otherwise `may_have_happened` says so. Nothing here knows what an object is.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

from yarl import URL

import allhands
from allhands.api.errors import StatusError
from allhands.kube import refusals
from allhands.kube.answers import JSON, Answer
from allhands.kube.counting import FAILED, RequestCounter
from allhands.kube.credentials import Credentials, Identity
from allhands.kube.flight import Flight, Urgency
from allhands.kube.paths import with_params
from allhands.kube.proxies import proxy_for
from allhands.kube.request_text import PLAIN_METHODS, Request, RequestText
from allhands.kube.retrying import READS, is_unknown, pause_seconds
from allhands.kube.settings import DEFAULTS, Limits, Settings
from allhands.kube.wire import Wire
from allhands.ports import Document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from allhands.kube.access import Access
    from allhands.kube.http_session import HttpSession
    from allhands.kube.paths import Asked
    from allhands.kube.watching import Body
    from allhands.ports import Metrics

__all__ = ["DEFAULTS", "JSON", "Limits", "Settings", "Transport"]

T = TypeVar("T")

UNLIMITED: Final = 0
"""How many connections, for aiohttp: a stream holds one for as long as it likes."""
_LOG = logging.getLogger(__name__)


class Transport:
    """The connections to one API server. Use as an async context manager."""

    def __init__(
        self,
        access: Access,
        settings: Settings = DEFAULTS,
        metrics: Metrics | None = None,
        *,
        credentials: Credentials | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.access = access
        self.settings = settings
        self._counter = None if metrics is None else RequestCounter(metrics, access.server, settings.component)
        self._credentials = credentials or Credentials(access)
        self.chance = chance or random.Random()  # noqa: S311 (jitter)
        self._flight = Flight(settings.in_flight)
        self._common = {
            "User-Agent": f"allhands/{allhands.__version__} ({settings.component})",
            "Accept-Encoding": "identity" if access.disable_compression else "gzip",
        }
        self._text = RequestText(access.server, self._common)
        self._stream_text = RequestText(access.server, self._common | {"Accept-Encoding": "identity"})
        """What goes on for long comes piece by piece, and is not packed."""
        self._wire: Wire | None = None
        """For plain requests; None if the way to the server is not a plain one."""
        self._is_open = self._is_closed = False
        self._requests: HttpSession | None = None
        """For all other requests, once there is one."""
        self._streams: HttpSession | None = None
        """Streams hold a connection each for long; they must not use up those of the requests."""

    async def __aenter__(self) -> Transport:
        await self._credentials.prepare()
        self._is_open = True
        if self._is_plain():
            self._wire = Wire(self.access, self.settings)
        return self

    async def __aexit__(self, *reason: object) -> None:
        del reason
        self._is_closed = True
        await self._credentials.close()
        if self._wire is not None:
            self._wire.close()
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        if self._counter is not None:
            self._counter.show()

    def _is_plain(self) -> bool:
        """Windows' event loop does not tell when a socket can be read."""
        has_user = URL(self.access.server, encoded=True).user is not None
        return not proxy_for(self.access) and not has_user and sys.platform != "win32"

    def _session(self, limit: int) -> HttpSession:
        """Loading aiohttp takes longer than binding a thousand pods, and most have no use for it."""
        from allhands.kube.http_session import HttpSession  # noqa: PLC0415

        if self._is_closed:
            raise RuntimeError("this client has been closed")
        return HttpSession(self.access, self.settings, self._common, limit, self._counter)

    # -- requests

    def exchange(
        self,
        what: Asked,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Coroutine[Any, Any, Document]:
        """The answer to a request; raises the server's refusal."""
        assert self._is_open, "used outside `async with`"
        request = Request(method, with_params(path, params), body, content_type, accept)
        flight, urgency = self._flight, _urgency(what, method)
        ask = self._ask_otherwise if self._wire is None or method not in PLAIN_METHODS else self._ask_plainly

        async def once(identity: Identity, deadline: _Deadline) -> Document:
            if not flight.enter_at_once(urgency):
                await flight.enter(urgency)
            try:
                answer = await ask(request, identity, deadline)
            finally:
                flight.leave()
            if answer.is_good:
                return Document(answer.body, answer.warnings)
            raise refusals.of_answer(self.access.server, what, answer, self.settings.limits.answer_bytes)

        return self._persist(method, once)

    async def _ask_plainly(self, request: Request, identity: Identity, deadline: _Deadline) -> Answer:
        wire, counter = self._wire, self._counter
        assert wire is not None
        text = self._text.of(request, identity)
        now = wire.now()
        ends_at = deadline.begun(now)
        if counter is None:
            return await wire.ask(text, identity.tls, now, ends_at)
        code = FAILED
        try:
            answer = await wire.ask(text, identity.tls, now, ends_at)
            code = str(answer.status)
        finally:
            counter.count(request.method, code, wire.now() - now)
        return answer

    async def _ask_otherwise(self, request: Request, identity: Identity, deadline: _Deadline) -> Answer:
        if self._requests is None:
            self._requests = self._session(self._flight.capacity)
        return await self._requests.ask(request, identity, deadline.seconds_left())

    async def stream(
        self,
        what: Asked,
        path: str,
        params: Mapping[str, str],
        *,
        lasts_seconds: float | None,
        is_json: bool = True,
        accept: str = JSON,
    ) -> Body:
        """An answer that goes on for long; its head has come. Whoever asked closes it. `accept` is a wish."""
        assert self._is_open, "used outside `async with`"
        target = with_params(path, params)

        async def once(identity: Identity, deadline: _Deadline) -> Body:
            if self._wire is not None and is_json:
                return await self._stream_plainly(
                    what, Request("GET", target, accept=accept), identity, deadline, lasts_seconds
                )
            if self._streams is None:
                self._streams = self._session(UNLIMITED)
            left = deadline.seconds_left()
            return await self._streams.stream(target, what, identity, left, lasts_seconds, is_json=is_json)

        return await self._persist("GET", once)

    async def _stream_plainly(
        self, what: Asked, request: Request, identity: Identity, deadline: _Deadline, lasts_seconds: float | None
    ) -> Body:
        wire, counter = self._wire, self._counter
        assert wire is not None
        text = self._stream_text.of(request, identity)
        now, code = wire.now(), FAILED
        try:
            answer = await wire.stream(text, identity.tls, deadline.begun(now), lasts_seconds)
            code = str(answer.status) if isinstance(answer, Answer) else "200"
        finally:
            if counter is not None:
                counter.count("GET", code, wire.now() - now)
        if isinstance(answer, Answer):
            raise refusals.of_answer(self.access.server, what, answer, self.settings.limits.refusal_bytes)
        return answer

    async def _persist(self, method: str, once: Callable[[Identity, _Deadline], Awaitable[T]]) -> T:
        """Asks until there is an answer, or no sense in asking."""
        credentials, deadline = self._credentials, _Deadline(self.settings.patience.total_seconds)
        attempt, has_renewed = 1, False
        while True:
            identity = credentials.fresh() or await credentials.identity()
            try:
                return await once(identity, deadline)
            except StatusError as error:
                if error.code == refusals.UNAUTHORIZED and not has_renewed:
                    has_renewed = True
                    if await credentials.after_refusal(identity) is not None:
                        continue
                error.may_have_happened = is_unknown(method, error)
                pause = pause_seconds(self.settings.patience, method, error, attempt, self.chance)
                if pause is None or pause >= deadline.seconds_left():
                    raise
                _LOG.debug("attempt %d failed, the next is in %.2f s: %s", attempt, pause, error.message)
            attempt += 1
            await asyncio.sleep(pause)


class _Deadline:
    """Begins with the first attempt: time spent in the queue for a place is our own doing."""

    __slots__ = ("_at", "_total")

    def __init__(self, total_seconds: float) -> None:
        self._total = total_seconds
        self._at = 0.0

    def begun(self, now: float) -> float:
        """When it ends, by the loop's time; not in the past, so that whoever is asked has a chance."""
        if not self._at:
            self._at = now + self._total
        return max(self._at, now + 0.001)

    def seconds_left(self) -> float:
        now = asyncio.get_running_loop().time()
        return self.begun(now) - now


def _urgency(what: Asked, method: str) -> Urgency:
    resource = what.resource
    if resource == "leases.coordination.k8s.io":
        return Urgency.LEASE
    if resource in ("events", "events.events.k8s.io"):
        return Urgency.EVENT
    return Urgency.READ if method in READS else Urgency.WRITE
