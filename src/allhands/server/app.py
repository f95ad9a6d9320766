"""The application: who may ask, which part answers, and that every request ends in an answer.

Whatever goes wrong in a handler becomes a `Status`; a traceback goes to the log, never to the client.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.measured import KindsBeside
from allhands.server import health, measured, openapi_v2, resources, reviews, subresources
from allhands.server.accept import check_route, error_form
from allhands.server.access.gate import Gate
from allhands.server.answers import (
    Answer,
    json_answer,
    page_not_found,
    refusal,
    unknown_path,
    warning_headers,
    wrong_method,
)
from allhands.server.asgi import ABORT
from allhands.server.discovery import Discovery, version_document
from allhands.server.face import Face, too_many_requests
from allhands.server.limits import DEFAULT_LIMITS, Limits
from allhands.server.logs import LogStream
from allhands.server.openapi import OpenApi
from allhands.server.paths import target_of
from allhands.server.request import DisconnectedError, Request
from allhands.server.resources import Call, Reply, in_scope
from allhands.server.watching import WatchStream, internal_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.agents.logs import Logs
    from allhands.agents.usage import Usages
    from allhands.api.kinds import Kinds
    from allhands.ports import Clock, Objects
    from allhands.server.access.audit import Audit
    from allhands.server.answers import Headers
    from allhands.server.asgi import Message, Receive, Scope, Send
    from allhands.server.health import Checks
    from allhands.server.paths import Target

_LOG = logging.getLogger(__name__)
_LINGER_BYTES: Final = 256 * 1024
"""How much of a body beyond the limit is read and thrown away, as the real server does."""
_LINGER_SECONDS: Final = 2.0
_SMALL_BYTES: Final = 16 * 1024


class App:
    """An ASGI application. `stop` ends the watches, so that the server around it can end."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self._discovery = Discovery(face.kinds)
        self._openapi = OpenApi(self._discovery)

    def stop(self) -> None:
        """From now on the server is not ready, and every watch ends."""
        self.face.stopping = True
        for watch in list(self.face.watches):
            watch.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._serve(scope, receive, send)
        except asyncio.CancelledError:
            if not self.face.stopping:
                raise  # at the server's end a request that takes too long just ends

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, self.face.limits)
        abort = (scope.get("extensions") or {}).get(ABORT, {}).get("abort")
        try:
            await self._answer(request, receive, send, abort)
        except DisconnectedError:
            return

    async def _answer(self, request: Request, receive: Receive, send: Send, abort: Callable[[], None] | None) -> None:
        audit = self.face.audit
        began = audit.begin() if audit is not None else None
        reply = await self._reply(request)
        is_stream = isinstance(reply, WatchStream | LogStream)
        if audit is not None and began is not None:
            audit.note(request, began, 200 if is_stream else reply.code, is_stream=is_stream)  # type: ignore[union-attr]
        if isinstance(reply, WatchStream | LogStream):
            await self._stream(reply, receive, send, abort)
        else:
            await self._send(request, reply, self._bounded(send, abort))

    def _bounded(self, send: Send, abort: Callable[[], None] | None) -> Send:
        """A `send` that does not wait for ever for a client that does not read."""

        async def bounded(message: Message) -> None:
            try:
                async with asyncio.timeout(self.face.limits.write_seconds):
                    await send(message)
            except TimeoutError:
                if abort is not None:
                    abort()
                raise DisconnectedError from None

        return bounded

    async def _reply(self, request: Request) -> Reply:
        face = self.face
        try:
            if not face.gate.admit_at_once(request):
                await face.gate.admit(request)
            if face.in_flight >= face.limits.requests_in_flight and not _is_probe(request):
                raise too_many_requests()
            face.in_flight += 1
            try:
                return await self._route(request)
            finally:
                face.in_flight -= 1
        except StatusError as error:
            return refusal(error, error_form(request.header(b"accept")))
        except DisconnectedError:
            raise
        except Exception:
            _LOG.exception("%s %s failed", request.method, request.raw_path)
            return refusal(internal_error("the request failed; the server's log says why"))

    async def _route(self, request: Request) -> Reply:
        segments = request.segments
        target = target_of(segments)
        if target is not None:
            return await self._on_kind(request, target)
        reply = await self._document(request, segments)
        return self._nothing_at(segments) if reply is None else reply

    def _nothing_at(self, segments: list[str]) -> Answer:
        """Below the built-in groups the real server's router refuses with a `Status`; elsewhere there is no page."""
        if self._discovery.is_routed(segments):
            raise unknown_path()
        return page_not_found()

    async def _document(self, request: Request, segments: list[str]) -> Answer | None:
        """What is not an object: discovery, schemas, health, version."""
        if not segments:
            return json_answer({"paths": self._discovery.paths()})
        first = segments[0]
        if first in health.PATHS:
            return health.answer(self.face, request, segments)
        if segments == [health.METRICS] and self.face.metrics is not None:
            return health.metrics_answer(request, self.face.metrics)
        if segments == ["version"]:
            if request.method not in ("GET", "HEAD"):
                raise wrong_method()
            check_route(request.header(b"accept"), ("application/json",))
            return json_answer(version_document())
        if first in ("api", "apis"):
            return self._discovery.answer(request, segments)
        if segments[:2] == ["openapi", "v3"]:
            return await self._openapi.answer(request, segments[2:])
        if segments == ["openapi", "v2"]:
            return openapi_v2.answer(request)
        return None

    async def _on_kind(self, request: Request, target: Target) -> Reply:
        face = self.face
        kind = face.kinds.find(target.resource)
        if kind is None:
            pods = face.kinds.find(_pods_beside(target))
            if target.resource.plural == "bindings" and not target.name and pods is not None and target.namespace:
                return await subresources.bind(Call(face, request, pods, target))
            return self._nothing_at(request.segments)
        if not in_scope(kind, target, request.method):
            return self._nothing_at(request.segments)
        call = Call(face, request, kind, target)
        if kind.is_question:
            return await reviews.answer(call)
        if kind.is_measured:
            return await measured.answer(call)
        if kind.deprecation:
            return await _warned(call)
        return await _answered(call)

    async def _stream(
        self, stream: WatchStream | LogStream, receive: Receive, send: Send, abort: Callable[[], None] | None
    ) -> None:
        self.face.watches.add(stream)
        if self.face.stopping:
            stream.end()
        try:
            await stream.run(receive, send, abort)
        finally:
            self.face.watches.discard(stream)

    async def _send(self, request: Request, answer: Answer, send: Send) -> None:
        """A body that was left unread ends the connection, after a moment in which the client can see the answer."""
        if not request.has_body or request.body_was_read or await _skipped_small_body(request):
            await answer.send(send)
            return
        more: Headers = [(b"connection", b"close")]

        async def keep_open(message: dict[str, object]) -> None:
            await send(message | {"more_body": True} if message["type"] == "http.response.body" else message)

        await answer.send(keep_open, more=more)  # type: ignore[arg-type]
        await _linger(request, self.face.limits.body_bytes + _LINGER_BYTES)
        await send({"type": "http.response.body", "body": b""})


async def _answered(call: Call) -> Reply:
    return await (subresources.answer(call) if call.target.subresource else resources.answer(call))


async def _warned(call: Call) -> Reply:
    """The reply with a warning against using this kind, which comes before all others."""
    try:
        reply = await _answered(call)
    except StatusError as error:
        error.warnings = (call.kind.deprecation, *error.warnings)
        raise
    warning = warning_headers([call.kind.deprecation])
    if isinstance(reply, Answer):
        return msgspec.structs.replace(reply, headers=(*warning, *reply.headers))
    if isinstance(reply, WatchStream):
        reply.more_headers = warning
    return reply


def _is_probe(request: Request) -> bool:
    """A server that has much to do is still alive, and must be able to say so."""
    return request.segments[:1] != [] and request.segments[0] in health.PATHS


async def _skipped_small_body(request: Request) -> bool:
    """Reads past a body that is hardly larger than the answer, so that the connection can be used again."""
    stated = request.stated_bytes
    if stated is None or stated > _SMALL_BYTES:
        return False
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            await request.body()
    except (TimeoutError, StatusError, DisconnectedError):
        return False
    return True


async def _linger(request: Request, left: int) -> None:
    """Throws away some of what the client still sends, so that its answer is not lost in a reset connection."""
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0:
                message = await request.receive()
                left -= len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _pods_beside(target: Target) -> Resource:
    return Resource(target.resource.group, target.resource.version, "pods")


def build_app(
    objects: Objects,
    kinds: Kinds,
    *,
    token: str,
    clock: Clock,
    limits: Limits = DEFAULT_LIMITS,
    logs: Logs | None = None,
    metrics: Callable[[], str] | None = None,
    ready: Checks | None = None,
    gate: Gate | None = None,
    audit: Audit | None = None,
    usages: Usages | None = None,
) -> App:
    """The HTTP face over a port. Every request but those for health and version needs the token, or one that the `gate`
    knows. `metrics` is what `/metrics` answers with; `ready` are checks of `/readyz` by name. With `usages` it serves
    metrics.k8s.io too, which it asks them for."""
    gate = gate or Gate(token)
    served = kinds if usages is None else KindsBeside(kinds)
    face = Face(
        objects, served, clock, limits, logs, gate=gate, metrics=metrics, ready=ready, audit=audit, usages=usages
    )
    return App(face)
