"""Speaks to an ASGI application without a network, and stands in for the port behind it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.catalog import builtin_kinds
from allhands.api.kinds import Checked, Kind, KindRegistry, Resource
from allhands.api.tables.column import NAME, TablePrinter
from allhands.ports import Deleted, Document, Event, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.document import Manifest
    from allhands.server.app import App

TOKEN = "a-token"
CUSTOM = Resource("example.com", "v1", "widgets")


class AnyShape:
    def check(self, document: Manifest) -> Checked:
        return Checked(document)

    def decoded(self, body: bytes) -> Manifest | None:
        del body
        return None

    def encoded(self, document: Manifest) -> bytes:
        return msgspec.json.encode(document)

    def worked_form(self, stored: Manifest) -> Manifest:
        return stored


def widget_kind() -> Kind:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    return Kind(
        resource=CUSTOM,
        kind="Widget",
        singular="widget",
        shape=AnyShape(),
        printer=TablePrinter((NAME,), lambda document, _now: [document["metadata"].get("name", "")]),
        custom=True,
        subresources=("status",),
        open_api_schema=schema,
    )


def registry() -> KindRegistry:
    return KindRegistry([*builtin_kinds(), widget_kind()])


def raw(kind: str, name: str, api_version: str = "v1", **more: Any) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "7"}
    return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata} | more)


class ListedWatch:
    """The events of a list, then silence until it is closed."""

    def __init__(self, *events: Event | Exception) -> None:
        self.events = list(events)
        self.closed = asyncio.Event()
        self.polls = 0

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self.events:
            event = self.events.pop(0)
            if isinstance(event, Exception):
                raise event
            return event
        await self.closed.wait()
        raise StopAsyncIteration

    def poll(self) -> Event | None:
        self.polls += 1
        if not self.events or isinstance(self.events[0], Exception):
            return None
        event = self.events.pop(0)
        assert isinstance(event, Event)
        return event

    def bookmark(self) -> Event:
        return Event("BOOKMARK", b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"99"}}')

    async def close(self) -> None:
        self.closed.set()


class ScriptedObjects:
    """Notes every call and answers with what the test put in `answer`; an exception is raised instead."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answer: Any = Document(raw("ConfigMap", "c"))

    def _note(self, verb: str, *arguments: Any, **named: Any) -> Any:
        self.calls.append((verb, arguments, named))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def get(self, *arguments: Any, **named: Any) -> Document:
        return self._note("get", *arguments, **named)  # type: ignore[no-any-return]

    async def list(self, *arguments: Any, **named: Any) -> Page:
        return self._note("list", *arguments, **named)  # type: ignore[no-any-return]

    async def watch(self, *arguments: Any, **named: Any) -> Any:
        return self._note("watch", *arguments, **named)

    async def create(self, *arguments: Any, **named: Any) -> Document:
        return self._note("create", *arguments, **named)  # type: ignore[no-any-return]

    async def update(self, *arguments: Any, **named: Any) -> Document:
        return self._note("update", *arguments, **named)  # type: ignore[no-any-return]

    async def patch(self, *arguments: Any, **named: Any) -> Document:
        return self._note("patch", *arguments, **named)  # type: ignore[no-any-return]

    async def delete(self, *arguments: Any, **named: Any) -> Deleted:
        return self._note("delete", *arguments, **named)  # type: ignore[no-any-return]

    async def delete_all(self, *arguments: Any, **named: Any) -> Page:
        return self._note("delete_all", *arguments, **named)  # type: ignore[no-any-return]

    async def bind(self, *arguments: Any, **named: Any) -> None:
        self._note("bind", *arguments, **named)

    async def evict(self, *arguments: Any, **named: Any) -> None:
        self._note("evict", *arguments, **named)


class Reply(msgspec.Struct):
    """What came back."""

    code: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def header(self, name: str) -> str:
        return ", ".join(value.decode() for key, value in self.headers if key == name.encode())


class Client:
    """Sends one request at a time, with the right token unless told otherwise."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def ask(
        self, method: str, url: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        scope, incoming = request_scope(method, url, body, headers)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if incoming:
                return incoming.pop(0)
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        async with asyncio.timeout(10):
            await self.app(scope, receive, send)
        assert sent[0]["type"] == "http.response.start"
        assert not sent[-1].get("more_body"), "the answer has no end"
        return Reply(sent[0]["status"], sent[0]["headers"], b"".join(part.get("body", b"") for part in sent[1:]))

    async def get(self, url: str, **headers: str) -> Reply:
        return await self.ask("GET", url, headers={name.replace("_", "-"): value for name, value in headers.items()})


def request_scope(
    method: str, url: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An ASGI scope and the messages that carry the body."""
    path, _, query = url.partition("?")
    content = body.encode() if isinstance(body, str) else body or b""
    named = {"authorization": f"Bearer {TOKEN}"} | (headers or {})
    if body is not None:
        named = {"content-length": str(len(content)), "content-type": "application/json"} | named
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items() if value],
    }
    return scope, [{"type": "http.request", "body": content, "more_body": False}]
