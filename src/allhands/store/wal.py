"""Looks at SQLite's log from outside: was anything committed behind the place where it stops being readable?

SQLite takes a log whose checksums break for one that was cut there by a power failure, and goes on without the rest.
One batch can be cut so, the last one, which nobody was told is kept. Two commits behind the break mean that a good part
of the log is damaged, and starting would lose what was acknowledged. It only reads.
"""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_HEADER: Final = struct.Struct(">IIIIIIII")
_FRAME: Final = struct.Struct(">IIII")
_FRAME_HEADER_BYTES: Final = 24
_INDEX_VERSION: Final = 3_007_000
_LAST_FRAME_AT: Final = 16
_INDEX_HEADER_BYTES: Final = 48


def log_of(path: Path) -> Path:
    """Where SQLite keeps the log of a file."""
    return path.with_name(f"{path.name}-wal")


def has_log(path: Path) -> bool:
    """Whether there is a log with anything in it. Who only reads leaves an empty one behind."""
    try:
        return log_of(path).stat().st_size > 0
    except FileNotFoundError:
        return False


def commits_behind_a_break(path: Path) -> int:
    """How many commits are in the log of this file that SQLite does not read. A connection must have read the file."""
    readable = _readable_frames(path.with_name(f"{path.name}-shm"))
    if readable is None:
        return 0
    with contextlib.suppress(FileNotFoundError), log_of(path).open("rb") as log:
        start = log.read(_HEADER.size)
        if len(start) < _HEADER.size:
            return 0
        _, _, page_bytes, _, *salt, _, _ = _HEADER.unpack(start)
        count, number = 0, readable
        while page_bytes:
            log.seek(_HEADER.size + number * (_FRAME_HEADER_BYTES + page_bytes))
            head = log.read(_FRAME.size)
            if len(head) < _FRAME.size:
                return count
            _, pages_after_commit, *frame_salt = _FRAME.unpack(head)
            count += frame_salt == salt and pages_after_commit > 0
            number += 1
    return 0


def _readable_frames(index: Path) -> int | None:
    """What the connections agree on, from the index that they share; None if there is none."""
    with contextlib.suppress(FileNotFoundError), index.open("rb") as file:
        head = file.read(_INDEX_HEADER_BYTES)
        if len(head) == _INDEX_HEADER_BYTES and struct.unpack_from("=I", head)[0] == _INDEX_VERSION:
            frames: int = struct.unpack_from("=I", head, _LAST_FRAME_AT)[0]
            return frames
    return None
