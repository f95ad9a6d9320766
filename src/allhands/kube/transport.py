"""Requests out, answers back: connections, credentials, bounded flight, retries and limits of size, in one place.

Every failure is a `StatusError`. A read is repeated while the server is not well; a write only if it was certainly not
done, and otherwise `may_have_happened` says so. Nothing here knows what an object is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

import allhands
from allhands.api.errors import StatusError
from allhands.kube import refusals
from allhands.kube.connections import UNLIMITED, Connector
from allhands.kube.counting import request_trace
from allhands.kube.credentials import Credentials, Identity
from allhands.kube.flight import MAX_IN_FLIGHT, Flight, Urgency
from allhands.kube.proxies import proxy_for
from allhands.kube.retrying import READS, Patience, is_unknown, pause_seconds
from allhands.ports import Document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from allhands.kube.access import Access
    from allhands.kube.paths import Asked
    from allhands.ports import Metrics

T = TypeVar("T")

CONNECT_SECONDS: Final = 30.0
READ_BUFFER_BYTES: Final = 512 * 1024
"""Large answers come in large parts: each part costs a turn of the event loop."""
JSON: Final = "application/json"
_NOT_SENT: Final = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
_LOG = logging.getLogger(__name__)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is taken from a server. What is larger is refused before it fills the memory."""

    answer_bytes: int = 1024 * 1024 * 1024
    """A list without pages of a very large cluster."""
    refusal_bytes: int = 1024 * 1024
    line_bytes: int = 32 * 1024 * 1024
    """One event of a watch. An API server keeps objects of at most 1.5 MiB, as its store has them."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a client behaves; the defaults suit all parts of the system."""

    component: str = "client"
    """Who asks, as the server's logs show it."""
    patience: Patience = Patience()
    limits: Limits = Limits()
    in_flight: int = MAX_IN_FLIGHT


DEFAULTS: Final = Settings()


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
        self._metrics = metrics
        self._credentials = credentials or Credentials(access)
        self.chance = chance or random.Random()  # noqa: S311 (jitter)
        self._flight = Flight(settings.in_flight)
        self._proxy = proxy_for(access) or None
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        """Watches hold a connection each for long; they must not use up those of the requests."""

    async def __aenter__(self) -> Transport:
        await self._credentials.prepare()
        self._requests = self._session(self._flight.capacity)
        self._streams = self._session(UNLIMITED)
        return self

    async def __aexit__(self, *reason: object) -> None:
        del reason
        await self._credentials.close()
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()

    def _session(self, limit: int) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=Connector(limit),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "User-Agent": f"allhands/{allhands.__version__} ({self.settings.component})",
                "Accept-Encoding": "identity" if self.access.disable_compression else "gzip",
            },
            trace_configs=[] if self._metrics is None else [request_trace(self._metrics)],
            read_bufsize=READ_BUFFER_BYTES,
        )
        # It would repeat PUT and DELETE by itself when the answer is lost; whether they were done is not for it to say.
        session._retry_connection = False
        return session

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
        assert self._requests is not None, "used outside `async with`"
        session, place = self._requests, self._flight.place(_urgency(what, method))
        url = self._url(path, params)

        async def once(identity: Identity, deadline: _Deadline) -> Document:
            async with place:
                left = deadline.seconds_left()
                headers = identity.headers.copy()
                headers["Accept"] = accept
                if body is not None:
                    headers["Content-Type"] = content_type
                async with session.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=left, sock_connect=CONNECT_SECONDS),
                    allow_redirects=False,
                    ssl=identity.tls or True,
                    server_hostname=self.access.tls_server_name or None,
                    proxy=self._proxy,
                ) as answer:
                    await self._refuse_bad(what, answer)
                    raw = await self._read(what, answer, self.settings.limits.answer_bytes)
                    return Document(raw, _warnings(answer))

        return self._persist(method, once)

    async def stream(
        self, what: Asked, path: str, params: Mapping[str, str], *, lasts_seconds: float | None, is_json: bool = True
    ) -> aiohttp.ClientResponse:
        """An answer that goes on for long; its head has come. Whoever asked closes it."""
        assert self._streams is not None, "used outside `async with`"
        session = self._streams

        async def once(identity: Identity, deadline: _Deadline) -> aiohttp.ClientResponse:
            async with asyncio.timeout(deadline.seconds_left()):
                answer = await session.get(
                    self._url(path, params),
                    headers=identity.headers,
                    timeout=aiohttp.ClientTimeout(total=lasts_seconds, sock_connect=CONNECT_SECONDS),
                    allow_redirects=False,
                    ssl=identity.tls or True,
                    server_hostname=self.access.tls_server_name or None,
                    proxy=self._proxy,
                )
                try:
                    await self._refuse_bad(what, answer, is_json=is_json)
                except BaseException:
                    answer.close()
                    raise
                return answer

        return await self._persist("GET", once)

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        """Path and parameters are ours and quoted here: the HTTP client would take them apart and quote them again."""
        if params:
            path += "?" + "&".join([f"{name}={quote(value, safe='')}" for name, value in params.items()])
        return URL(self.access.server + path, encoded=True)

    async def _persist(self, method: str, once: Callable[[Identity, _Deadline], Awaitable[T]]) -> T:
        """Asks until there is an answer, or no sense in asking."""
        patience = self.settings.patience
        deadline = _Deadline(patience.total_seconds)
        attempt, has_renewed = 1, False
        while True:
            identity = await self._credentials.identity()
            try:
                return await once(identity, deadline)
            except (StatusError, aiohttp.ClientError, OSError, TimeoutError) as failure:
                error = failure if isinstance(failure, StatusError) else self._told_apart(failure)
                if error.code == refusals.UNAUTHORIZED and not has_renewed:
                    has_renewed = True
                    if await self._credentials.after_refusal(identity) is not None:
                        continue
                error.may_have_happened = is_unknown(method, error)
                pause = pause_seconds(patience, method, error, attempt, self.chance)
                if pause is None or pause >= deadline.seconds_left():
                    raise error from (None if error is failure else failure)
                _LOG.debug("attempt %d failed, the next is in %.2f s: %s", attempt, pause, error.message)
            attempt += 1
            await asyncio.sleep(pause)

    def _told_apart(self, failure: BaseException) -> StatusError:
        """What the HTTP client raises, as a `StatusError` that says whether the request can have arrived."""
        server, why = self.access.server, _cause(failure)
        if isinstance(failure, aiohttp.ClientSSLError):
            return refusals.not_trusted(server, why)
        if isinstance(failure, _NOT_SENT):
            return refusals.not_reached(server, why)
        if isinstance(failure, TimeoutError):
            return refusals.too_late(server, self.settings.patience.total_seconds)
        return refusals.answer_lost(server, why)

    # -- answers

    async def _refuse_bad(self, what: Asked, answer: aiohttp.ClientResponse, *, is_json: bool = True) -> None:
        """Raises unless the answer is a good one, and one of an API server."""
        status = answer.status
        if status >= 400:
            raw = await self._beginning(answer)
            raise refusals.refusal(status, raw, what, answer.headers)
        if status >= 300:
            raise refusals.redirected(self.access.server, answer.headers.get("Location", "nowhere"))
        content_type = answer.headers.get("Content-Type", "")
        if is_json and not content_type.startswith(JSON):
            raise refusals.not_the_api(self.access.server, content_type, await self._beginning(answer))

    async def _beginning(self, answer: aiohttp.ClientResponse) -> bytes:
        """As much as is needed to say what is wrong."""
        parts: list[bytes] = []
        size, most = 0, self.settings.limits.refusal_bytes
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size >= most:
                answer.close()
                break
        return b"".join(parts)

    async def _read(self, what: Asked, answer: aiohttp.ClientResponse, most: int) -> bytes:
        if (answer.content_length or 0) > most:
            answer.close()
            raise refusals.too_large(what, most)
        first = await answer.content.readany()
        if answer.content.at_eof():
            return first
        parts, size = [first], len(first)
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > most:
                answer.close()
                raise refusals.too_large(what, most)
        return b"".join(parts)


class _Deadline:
    """Begins with the first attempt: time spent in the queue for a place is our own doing."""

    __slots__ = ("_at", "_total")

    def __init__(self, total_seconds: float) -> None:
        self._total = total_seconds
        self._at: float | None = None

    def seconds_left(self) -> float:
        now = asyncio.get_running_loop().time()
        if self._at is None:
            self._at = now + self._total
        return max(0.001, self._at - now)


def _urgency(what: Asked, method: str) -> Urgency:
    if what.resource == "leases.coordination.k8s.io":
        return Urgency.LEASE
    if what.resource in ("events", "events.events.k8s.io"):
        return Urgency.EVENT
    return Urgency.READ if method in READS else Urgency.WRITE


def _warnings(answer: aiohttp.ClientResponse) -> tuple[str, ...]:
    """The texts of `299 - "text"` headers."""
    return tuple(
        header.partition('"')[2].rpartition('"')[0].replace('\\"', '"')
        for header in answer.headers.getall("Warning", ())
    )


def _cause(error: BaseException) -> str:
    """In few words: the system's own, where it has some."""
    certificate = getattr(error, "certificate_error", None)
    if certificate is not None:
        return str(getattr(certificate, "verify_message", "") or certificate)
    system = getattr(error, "os_error", error)
    if (
        isinstance(system, OSError)
        and system.errno
        and system.errno > 0
        and not isinstance(error, aiohttp.ClientSSLError)
    ):
        return os.strerror(system.errno)
    return str(system) or type(error).__name__
