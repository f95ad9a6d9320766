"""The connections that aiohttp makes to an API server, and their end.

A client that is left must have let go of every socket, also of those whose request was cancelled halfway: a loop that
closes before its sockets do leaks them. aiohttp waits only for the connections that it still holds as open.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from allhands.kube.connections import KEEP_ALIVE_SECONDS, watched_socket

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

READ_BUFFER_BYTES: Final = 512 * 1024
"""Large answers come in large parts: each part costs a turn of the event loop."""
DNS_SECONDS: Final = 30
CLOSING_SECONDS: Final = 2.0
"""A connection that was aborted is gone in the loop's next turn; nothing waits for the other side."""


class Connector(aiohttp.TCPConnector):
    """Keeps an eye on every connection that it made."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            limit=limit,
            limit_per_host=limit,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            ttl_dns_cache=DNS_SECONDS,
            socket_factory=watched_socket,
        )
        self._made: weakref.WeakKeyDictionary[ResponseHandler, asyncio.Transport] = weakref.WeakKeyDictionary()

    async def _create_connection(self, *request: Any) -> ResponseHandler:
        made = await super()._create_connection(*request)
        if made.transport is not None:
            self._made[made] = made.transport
        return made

    async def close(self, *, abort_ssl: bool = True) -> None:
        """Returns when all of them are closed. A graceful end of TLS would wait for a server with no more to say."""
        ends = [end for it in self._made if (end := it.closed) is not None]
        for transport in list(self._made.values()):
            transport.abort()
        await super().close(abort_ssl=abort_ssl)
        if ends:
            await asyncio.wait(ends, timeout=CLOSING_SECONDS)
