"""One HTTP request, as far as the face needs it: method, path, query, headers, and a body that is read only when asked.

The body is never read past its limit, and a client that sends it too slowly is refused.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote

from allhands.api.access.identity import ANONYMOUS, User
from allhands.api.errors import StatusError, bad_request

if TYPE_CHECKING:
    from allhands.api.access.attributes import Attributes
    from allhands.api.access.grants import Decision
    from allhands.server.asgi import Receive, Scope
    from allhands.server.limits import Limits


_MAX_DIGITS: Final = 19
"""Of a length; more are as good as infinite, and Python refuses to read thousands."""


class DisconnectedError(Exception):
    """The client went away while its body was read."""


def too_large(limit_bytes: int) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


class Request:
    """What was asked. Repeated query parameters are all kept; the first one counts unless a list is meant."""

    def __init__(self, scope: Scope, receive: Receive, limits: Limits) -> None:
        self.method: str = scope["method"]
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        self.raw_path = raw_path.partition(b"?")[0].decode("latin-1")
        self.headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            earlier = self.headers.get(name)
            self.headers[name] = value if earlier is None else earlier + b"," + value
        self._scope = scope
        self.receive = receive
        self.host: str = self.header(b"host")
        self.body_was_read = False
        self._query_string: bytes = scope["query_string"]
        self._query: dict[str, list[str]] | None = None
        self._limits = limits

    user: User = ANONYMOUS
    """Who asks, once the gate knows."""
    impersonator: User | None = None
    """Who asks in somebody else's name."""
    submitter: User | None = None
    """Whose rights are to be looked at when something is written; None if nobody's are."""
    attributes: Attributes | None = None
    decision: Decision | None = None
    """What was said about their rights; None if they were not let in at all."""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1").strip()

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """As they came, repeated ones each for itself."""
        return self._scope["headers"]  # type: ignore[no-any-return]

    @property
    def client(self) -> str:
        """The address that it came from."""
        return str((self._scope.get("client") or ("",))[0])

    @property
    def uri(self) -> str:
        """The path and what was asked of it, as it came."""
        query = self._query_string.decode("latin-1")
        return f"{self.raw_path}?{query}" if query else self.raw_path

    @functools.cached_property
    def segments(self) -> list[str]:
        """The parts of the path, each decoded on its own, so that an encoded slash does not make two of one."""
        path = self.raw_path.strip("/") if self.raw_path != "/" else ""
        return [unquote(part) for part in path.split("/")] if path else []

    @property
    def query(self) -> dict[str, list[str]]:
        if self._query is None:
            try:
                self._query = parse_qs(self._query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=200)
            except ValueError:
                raise bad_request("the query has too many parameters") from None
        return self._query

    def parameter(self, name: str) -> str:
        values = self.query.get(name)
        return values[0] if values else ""

    @property
    def stated_bytes(self) -> int | None:
        """The length that the head promises. One with too many digits is just very long."""
        length = self.header(b"content-length").lstrip("0") or self.header(b"content-length")[:1]
        if not (length.isascii() and length.isdigit()):
            return None
        return int(length[:_MAX_DIGITS])

    @property
    def has_body(self) -> bool:
        length = self.header(b"content-length")
        return b"transfer-encoding" in self.headers or (length != "" and length != "0")

    async def body(self) -> bytes:
        """The whole body; refused as soon as it is known to be too large."""
        limit = self._limits.body_bytes
        stated = self.stated_bytes
        if stated is not None and stated > limit:
            raise too_large(limit)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await self.receive()
                    if message["type"] != "http.request":
                        raise DisconnectedError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise too_large(limit)
                    if not message.get("more_body", False):
                        self.body_was_read = True
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise StatusError(
                408, "Timeout", f"the body of the request did not arrive within {self._limits.body_seconds:g}s"
            ) from None
