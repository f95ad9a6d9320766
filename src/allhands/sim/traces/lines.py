"""The lines of a trace file, numbered, unpacked where it is packed; and the error that every reader speaks.

Nothing is held in memory but the line at hand. A file that is cut off, packed wrongly or no text at all ends in a
TraceError with the line up to which it could be read.
"""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Final

from allhands.sim.traces.job import MOST_SECONDS, MOST_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedIOBase
    from pathlib import Path

LONGEST_LINE: Final = 1 << 16
_GZIP_MAGIC: Final = b"\x1f\x8b"


class TraceError(ValueError):
    """What is wrong with a trace, and where."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        where = f"{path}, line {line}" if line else str(path)
        super().__init__(f"{where}: {problem}")
        self.path = path
        self.line = line
        self.problem = problem


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The number of each line, from 1, and its text without the end."""
    number = 0
    try:
        with path.open("rb") as file, gzip.GzipFile(fileobj=file) as unpacked:
            lines: BufferedIOBase = unpacked if file.peek(2)[:2] == _GZIP_MAGIC else file
            while line := lines.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise TraceError(path, number, f"the line is longer than {LONGEST_LINE} bytes")
                yield number, line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TraceError(path, number, f"it is not text: byte {error.object[error.start]:#04x}") from None
    except EOFError:
        raise TraceError(path, number, "the packed file is cut off after this line") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(path, number, f"the packed file is damaged after this line: {error}") from None
    except OSError as error:
        raise TraceError(path, 0, f"cannot be read: {error.strerror or error}") from None


class Fields:
    """The fields of one line as numbers within bounds; whatever is wrong is said with the place."""

    def __init__(self, path: Path, line: int) -> None:
        self._path = path
        self._line = line

    def error(self, problem: str) -> TraceError:
        return TraceError(self._path, self._line, problem)

    def whole(self, what: str, text: str, least: int, most: int) -> int:
        """A number, rounded to the next whole one if it has a fraction."""
        number = self._number(what, text)
        if not least <= number <= most:
            raise self.error(f"{what} is {text.strip()}: not between {least} and {most}")
        return number

    def seconds(self, what: str, text: str, least: int = 0) -> int:
        return self.whole(what, text, least, MOST_SECONDS)

    def width(self, what: str, text: str, least: int = 1) -> int:
        return self.whole(what, text, least, MOST_WIDTH)

    def _number(self, what: str, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return round(float(text))
        except (ValueError, OverflowError):
            raise self.error(f"{what} is not a number: {text.strip()[:40]!r}") from None
