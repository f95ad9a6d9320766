"""The log of who asked for what: one JSON line a request, in the shape of audit.k8s.io/v1 at level Metadata.

It has no token, no body and no word of a refusal, which may quote one. A request never waits for it: lines go to a
thread, and so many may wait there. What is lost, because the disk is full or too slow, is counted and said once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.schema import timestamps
from allhands.server.access.asking import attributes_of

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator
    from pathlib import Path

    from allhands.api.access.attributes import Attributes
    from allhands.api.document import Manifest
    from allhands.ports import Clock
    from allhands.server.request import Request

FILE_BYTES: Final = 64 * 1024 * 1024
OLD_FILES: Final = 5
MOST_WAITING: Final = 10_000
MOST_TEXT: Final = 2_048
"""Of a path or the name of a program: a line must stay a line."""
_LOG = logging.getLogger(__name__)


class AuditFile:
    """Lines to a file that is turned over when it is large; old ones are `.1` (the youngest) to `.N`."""

    def __init__(
        self,
        path: Path,
        *,
        file_bytes: int = FILE_BYTES,
        old_files: int = OLD_FILES,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """The file is opened now, so that whoever asks for it learns at once that it cannot be."""
        self._path = path
        self._file_bytes = file_bytes
        self._old_files = old_files
        self.lost_count = 0
        """How many lines could not be kept."""
        self._counting = threading.Lock()
        self._is_well = True
        self._waiting: queue.Queue[bytes | None] = queue.Queue(most_waiting)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = self._opened()
        self._size = os.fstat(self._descriptor).st_size
        self._thread = threading.Thread(target=self._write_all, name="audit", daemon=True)
        self._thread.start()

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def add(self, line: bytes) -> None:
        """Never waits."""
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self._failed(1, f"more than {self._waiting.maxsize} lines wait for the disk")

    def close(self) -> None:
        """Returns when everything is written that was added before."""
        self._waiting.put(None)
        self._thread.join()
        os.close(self._descriptor)

    def _write_all(self) -> None:
        while True:
            lines, is_last = self._gathered()
            if lines:
                self._write(lines)
            if is_last:
                return

    def _gathered(self) -> tuple[list[bytes], bool]:
        """Waits for the first line and takes what else is there."""
        lines = []
        one = self._waiting.get()
        while one is not None:
            lines.append(one)
            try:
                one = self._waiting.get_nowait()
            except queue.Empty:
                return lines, False
        return lines, True

    def _write(self, lines: list[bytes]) -> None:
        for chunk in _chunks(lines, self._file_bytes):
            try:
                if self._size and self._size + len(chunk) > self._file_bytes:
                    self._turn_over()
                done = 0
                while done < len(chunk):
                    count = os.write(self._descriptor, chunk[done:])
                    done += count
                    self._size += count
            except OSError as error:
                self._failed(chunk.count(b"\n"), str(error))
            else:
                self._is_well = True

    def _turn_over(self) -> None:
        for number in range(self._old_files, 0, -1):
            younger = self._path if number == 1 else self._numbered(number - 1)
            with contextlib.suppress(FileNotFoundError):
                younger.replace(self._numbered(number))
        descriptor = self._opened()
        os.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _failed(self, count: int, why: str) -> None:
        with self._counting:
            self.lost_count += count
            is_news, self._is_well = self._is_well, False
        if is_news:
            _LOG.error(
                "the audit log %s cannot be kept: %s; requests go on, and what is lost is counted", self._path, why
            )


def _chunks(lines: list[bytes], most_bytes: int) -> Iterator[bytes]:
    """Whole lines together, none over the size of a file unless a single one is."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        if gathered and size + len(line) > most_bytes:
            yield b"".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += len(line)
    if gathered:
        yield b"".join(gathered)


class Audit:
    """Turns requests into lines."""

    def __init__(self, file: AuditFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def begin(self) -> datetime.datetime:
        """When a request came."""
        return self._clock.now()

    def note(self, request: Request, began: datetime.datetime, code: int, *, is_stream: bool = False) -> None:
        """That it was answered; of what goes on being answered, that this began."""
        wanted = request.attributes or attributes_of(request)
        stage = "ResponseStarted" if is_stream else "ResponseComplete"
        event = event_of(request, wanted, stage, code, began, self._clock.now())
        self._file.add(msgspec.json.encode(event) + b"\n")


def event_of(
    request: Request, wanted: Attributes, stage: str, code: int, began: datetime.datetime, now: datetime.datetime
) -> Manifest:
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": str(uuid.uuid4()),
        "stage": stage,
        "requestURI": request.uri[:MOST_TEXT],
        "verb": wanted.verb,
        "user": (request.impersonator or request.user).document(),
    }
    if request.impersonator is not None and request.user is not request.impersonator:
        event["impersonatedUser"] = request.user.document()
    if request.client:
        event["sourceIPs"] = [request.client]
    if agent := request.header(b"user-agent"):
        event["userAgent"] = agent[:MOST_TEXT]
    if wanted.path is None:
        event["objectRef"] = _reference(wanted)
    event["responseStatus"] = {"metadata": {}, "code": code}
    if code >= 400:
        event["responseStatus"]["status"] = "Failure"
    event["requestReceivedTimestamp"] = timestamps.micros(began)
    event["stageTimestamp"] = timestamps.micros(now)
    if request.decision is not None:
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if request.decision.allowed else "forbid",
            "authorization.k8s.io/reason": request.decision.reason,
        }
    return event


def _reference(wanted: Attributes) -> Manifest:
    stated = {
        "resource": wanted.resource,
        "namespace": wanted.namespace,
        "name": wanted.name,
        "apiGroup": wanted.group,
        "apiVersion": wanted.version,
        "subresource": wanted.subresource,
    }
    return {name: value for name, value in stated.items() if value}
