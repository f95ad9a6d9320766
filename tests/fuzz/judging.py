"""A client that sends anything and judges what comes back: an answer in time, no fault of the server's own.

It speaks plain HTTP over TLS by hand where a library would refuse to send what a hostile client does.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import re
import ssl
import urllib.parse
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from tests.conformance.client import Server

PATIENCE_SECONDS: Final = 15.0
MAX_ANSWER_BYTES: Final = 64 << 20
NOT_IMPLEMENTED: Final = 501
_SERVER_FAULT: Final = 500
LIKE_THE_REAL_SERVER: Final = re.compile(
    r"resourceVersion should not be set on objects to be created"
    r"|strconv\.ParseU?int: parsing |content is not a list|Non-matching dry-run options"
    r"|This pod has more than one PodDisruptionBudget|Too large resource version"
    r"|^(target|metadata)\.[a-zA-Z.]+: (Required|Invalid|Unsupported) value|^name: Required value"
    r"|unable to find api field in struct|does not contain declared merge key: |^unknown patch type: "
    r"|^list element types are not identical: |doesn't match \$setElementOrder list:"
    r"|^expected a (\[\]|map\[string\])interface \{\}, but received a "
    r"|^failed to create typed patch object |^failed to convert new object "
)
"""What a real server answers with 5xx too, in these words; `tests/conformance` compares them."""


class Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        shown = "" if self.body is None else f" {self.content_type} {self.body[:2000]!r}"
        return f"{self.method} {self.target[:2000]}{shown}"


class Faults(logging.Handler):
    """What the server logs as its own failures."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


class Judge:
    """Sends requests on one connection, which it opens anew when the server has closed it."""

    def __init__(self, server: Server, faults: Faults) -> None:
        self._server = server
        self._faults = faults
        parts = urllib.parse.urlsplit(server.url)
        self.address = (str(parts.hostname), int(parts.port or 443))
        self.tls = ssl.create_default_context(cafile=server.ca_file)
        self._connection: http.client.HTTPSConnection | None = None
        self.statuses: dict[int, int] = {}

    def send(self, request: Request) -> int:
        """The status; fails the test if the server is to blame for anything."""
        status, text = self._exchange(request)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        assert not self._faults.found, f"{request}\n{self._faults.found.pop()}"
        if status >= _SERVER_FAULT and status != NOT_IMPLEMENTED:
            said = _message(text)
            assert LIKE_THE_REAL_SERVER.search(said), f"{request}\nis answered with {status}: {text[:1000]!r}"
        return status

    def _exchange(self, request: Request) -> tuple[int, bytes]:
        for last in (False, True):
            connection = self._connection or http.client.HTTPSConnection(
                *self.address, timeout=PATIENCE_SECONDS, context=self.tls
            )
            self._connection = connection
            try:
                return self._ask(connection, request)
            except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
                self.close()
                if last:
                    return 0, b""  # the server may hang up on what is no HTTP
        raise AssertionError

    def _ask(self, connection: http.client.HTTPSConnection, request: Request) -> tuple[int, bytes]:
        connection.putrequest(request.method, "/", skip_accept_encoding=True)
        # The library refuses to send what a hostile client does: the target goes in as it is.
        buffer = connection._buffer  # type: ignore[attr-defined]
        target = request.target.encode("utf-8", "surrogateescape")
        buffer[0] = b"%b %b HTTP/1.1" % (request.method.encode(), target.replace(b"\r", b"%0D").replace(b"\n", b"%0A"))
        connection.putheader("Authorization", f"Bearer {self._server.token}")
        if request.body is not None:
            connection.putheader("Content-Type", request.content_type.encode("latin-1", "replace"))
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        response = connection.getresponse()
        if "watch" in request.target:
            text = response.read1(1 << 16) if response.status != http.client.OK else b""
            self.close()
        else:
            text = response.read(MAX_ANSWER_BYTES)
        return response.status, text

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None


def _message(text: bytes) -> str:
    with contextlib.suppress(ValueError):
        document = json.loads(text)
        if isinstance(document, dict):
            return str(document.get("message", ""))
    return ""
