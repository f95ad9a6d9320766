"""A request as the bytes that go over a connection. What is the same in all requests of one identity is written once.

Nothing that comes from outside gets a line break into a head: it is refused, never sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from yarl import URL

from allhands.api.errors import StatusError
from allhands.kube.answers import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.kube.credentials import Identity

PLAIN_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
BAD_REQUEST: Final = 400
_SAY_THEIR_LENGTH: Final = frozenset({"POST", "PUT", "PATCH"})
"""Also if there is nothing in them."""
MOST_KEPT: Final = 64


class Request(msgspec.Struct, frozen=True, gc=False):
    """`target` is a path with its parameters, both quoted, below the server's own path."""

    method: str
    target: str
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON

    @property
    def headers(self) -> dict[str, str]:
        shown = {"Accept": self.accept}
        if self.body is not None:
            shown["Content-Type"] = self.content_type
        return shown


class RequestText:
    """`common` are the headers of all requests to the server."""

    def __init__(self, server: str, common: Mapping[str, str]) -> None:
        url = URL(server, encoded=True)
        _, _, rest = server.partition("://")
        _, slash, path = rest.partition("/")
        self._prefix = slash + path
        self._common = {"Host": url.host_port_subcomponent or ""} | dict(common)
        self._identity: Identity | None = None
        self._heads: dict[tuple[str, str], bytes] = {}
        """What of the head does not depend on the object, by what is sent and what is wanted."""

    def of(self, request: Request, identity: Identity) -> bytes:
        if self._identity is not identity or len(self._heads) > MOST_KEPT:
            self._identity, self._heads = identity, {}
        method, target, body = request.method, request.target, request.body
        kind = (request.accept, "" if body is None else request.content_type)
        head = self._heads.get(kind)
        if head is None:
            head = self._heads[kind] = self._head(request, identity)
        if not target.isascii() or not target.isprintable() or " " in target:
            raise StatusError(BAD_REQUEST, "BadRequest", f"{target!r} is not a path: it must be quoted")
        first = f"{method} {self._prefix}{target} HTTP/1.1\r\n".encode()
        if body is not None:
            return b"%b%bContent-Length: %d\r\n\r\n%b" % (first, head, len(body), body)
        return first + head + (b"Content-Length: 0\r\n\r\n" if method in _SAY_THEIR_LENGTH else b"\r\n")

    def _head(self, request: Request, identity: Identity) -> bytes:
        lines = []
        for name, value in (*self._common.items(), *identity.headers.items(), *request.headers.items()):
            if not name.isprintable() or not value.isprintable() or ":" in name:
                raise StatusError(BAD_REQUEST, "BadRequest", f"the header {name!r} holds what no header can hold")
            lines.append(f"{name}: {value}\r\n")
        return "".join(lines).encode()
