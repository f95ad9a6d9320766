"""How log lines look: one line each, for people on a terminal, or as JSON for machines. Only programs set this up.

Whatever is in a message, even if a user chose it as a name, cannot begin a line of its own or move the cursor. Fields
are given as `extra={...}` and come out as key=value, or as keys of the JSON object.
"""

from __future__ import annotations

import datetime
import logging
import os
import sys
from typing import IO, Any, Final, Literal

import msgspec

LogFormat = Literal["text", "json"]
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")
ROOT: Final = "allhands"
_OWN: Final = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {"message", "asctime", "taskName"}
_COLOURS: Final = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "31"}
_ESCAPED: Final = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))} | {
    **{number: f"\\u{number:04x}" for number in range(0xD800, 0xE000)},  # halves of characters, which no file takes
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _OWN}


def _moment(record: logging.LogRecord) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(record.created, datetime.UTC)


def _component(record: logging.LogRecord) -> str:
    """The last parts of the logger's name say enough; all of ours begin alike."""
    return record.name.removeprefix(f"{ROOT}.")


class TextFormatter(logging.Formatter):
    """`12:00:00.123 warning runtime.informer: watching pods: too old`; a traceback follows, indented."""

    def __init__(self, *, coloured: bool = False) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        moment = _moment(record).strftime("%H:%M:%S.%f")[:-3]
        level = record.levelname.lower()
        if self._coloured and (colour := _COLOURS.get(record.levelname)):
            level = f"\x1b[{colour}m{level}\x1b[0m"
        line = f"{moment} {level} {_component(record)}: {record.getMessage().translate(_ESCAPED)}"
        for name, value in _fields(record).items():
            line += f" {name}={str(value).translate(_ESCAPED)}"
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line = "\n".join([line, *(f"    {part.translate(_ESCAPED)}" for part in trace)])
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, msg, then the fields, then err with the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return _encode(line)


def _encode(line: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=str).decode()
    except (TypeError, ValueError, msgspec.MsgspecError, UnicodeEncodeError):
        # A line that cannot be written as it is must still be written.
        plain = {str(name): str(value).encode("utf-8", "backslashreplace").decode() for name, value in line.items()}
        return msgspec.json.encode(plain).decode()


def set_up_logs(level: str = "warning", format: LogFormat = "text", stream: IO[str] | None = None) -> logging.Handler:
    """From now on log lines go to the stream (standard error): ours from `level` on, those of libraries if they warn.
    Calling it again replaces the last."""
    if level not in LEVELS:
        raise ValueError(f"log level {level!r}: it is one of {', '.join(LEVELS)}")
    if format not in FORMATS:
        raise ValueError(f"log format {format!r}: it is one of {', '.join(FORMATS)}")
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.set_name(ROOT)
    coloured = target.isatty() and not os.environ.get("NO_COLOR")
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter(coloured=coloured))
    everything = logging.getLogger()
    for earlier in [it for it in everything.handlers if it.get_name() == ROOT]:
        everything.removeHandler(earlier)
    everything.addHandler(handler)
    logging.getLogger(ROOT).setLevel(level.upper())
    return handler
