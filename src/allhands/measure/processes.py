"""Child processes that surely end: with the block that started them, or with the whole run.

A child is the leader of its own process group. A *reaper*, a second tiny process, holds the list of groups and kills
them when the pipe from us closes, which the kernel does even for a run that was killed with -9.
Never start a child here without telling the reaper first what it will be responsible for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_REAPER = """
import os, shutil, signal, sys
groups = set()
for line in sys.stdin:
    word, group = line.split()
    (groups.add if word == "add" else groups.discard)(int(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class ServiceEndedError(RuntimeError):
    """A child process ended although it should serve; the message holds the end of its log."""


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now. All are held until the last is known, so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


POLL_SECONDS = 0.05


def wait_until(ready: Callable[[], bool], deadline_seconds: float, what: str) -> None:
    """Polls `ready`; the pause between two looks is only politeness to the processor."""
    end = time.monotonic() + deadline_seconds
    while not ready():
        if time.monotonic() > end:
            message = f"{what} is not ready after {deadline_seconds:g} s"
            raise TimeoutError(message)
        time.sleep(POLL_SECONDS)


class Reaper:
    """Kills the process groups it was told of, and removes the folder, once this process is gone."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-I", "-S", "-c", _REAPER, str(folder)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603
        assert self._child.stdin is not None
        self._pipe: IO[str] = self._child.stdin

    def add(self, group: int) -> None:
        self._tell(f"add {group}")

    def forget(self, group: int) -> None:
        self._tell(f"forget {group}")

    def close(self) -> None:
        self._pipe.close()
        self._child.wait()

    def _tell(self, line: str) -> None:
        self._pipe.write(line + "\n")
        self._pipe.flush()


class Service:
    """One long-running child with its log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        reaper: Reaper,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is added to our own."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._reaper = reaper
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603 (what the caller was asked to start)
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        reaper.add(self.pid)

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait(self, deadline_seconds: float) -> int:
        """Waits for the child to end by itself; returns its exit code."""
        return self._child.wait(deadline_seconds)

    def check_alive(self) -> None:
        code = self._child.poll()
        if code is not None:
            message = f"{self.name} ended with code {code}; the end of its log:\n{self.log_tail()}"
            raise ServiceEndedError(message)

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM to the group, SIGKILL after the grace; returns when the child is gone and collected."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM if grace_seconds > 0 else signal.SIGKILL)
        try:
            self._child.wait(grace_seconds or None)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()
        self._reaper.forget(self.pid)


def keep_logs(folder: Path, target: Path) -> Path:
    """Copies the logs of a failed run to a place that outlives it."""
    target.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy2(log, target / log.name)
    return target
