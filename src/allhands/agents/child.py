"""One command running as a local process, with all that it starts: its output kept, its end awaited, nothing left.

As in a container, the end of the first process is the end of all. Output that comes faster than it can be kept makes
the writer wait; it never costs memory here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.processes import gone, kill_group, kill_marked, limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from allhands.agents.log_files import LogFile, Stream

CHUNK_BYTES: Final = 64 * 2**10
LOG_BYTES_PER_SECOND: Final = 8 * 2**20
DRAIN_SECONDS: Final = 1.0
"""How long to wait for the last words of a process that has ended."""
MARK: Final = "ALLHANDS_CONTAINER_ID"


class StartProblem(Exception):  # noqa: N818 (a problem of the user's, told as the reason of a failure)
    """The command cannot be started. The text is for the user."""


class Command(msgspec.Struct, frozen=True):
    """What to start, where, and with what."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    id: str
    """Unlike that of any other run of any container."""
    memory_bytes: int | None = None
    niceness: int = 0


class Child:
    """A started command."""

    def __init__(self, process: asyncio.subprocess.Process, command: Command, log: LogFile) -> None:
        self._process = process
        self._command = command
        self._log = log
        self._outputs: list[asyncio.Task[None]] = []
        self.pid = process.pid
        self.id = command.id
        self.began = asyncio.get_running_loop().time()
        self.out_of_memory = False

    @staticmethod
    async def start(command: Command, log: LogFile, stamp: Callable[[], str]) -> Child:
        _check(command)
        outputs: list[tuple[Stream, int]] = []
        ends: list[int] = []
        try:
            for stream in ("stdout", "stderr"):
                reading, writing = os.pipe()
                outputs.append((stream, reading))
                ends.append(writing)
            process = await _spawn(command, ends)
        except BaseException:
            for _, descriptor in outputs:
                os.close(descriptor)
            raise
        finally:
            for descriptor in ends:
                os.close(descriptor)
        child = Child(process, command, log)
        limit(child.pid, memory_bytes=command.memory_bytes, niceness=command.niceness)
        for stream, descriptor in outputs:
            copying = _copy(stream, descriptor, log, stamp)
            child._outputs.append(asyncio.create_task(copying, name=f"{command.id} {stream}"))
        return child

    async def wait(self) -> int:
        """The exit code, once everything that it started is gone and its last words are kept. 128 + n for signal n."""
        try:
            code = await self._process.wait()
            await self._clear_away()
        finally:
            if self._process.returncode is None:
                await asyncio.shield(self.kill())
        return 128 - code if code < 0 else code

    def terminate(self) -> None:
        kill_group(self.pid, signal.SIGTERM)

    def kill_now(self) -> None:
        """SIGKILL to all of it, without waiting."""
        if self._process.returncode is None:
            kill_group(self.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """Ends it at once, and waits until it is gone."""
        self.kill_now()
        await self._process.wait()
        await self._clear_away()

    async def _clear_away(self) -> None:
        """Whoever outlived the first process is killed, and the pipes are read to their end."""
        kill_group(self.pid, signal.SIGKILL)
        await gone(kill_marked(f"{MARK}={self._command.id}\0"), DRAIN_SECONDS)
        if self._outputs:
            await asyncio.wait(self._outputs, timeout=DRAIN_SECONDS)
        for task in self._outputs:
            task.cancel()
        await asyncio.gather(*self._outputs, return_exceptions=True)


def _check(command: Command) -> None:
    if not command.words:
        raise StartProblem(
            "no command: process nodes run local commands and know no images, so the container must state a command"
        )
    if not command.folder.is_dir():
        raise StartProblem(f"the working directory {command.folder} is not there on this machine")


async def _spawn(command: Command, ends: list[int]) -> asyncio.subprocess.Process:
    program = command.words[0]
    try:
        return await asyncio.create_subprocess_exec(
            *command.words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            cwd=command.folder,
            env={**command.environment, MARK: command.id},
            start_new_session=True,
        )
    except FileNotFoundError:
        where = "" if "/" in program else f" in PATH ({command.environment.get('PATH', '')})"
        raise StartProblem(f"the command {program!r} was not found on this machine{where}") from None
    except PermissionError:
        raise StartProblem(f"the command {program!r} may not be executed: no permission") from None
    except (OSError, ValueError) as error:
        raise StartProblem(f"the command {program!r} cannot be started: {error}") from None


async def _copy(stream: Stream, descriptor: int, log: LogFile, stamp: Callable[[], str]) -> None:
    """Keeps what comes through the pipe, not faster than allowed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    window, kept = loop.time(), 0
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            kept += log.write(stream, chunk, stamp())
            elapsed = loop.time() - window
            if kept > LOG_BYTES_PER_SECOND * max(elapsed, 0.1):
                await asyncio.sleep(kept / LOG_BYTES_PER_SECOND - elapsed)
            if elapsed > 1:
                window, kept = loop.time(), 0
    finally:
        transport.close()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # lets the transport close its pipe
