"""Counts what aiohttp asks of an API server like all other requests (`counting`), by aiohttp's own tracing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp

from allhands.kube.counting import FAILED, RequestCounter

if TYPE_CHECKING:
    from types import SimpleNamespace


def request_trace(counter: RequestCounter) -> aiohttp.TraceConfig:
    """For a session of aiohttp."""

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
