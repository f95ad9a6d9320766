"""A tiny synchronous HTTPS client for comparing two API servers: it shows what came over the wire, and adds nothing.

It shares no code with the project's own client, so that a mistake there cannot hide a mistake in the server.
It never retries and never follows a redirect.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.parse
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPARED_HEADERS = ("content-type", "warning", "retry-after", "www-authenticate", "allow", "location")
PATIENCE_SECONDS = 20.0
"""How long a silent server is waited for; a watch that brings fewer events than wanted ends here."""


class Server(msgspec.Struct, frozen=True):
    """Where an API server is and how to be let in. `name` is for reports."""

    name: str
    url: str
    token: str
    ca_file: str


class Answer(msgspec.Struct, frozen=True):
    """One response: the compared headers (several `Warning` headers stay several), and the decoded body."""

    status: int
    headers: dict[str, list[str]]
    body: Any


class Watch:
    """An open watch stream on its own connection."""

    def __init__(self, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = _compared(response)

    def events(self, count: int | None) -> list[Any]:
        """The next `count` events, or all until the server ends the stream."""
        found: list[Any] = []
        with contextlib.suppress(http.client.IncompleteRead, TimeoutError):
            while count is None or len(found) < count:
                line = self._response.readline()
                if not line:
                    break
                found.append(json.loads(line))
        return found

    def answer(self, count: int | None) -> Answer:
        """What was streamed, as a body; a refused watch has an ordinary one."""
        if self.status != 200:
            return Answer(self.status, self.headers, _decoded(self._response.read(), self.headers))
        return Answer(self.status, self.headers, self.events(count))

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class Client:
    """One kept-alive connection to a server; watches open further ones."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._trust = ssl.create_default_context(cafile=server.ca_file)
        self._connection = self._connect()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """`headers` is all that is sent beside Host and Content-Length; the caller decides about the token."""
        try:
            self._connection.request(method, path, body=body, headers=dict(headers))
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A server may close an idle or refused connection at any time; a fresh one tells whether it lives.
            self._connection.close()
            self._connection.request(method, path, body=body, headers=dict(headers))
            response = self._connection.getresponse()
        kept = _compared(response)
        return Answer(response.status, kept, _decoded(response.read(), kept))

    def watch(self, path: str, headers: Mapping[str, str]) -> Watch:
        connection = self._connect()
        connection.request("GET", path, headers=dict(headers))
        return Watch(connection, connection.getresponse())

    def _connect(self) -> http.client.HTTPSConnection:
        host = urllib.parse.urlsplit(self.server.url).netloc
        return http.client.HTTPSConnection(host, context=self._trust, timeout=PATIENCE_SECONDS)


def _compared(response: http.client.HTTPResponse) -> dict[str, list[str]]:
    found = {name: response.headers.get_all(name) or [] for name in COMPARED_HEADERS}
    return {name: values for name, values in found.items() if values}


def _decoded(body: bytes, headers: dict[str, list[str]]) -> Any:
    media = headers.get("content-type", [""])[0].split(";")[0]
    if media == "application/json":
        return json.loads(body)
    if media == "application/yaml":
        return yaml.safe_load(body)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"binary": len(body)}
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text
