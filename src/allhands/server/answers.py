"""Whole answers: objects, lists, tables and refusals, as bytes with their headers.

Objects are stored as JSON text and leave as that text: a list is joined, never decoded, and only who asked for a table,
for metadata or for YAML pays for decoding.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Final, cast

import msgspec

from allhands.api.errors import StatusError, go_quote
from allhands.api.schema.definitions import definitions
from allhands.api.tables.column import Describe, describe_from
from allhands.api.tables.render import IncludeObject, table_document
from allhands.server import yamltext
from allhands.server.accept import PLAIN, not_acceptable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import Page
    from allhands.server.accept import Form
    from allhands.server.asgi import Send
    from allhands.server.request import Request

Headers = list[tuple[bytes, bytes]]

_JSON: Final = b"application/json"
_MAX_WARNING_BYTES: Final = 4096
_INCLUDE: Final = {"": "Metadata", "Metadata": "Metadata", "Object": "Object", "None": "None"}


PIECE_BYTES = 256 * 1024


class Answer(msgspec.Struct, frozen=True):
    """One complete HTTP answer."""

    code: int
    body: bytes
    media_type: bytes = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: Send, *, more: Headers | None = None) -> None:
        headers: Headers = [*self.headers, *(more or [])]
        if not any(name == b"cache-control" for name, _ in self.headers):
            headers.append((b"cache-control", b"no-cache, private"))
        if self.body or self.code not in (204, 304):
            headers += [(b"content-type", self.media_type), (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        # In pieces: the transport takes the next one only when the client has read most of the last.
        whole = memoryview(self.body)
        for start in range(0, len(whole) - PIECE_BYTES, PIECE_BYTES):
            piece = bytes(whole[start : start + PIECE_BYTES])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        last = (len(whole) - 1) // PIECE_BYTES * PIECE_BYTES if whole else 0
        await send({"type": "http.response.body", "body": bytes(whole[last:])})


async def deliver(answer: Answer, request: Request, send: Send, within_seconds: float) -> None:
    """Where a body was left unread the connection ends: what comes next on it would be taken for a request. Who does
    not take the answer in time goes without."""
    more = [(b"connection", b"close")] if request.has_body and not request.body_was_read else []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            await answer.send(send, more=more)


def json_answer(value: Json, code: int = 200) -> Answer:
    return Answer(code, msgspec.json.encode(value))


def written(value: Json, form: Form, code: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    """A small document in the text that was asked for."""
    body = yamltext.dump(value) if form.yaml else msgspec.json.encode(value)
    return Answer(code, body, form.media_type.encode(), headers)


def text_answer(text: str, code: int = 200) -> Answer:
    headers = ((b"x-content-type-options", b"nosniff"),)
    return Answer(code, text.encode(), b"text/plain; charset=utf-8", headers)


def page_not_found() -> Answer:
    """What the real server says where it serves nothing at all: not even a `Status`."""
    return text_answer("404 page not found\n", 404)


def refusal(error: StatusError, form: Form = PLAIN) -> Answer:
    seconds = error.retry_after_seconds
    headers = ((b"retry-after", str(seconds).encode()),) if seconds else ()
    return written(error.status(), form, error.code, headers + warning_headers(error.warnings))


def success(code: int, form: Form, details: Manifest | None = None, warnings: Sequence[str] = ()) -> Answer:
    """The `Status` that says that it worked."""
    status: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    else:
        status["code"] = code
    return written(status, form, code, warning_headers(warnings))


def unknown_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def wrong_method() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def warning_headers(warnings: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """`Warning: 299 - "…"` for each, as many as fit."""
    headers = []
    left = _MAX_WARNING_BYTES
    for warning in warnings:
        printable = "".join(char if char.isprintable() else " " for char in warning)
        quoted = printable.replace("\\", "\\\\").replace('"', '\\"')
        value = f'299 - "{quoted}"'.encode("utf-8", "replace")
        left -= len(value)
        if left < 0:
            break
        headers.append((b"warning", value))
    return tuple(headers)


def include_object(request: Request) -> IncludeObject:
    asked = request.parameter("includeObject")
    if asked not in _INCLUDE:
        raise StatusError(
            400,
            "BadRequest",
            f"Unable to convert to Table as requested: includeObject: Invalid value: {go_quote(asked)}: "
            "must be 'Metadata', 'Object', 'None', or empty",
        )
    return cast("IncludeObject", _INCLUDE[asked])


class _OnlyMetadata(msgspec.Struct, frozen=True):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Version(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Version = _Version()


def partial_metadata(raw: bytes, version: str) -> bytes:
    """The object's metadata alone, cut out of its text."""
    metadata = bytes(msgspec.json.decode(raw, type=_OnlyMetadata).metadata)
    head = f'{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/{version}","metadata":'.encode()
    return b"".join((head, metadata, b"}"))


class Writer:
    """Writes what was read in the form that one request asked for."""

    def __init__(
        self, kind: Kind, form: Form, request: Request, now: Callable[[], datetime], rows_per_turn: int
    ) -> None:
        self.kind = kind
        self.form = form
        self._now = now
        self._rows_per_turn = rows_per_turn
        self._include: IncludeObject = include_object(request) if form.shown == "Table" else "None"

    async def of_object(self, raw: bytes, code: int = 200, warnings: Sequence[str] = ()) -> Answer:
        form = self.form
        if form.shown == "PartialObjectMetadataList":
            raise _not_a_list(self.kind)
        if form.shown == "PartialObjectMetadata":
            raw = partial_metadata(raw, form.version)
        elif form.shown == "Table":
            raw = msgspec.json.encode(self.table_of(raw))
        return self._answer(raw, code, warnings)

    async def of_page(self, page: Page) -> Answer:
        form = self.form
        if form.shown == "PartialObjectMetadata":
            raise not_acceptable(
                f"you requested PartialObjectMetadata, but the requested object is a list ({_go_list(self.kind)})"
            )
        if form.shown == "Table":
            return self._answer(msgspec.json.encode(await self._table_of_page(page)), 200)
        if form.shown == "PartialObjectMetadataList":
            items = [partial_metadata(raw, form.version) for raw in page.items]
            head = ("PartialObjectMetadataList", f"meta.k8s.io/{form.version}", _list_metadata(page))
            return self._answer(_list_text(*head, items), 200)
        kind, metadata = self.kind, _list_metadata(page)
        if kind.custom:
            return self._answer(
                _list_text(kind.listed_as, kind.api_version, {"continue": ""} | metadata, page.items), 200
            )
        items = without_type(page.items, kind)
        return self._answer(_list_text(kind.listed_as, kind.api_version, metadata, items), 200)

    def _answer(self, raw: bytes, code: int, warnings: Sequence[str] = ()) -> Answer:
        body = yamltext.dump(msgspec.json.decode(raw)) if self.form.yaml else raw
        return Answer(code, body, self.form.media_type.encode(), warning_headers(warnings) if warnings else ())

    def table_of(self, raw: bytes, *, headers: bool = True) -> Manifest:
        """The table of one object."""
        version = msgspec.json.decode(raw, type=_Versioned).metadata.resource_version
        return self._table([raw], {"resourceVersion": version}, headers=headers)

    def _table(self, raws: Sequence[bytes], metadata: Manifest, *, headers: bool = True) -> Manifest:
        table = table_document(
            self.kind.printer,
            [self._typed(raw) for raw in raws],
            self._now(),
            describe=_describe(),
            list_metadata=metadata,
            include_object=self._include,
            headers=headers,
        )
        table["apiVersion"] = f"meta.k8s.io/{self.form.version}"
        for row in table["rows"] or ():
            if self._include == "Metadata":
                row["object"]["apiVersion"] = table["apiVersion"]
        return table

    def _typed(self, raw: bytes) -> Manifest:
        document: Manifest = msgspec.json.decode(raw)
        if "kind" in document:
            return document
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version} | document

    async def _table_of_page(self, page: Page) -> Manifest:
        """Long tables are made in turns, so that they do not hold up everybody else."""
        step = self._rows_per_turn
        table = self._table(page.items[:step], _list_metadata(page))
        for start in range(step, len(page.items), step):
            await asyncio.sleep(0)
            table["rows"] += self._table(page.items[start : start + step], {}, headers=False)["rows"]
        return table


@functools.cache
def _describe() -> Describe:
    return describe_from(definitions())


def _list_metadata(page: Page) -> Manifest:
    metadata: Manifest = {"resourceVersion": page.version}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _list_text(kind: str, api_version: str, metadata: Manifest, items: Sequence[bytes]) -> bytes:
    head = f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'.encode()
    return b"".join((head, msgspec.json.encode(metadata), b',"items":[', b",".join(items), b"]}"))


def _not_a_list(kind: Kind) -> StatusError:
    if kind.custom:
        return StatusError(500, "", "content is not a list")
    name = f"*{internal_package(kind.group)}.{kind.kind}"
    return not_acceptable(f"you requested PartialObjectMetadataList, but the requested object is not a list ({name})")


def _go_list(kind: Kind) -> str:
    """The type of a list in the real server, which its message names."""
    return "*unstructured.UnstructuredList" if kind.custom else f"*{internal_package(kind.group)}.{kind.listed_as}"


def internal_package(group: str) -> str:
    """Where the real server keeps its own types of a group; its messages name it."""
    return group.partition(".")[0] or "core"


def without_type(items: Sequence[bytes], kind: Kind) -> list[bytes]:
    """Items of built-in kinds stand in a list without `kind` and `apiVersion`, which are the list's to say."""
    prefix = f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'.encode()
    skip = len(prefix)
    return [b"{" + raw[skip:] if raw.startswith(prefix) else raw for raw in items]
