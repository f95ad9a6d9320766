"""Counts requests to the API server under the names that client-go has for them: by the code of the answer, the method
and the host. Streams are counted when their head has come, or when none will."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from types import SimpleNamespace

    from allhands.ports import Metrics

FAILED: Final = "<error>"
"""No answer came."""


class RequestCounter:
    """Those to one server."""

    __slots__ = ("_host", "_metrics")

    def __init__(self, metrics: Metrics, server: str) -> None:
        self._metrics = metrics
        self._host = URL(server, encoded=True).authority

    def count(self, method: str, code: str, seconds: float) -> None:
        self._metrics.count("rest_client_requests_total", code=code, method=method, host=self._host)
        self._metrics.observe("rest_client_request_duration_seconds", seconds, verb=method, host=self._host)


def request_trace(counter: RequestCounter) -> aiohttp.TraceConfig:
    """The same for what aiohttp asks, by its own tracing."""

    async def begun(session: Any, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
        del session, params
        context.began_at = asyncio.get_running_loop().time()

    def count(context: SimpleNamespace, method: str, code: str) -> None:
        counter.count(method, code, asyncio.get_running_loop().time() - context.began_at)

    async def ended(session: Any, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        del session
        count(context, params.method, str(params.response.status))

    async def failed(session: Any, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams) -> None:
        del session
        count(context, params.method, FAILED)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(begun)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(failed)
    return trace
