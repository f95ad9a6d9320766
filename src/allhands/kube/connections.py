"""Connections to an API server, and their end.

A client that is left must have let go of every socket, also of those whose request was cancelled halfway: a loop that
closes before its sockets do leaks them. aiohttp waits only for the connections that it still holds as open.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

    from allhands.kube.kubeconfig import Access

UNLIMITED: Final = 0
"""How many connections, for aiohttp: a watch or a log holds one for as long as it likes."""
CLOSING_SECONDS: Final = 2.0
"""A connection that was aborted is gone in the loop's next turn; nothing waits for the other side."""


class Connector(aiohttp.TCPConnector):
    """Keeps an eye on every connection that it made."""

    def __init__(self, tls: ssl.SSLContext, limit: int) -> None:
        super().__init__(limit=limit, ssl=tls)
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


def tls_context(access: Access) -> ssl.SSLContext:
    """Verifies the server unless the kubeconfig says otherwise; shows our certificate if we have one."""
    context = ssl.create_default_context(cadata=access.ca_pem.decode() if access.ca_pem else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate_pem:
        # The standard library loads client certificates from files only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(access.client_certificate_pem + b"\n" + access.client_key_pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context
