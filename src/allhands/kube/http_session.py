"""Requests by aiohttp: streams, and all for which `wire` is too plain, such as those through a proxy.

It costs several times what `wire` does, and can more. It never repeats a request, and follows nobody elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

from allhands.kube import refusals
from allhands.kube.answers import JSON, Answer, warning_text
from allhands.kube.connections import CONNECT_SECONDS
from allhands.kube.http_connector import READ_BUFFER_BYTES, Connector
from allhands.kube.http_counting import request_trace
from allhands.kube.proxies import proxy_for
from allhands.kube.wire import cause

if TYPE_CHECKING:
    import ssl

    from allhands.kube.access import Access
    from allhands.kube.counting import RequestCounter
    from allhands.kube.credentials import Identity
    from allhands.kube.paths import Asked
    from allhands.kube.refusals import UnansweredError
    from allhands.kube.request_text import Request
    from allhands.kube.settings import Settings

_NOT_SENT: Final = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


class HttpSession:
    """Connections that aiohttp keeps, at most `limit`."""

    def __init__(
        self, access: Access, settings: Settings, headers: dict[str, str], limit: int, counter: RequestCounter | None
    ) -> None:
        self._access = access
        self._settings = settings
        self._proxy = proxy_for(access) or None
        self._session = aiohttp.ClientSession(
            connector=Connector(limit),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            trace_configs=[] if counter is None else [request_trace(counter)],
            read_bufsize=READ_BUFFER_BYTES,
        )
        # It would repeat PUT and DELETE by itself when the answer is lost; whether they were done is not for it to say.
        self._session._retry_connection = False

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, request: Request, identity: Identity, seconds: float) -> Answer:
        """The whole answer; raises an `UnansweredError`."""
        headers = identity.headers.copy()
        headers.update(request.headers)
        try:
            async with self._session.request(
                request.method,
                self._url(request.target),
                data=request.body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
                **self._way(identity.tls),
            ) as answer:
                return await self._whole(answer)
        except (aiohttp.ClientError, OSError) as failure:
            raise self._told_apart(failure) from failure

    async def stream(
        self,
        target: str,
        what: Asked,
        identity: Identity,
        seconds: float,
        lasts_seconds: float | None,
        *,
        is_json: bool,
    ) -> HttpBody:
        """An answer that goes on for long; its head has come, within `seconds`. Raises the server's refusal."""
        try:
            async with asyncio.timeout(seconds):
                answer = await self._session.get(
                    self._url(target),
                    headers=identity.headers,
                    timeout=aiohttp.ClientTimeout(total=lasts_seconds, sock_connect=CONNECT_SECONDS),
                    **self._way(identity.tls),
                )
                try:
                    await self._refuse_bad(what, answer, is_json=is_json)
                except BaseException:
                    answer.close()
                    raise
                return HttpBody(answer, self._access.server)
        except (aiohttp.ClientError, OSError) as failure:
            raise self._told_apart(failure) from failure

    async def _refuse_bad(self, what: Asked, answer: aiohttp.ClientResponse, *, is_json: bool) -> None:
        is_strange = is_json and not answer.headers.get("Content-Type", "").startswith(JSON)
        if answer.status >= 300 or is_strange:
            most = self._settings.limits.refusal_bytes
            raise refusals.of_answer(self._access.server, what, await self._whole(answer), most)

    def _url(self, target: str) -> URL:
        """Path and parameters are quoted: the HTTP client would take them apart and quote them again."""
        return URL(self._access.server + target, encoded=True)

    def _way(self, tls: ssl.SSLContext | None) -> dict[str, Any]:
        return {
            "allow_redirects": False,
            "ssl": tls or True,
            "server_hostname": self._access.tls_server_name or None,
            "proxy": self._proxy,
        }

    # -- answers

    async def _whole(self, answer: aiohttp.ClientResponse) -> Answer:
        status, limits = answer.status, self._settings.limits
        is_good = status < 300 and answer.headers.get("Content-Type", "").startswith(JSON)
        most = limits.answer_bytes if is_good else limits.refusal_bytes
        body, is_cut = b"", True
        if not 300 <= status < 400 and not (is_good and (answer.content_length or 0) > most):
            body, is_cut = await _beginning(answer, most)
        if is_cut:
            answer.close()
        headers = {name.lower().encode(): value.encode(errors="replace") for name, value in answer.headers.items()}
        warnings = tuple(warning_text(it) for it in answer.headers.getall("Warning", ()))
        return Answer(status, headers, body, warnings, is_cut)

    def _told_apart(self, failure: BaseException) -> UnansweredError:
        """What aiohttp raises, as an error that says whether the request can have arrived."""
        server, why = self._access.server, _cause(failure)
        if isinstance(failure, aiohttp.ClientSSLError):
            return refusals.not_trusted(server, why)
        if isinstance(failure, _NOT_SENT):
            return refusals.not_reached(server, why)
        if isinstance(failure, TimeoutError):
            return refusals.too_late(server, self._settings.patience.total_seconds)
        return refusals.answer_lost(server, why)


class HttpBody:
    """The rest of an answer whose head has come."""

    def __init__(self, answer: aiohttp.ClientResponse, server: str) -> None:
        self._answer = answer
        self._server = server

    async def readany(self) -> bytes:
        try:
            return await self._answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise refusals.answer_lost(self._server, error) from error

    @property
    def is_packed(self) -> bool:
        return False  # nothing but JSON is asked for this way

    def close(self) -> None:
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            # A graceful end of TLS would wait for a server that has nothing more to say.
            connection.transport.abort()
        self._answer.close()


async def _beginning(answer: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """The body as far as it may be taken, and whether there is more."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            return b"".join(parts)[:most], True
    return b"".join(parts), False


def _cause(error: BaseException) -> str:
    certificate = getattr(error, "certificate_error", None)
    if certificate is not None:
        return str(getattr(certificate, "verify_message", "") or certificate)
    system = getattr(error, "os_error", error)
    return str(system) if isinstance(error, aiohttp.ClientSSLError) else cause(system)
