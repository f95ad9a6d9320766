"""Connections to an API server, and their end.

A client that is left must have let go of every socket, also of those whose request was cancelled halfway: a loop that
closes before its sockets do leaks them. aiohttp waits only for the connections that it still holds as open.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from allhands.kube.kubeconfig_fields import KubeconfigError

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

    from allhands.kube.access import Access

CONNECT_SECONDS: Final = 30.0
READ_BUFFER_BYTES: Final = 512 * 1024
"""Large answers come in large parts: each part costs a turn of the event loop."""
KEEP_ALIVE_SECONDS: Final = 30.0
"""An idle connection is used again for so long; API servers keep them longer."""
DNS_SECONDS: Final = 30
_KEEP_ALIVE_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)
"""Seconds of silence until the other side is asked, between questions, how many; and milliseconds for which what was
sent may stay unconfirmed."""
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
UNLIMITED: Final = 0
"""How many connections, for aiohttp: a watch or a log holds one for as long as it likes."""
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


def watched_socket(address: Any) -> socket.socket:
    """A connection whose other side has vanished is noticed by the kernel, also while nothing is to be said: a watch
    would otherwise wait for ever."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE_OPTIONS:
        if (option := getattr(socket, name, None)) is not None:  # not every system has them all
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def tls_context(access: Access) -> ssl.SSLContext:
    """Verifies the server unless the kubeconfig says otherwise; shows our certificate if we have one."""
    context = ssl.create_default_context(cadata=_certificates(access.ca_pem) if access.ca_pem else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate_pem:
        # The standard library loads client certificates from files only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(access.client_certificate_pem + b"\n" + access.client_key_pem)
            file.flush()
            context.load_cert_chain(file.name, password=b"")  # a key with a password is refused, nobody is asked for it
    return context


def _certificates(pem: bytes) -> str:
    """Those in the text; what else stands in a bundle, such as names in any language, is left out."""
    found = _CERTIFICATE.findall(pem)
    if not found:
        raise KubeconfigError("certificate-authority: holds no certificate in PEM form")
    return b"\n".join(found).decode("ascii", errors="replace")
