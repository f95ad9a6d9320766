"""The answers of one connection, taken from its bytes as they come: HTTP/1.1 by httptools, bodies whole and bounded.

Nothing is sent here and nobody waits. What is not surely a whole answer is never shown as one: a head that does not
end, lengths that contradict each other, a body that is cut or packed in a way that nobody asked for are errors.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import httptools
import msgspec

if TYPE_CHECKING:
    from allhands.kube.settings import Limits

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
"""Sent only to who has asked for it."""
MOST_HEAD_BYTES: Final = 64 * 1024
"""Status line and headers, those of `100 Continue` before it included."""
_SPOKEN: Final = (JSON.encode(), PROTOBUF.encode())
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class AnswerError(Exception):
    """What came is no answer, or not all of one. The connection is of no more use."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One answer, unpacked."""

    status: int
    headers: dict[bytes, bytes]
    """By their names in small letters; of several with one name the last."""
    body: bytes
    warnings: tuple[str, ...] = ()
    is_cut: bool = False
    """It was too large, or not worth reading: the body is only the beginning, or empty."""

    @property
    def is_spoken(self) -> bool:
        """Whether it is in one of the two languages of API servers."""
        return is_spoken(self.headers)

    @property
    def is_good(self) -> bool:
        """As an API server answers when all went well."""
        return self.status < 300 and not self.is_cut and self.is_spoken

    def header(self, name: str) -> str:
        """Empty if there is none."""
        return self.headers.get(name.lower().encode(), b"").decode(errors="replace")


class AnswerReader:
    """Reads one answer after the other. Call `begin` before each request, then `feed` until it says that all has come,
    then `taken`. The names that begin with `on_` are httptools'."""

    __slots__ = (
        "_head_bytes",
        "_headers",
        "_is_complete",
        "_is_cut",
        "_is_interim",
        "_is_packed",
        "_limits",
        "_lines",
        "_most",
        "_parser",
        "_parts",
        "_problem",
        "_size",
        "_status",
        "_unpacking",
        "keeps_alive",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        self._status = 0
        """0 until the head has come."""
        self._lines: list[tuple[bytes, bytes]] = []
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._most = 0
        self._head_bytes = 0
        self._unpacking: Any = None
        self._is_packed = False
        """Something was unpacked: then it must have an end, too."""
        self._is_interim = False
        self._is_complete = False
        self._is_cut = False
        self._problem = ""
        self.keeps_alive = True
        """Whether the connection may be used again after this answer."""

    def feed(self, data: bytes) -> bool:
        """Whether the answer is complete."""
        if not self._status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._is_complete:  # what comes after an answer does not make it wrong
                raise AnswerError(self._problem or f"it is not HTTP: {error}") from None
            self.keeps_alive = False
        if self._is_complete:
            return True
        if self._problem:
            raise AnswerError(self._problem)
        if not self._status and self._head_bytes > MOST_HEAD_BYTES:
            raise AnswerError(f"its head is larger than {MOST_HEAD_BYTES:,} bytes")
        return False

    def end(self) -> bool:
        """The other side has closed: whether that makes the answer complete, for want of a length."""
        headers = self._headers
        if self._status and b"content-length" not in headers and b"transfer-encoding" not in headers:
            self.on_message_complete()
            self.keeps_alive = False
        return self._is_complete and not self._problem

    def taken(self) -> Answer:
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        headers = self._headers
        warnings = _warnings(self._lines) if b"warning" in headers else ()
        return Answer(self._status, headers, body, warnings, self._is_cut)

    # -- told by the parser; what goes wrong is noted, since it would wrap whatever is raised

    def on_message_begin(self) -> None:
        if self._is_complete:
            self.keeps_alive = False  # an answer to nothing

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # else it is a trailer
            self._lines.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._is_interim = True
            if status == 101:
                self._problem = "it changes to a protocol that nobody asked for"
            return
        self._status = status
        self._headers = headers = {name.lower(): value for name, value in self._lines}
        self.keeps_alive = self._parser.should_keep_alive()
        limits = self._limits
        is_good = status < 300 and is_spoken(headers)
        self._most = limits.answer_bytes if is_good else limits.refusal_bytes
        if 300 <= status < 400:
            self._cut()  # only where it sends us is of interest
        elif is_good and int(headers.get(b"content-length", b"0")) > self._most:
            self._cut()
        if b"transfer-encoding" in headers:
            self._check_transfer()
        if b"content-encoding" in headers:
            self._unpack(headers[b"content-encoding"].lower())

    def on_body(self, part: bytes) -> None:
        if self._is_complete or self._problem:
            return
        if self._unpacking is not None:
            part = self._unpacked(part)
        self._size += len(part)
        if self._size > self._most:
            part = part[: len(part) - (self._size - self._most)]
            self._parts.append(part)
            self._cut()
            return
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
            self._lines = []
            return
        if self._is_complete:
            return
        if self._is_packed and not self._unpacking.eof:
            self._problem = self._problem or "what is packed with gzip in it has no end"
        if not self._problem:
            self._is_complete = True

    # -- bodies

    def _cut(self) -> None:
        self._is_cut = self._is_complete = True
        self.keeps_alive = False

    def _check_transfer(self) -> None:
        encodings = [value.lower() for name, value in self._lines if name.lower() == b"transfer-encoding"]
        if encodings != [b"chunked"]:
            shown = b", ".join(encodings).decode(errors="replace")
            self._problem = f"its transfer encoding is {shown}, not chunked"

    def _unpack(self, encoding: bytes) -> None:
        if encoding in (b"gzip", b"x-gzip"):
            self._unpacking = zlib.decompressobj(_GZIP_WINDOW)
        elif encoding not in (b"identity", b""):
            self._problem = f"it is packed in a way that was not asked for: {encoding.decode(errors='replace')}"

    def _unpacked(self, part: bytes) -> bytes:
        """At most one byte more than may be taken: a small text can be a large one packed."""
        unpacking, self._is_packed = self._unpacking, True
        try:
            whole: bytes = unpacking.decompress(part, self._most + 1 - self._size)
        except zlib.error:
            self._problem = "what is packed with gzip in it is damaged"
            return b""
        if unpacking.unused_data:
            self._problem = "there is more in it behind the end of what is packed with gzip"
        return whole


def is_spoken(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").startswith(_SPOKEN)


def _warnings(lines: list[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """The texts of `299 - "text"` headers."""
    headers = [value.decode(errors="replace") for name, value in lines if name.lower() == b"warning"]
    return tuple(warning_text(it) for it in headers)


def warning_text(header: str) -> str:
    return header.partition('"')[2].rpartition('"')[0].replace('\\"', '"')
