"""What one container has written, on disk within a fixed size: the newest is kept, the oldest is dropped.

Each line stands with its time and stream (`<time> stdout F <text>`, as container runtimes keep it), so that readers can
choose by time. A long line is kept in parts, marked P but for the last. Readers may follow while it is being written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final, Literal

from allhands.agents.logs import LogOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Stream = Literal["stdout", "stderr"]

SEGMENTS_KEPT: Final = 2
DEFAULT_LOG_BYTES: Final = 20 * 2**20
LONGEST_PART_BYTES: Final = 16 * 2**10
READ_BYTES: Final = 256 * 2**10
_STAMP_LENGTH: Final = len("2026-01-31T12:00:00.000000000Z")
_TEXT_AT: Final = _STAMP_LENGTH + len(" stdout F ")


class LogFile:
    """The log of one run of one container: numbered segments in a folder of its own."""

    def __init__(self, folder: Path, most_bytes: int = DEFAULT_LOG_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = max(1, most_bytes // SEGMENTS_KEPT)
        self._first = 0
        self._last = 0
        self._size = 0
        self._file = self._path(0).open("ab", buffering=0)
        self._begun: dict[str, bytes] = {}
        self._readers: list[asyncio.Event] = []
        self.closed = False

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment}.log"

    # -- writing

    def write(self, stream: Stream, chunk: bytes, stamp: str) -> int:
        """Keeps what the container wrote at the moment `stamp`; returns how many bytes that took."""
        if self.closed:
            return 0
        head = f"{stamp} {stream} ".encode()
        data = self._begun.pop(stream, b"") + chunk
        end = data.rfind(b"\n")
        rest = data[end + 1 :]
        text = _marked(head, b"F", data[:end]) if end >= 0 else b""
        if len(rest) >= LONGEST_PART_BYTES:
            text += _marked(head, b"P", rest)
        elif rest:
            self._begun[stream] = rest
        if text:
            self._append(text)
        return len(text)

    def close(self, stamp: str) -> None:
        """Nothing more will come. What has no end of line stays without."""
        if self.closed:
            return
        for stream, rest in self._begun.items():
            self._append(_marked(f"{stamp} {stream} ".encode(), b"P", rest))
        self._begun.clear()
        self.closed = True
        self._file.close()
        self._wake()

    def remove(self) -> None:
        for segment in range(self._first, self._last + 1):
            self._path(segment).unlink(missing_ok=True)

    def _append(self, text: bytes) -> None:
        if len(text) > self._segment_bytes:
            # More at once than may be kept: its newest lines.
            text = text[text.find(b"\n", len(text) - self._segment_bytes) + 1 :] or text
        if self._size and self._size + len(text) > self._segment_bytes:
            self._next_segment()
        with contextlib.suppress(OSError):  # a full disk costs the log, never the container
            self._file.write(text)
        self._size += len(text)
        self._wake()

    def _next_segment(self) -> None:
        self._file.close()
        self._last += 1
        self._size = 0
        self._file = self._path(self._last).open("wb", buffering=0)
        while self._last - self._first >= SEGMENTS_KEPT:
            self._path(self._first).unlink(missing_ok=True)
            self._first += 1

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    # -- reading

    async def read(self, options: LogOptions, since_stamp: str) -> AsyncIterator[bytes]:
        """The chosen lines, and if asked for, those to come until the container ends."""
        news = asyncio.Event()
        self._readers.append(news)
        try:
            left = options.limit_bytes
            async for piece in self._pieces(options, since_stamp.encode(), news):
                if left is not None and len(piece) >= left:
                    yield piece[:left]
                    return
                left = None if left is None else left - len(piece)
                yield piece
        finally:
            self._readers.remove(news)

    async def _pieces(self, options: LogOptions, since: bytes, news: asyncio.Event) -> AsyncIterator[bytes]:
        cut = 0 if options.timestamps else _TEXT_AT
        begun: deque[bytes] = deque(maxlen=options.tail_lines)
        cursor = _Cursor(self._first)
        while (lines := self._lines(cursor, since)) is not None:
            if options.tail_lines is None:
                yield b"".join(_shown(line, cut) for line in lines)
            else:
                begun.extend(_shown(line, cut) for line in lines)
            await asyncio.sleep(0)
        if begun:
            yield b"".join(begun)
        while options.follow:
            news.clear()
            while (lines := self._lines(cursor, since)) is not None:
                yield b"".join(_shown(line, cut) for line in lines)
            if self.closed:
                return
            await news.wait()

    async def end(self, most_bytes: int) -> bytes:
        """The last that was written, as far as whole lines fit."""
        text = b"".join([piece async for piece in self.read(LogOptions(tail_lines=80), "")])
        return text if len(text) <= most_bytes else text[text.find(b"\n", len(text) - most_bytes) + 1 :]

    def _lines(self, cursor: _Cursor, since: bytes) -> list[bytes] | None:
        """The next lines from where the cursor stands; None at the present end."""
        while True:
            if cursor.segment < self._first:
                cursor.move_to(self._first)  # the reader was too slow: what it missed is gone
            chunk = b""
            with contextlib.suppress(FileNotFoundError), self._path(cursor.segment).open("rb") as file:
                file.seek(cursor.offset)
                chunk = file.read(READ_BYTES)
            whole = chunk[: chunk.rfind(b"\n") + 1]
            if whole:
                cursor.offset += len(whole)
                lines = [line + b"\n" for line in whole[:-1].split(b"\n")]
                return [line for line in lines if line[:_STAMP_LENGTH] >= since] if since else lines
            if cursor.segment >= self._last:
                return None
            cursor.move_to(cursor.segment + 1)


class _Cursor:
    __slots__ = ("offset", "segment")

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.offset = 0

    def move_to(self, segment: int) -> None:
        self.segment, self.offset = segment, 0


def _marked(head: bytes, tag: bytes, lines: bytes) -> bytes:
    """Every line with its head."""
    mark = head + tag + b" "
    return mark + lines.replace(b"\n", b"\n" + mark) + b"\n"


def _shown(line: bytes, cut: int) -> bytes:
    """A line as people see it: with its time or without, and the parts of a long one joined again."""
    tag = line[_TEXT_AT - 2 : _TEXT_AT - 1]
    text = line[_TEXT_AT:-1] if tag == b"P" else line[_TEXT_AT:]
    return text if cut else line[: _STAMP_LENGTH + 1] + text
