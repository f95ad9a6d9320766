"""Counts requests to the API server under the names that client-go has for them. It hooks into the HTTP client's own
tracing, so that nothing is counted, and nothing is paid, where nobody reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from types import SimpleNamespace

    from allhands.ports import Metrics


def request_trace(metrics: Metrics) -> aiohttp.TraceConfig:
    """Counts every request when its head has come, or when none will."""

    async def begun(session: Any, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
        del session, params
        context.began_at = asyncio.get_running_loop().time()

    def count(context: SimpleNamespace, method: str, host: str, code: str) -> None:
        seconds = asyncio.get_running_loop().time() - context.began_at
        metrics.count("rest_client_requests_total", code=code, method=method, host=host)
        metrics.observe("rest_client_request_duration_seconds", seconds, verb=method, host=host)

    async def ended(session: Any, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        del session
        count(context, params.method, params.url.authority, str(params.response.status))

    async def failed(session: Any, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams) -> None:
        del session
        count(context, params.method, params.url.authority, "<error>")

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(begun)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(failed)
    return trace
