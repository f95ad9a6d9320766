"""What the system knows of processes: who belongs to a container, how much memory it holds. Linux' /proc, read only.

A process that leaves its group (a daemon) still carries the environment it was started with, and is found by it. Where
there is no /proc, only the process group of a container is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROC: Final = Path("/proc")
_PAGE_BYTES: Final = resource.getpagesize()
_SESSION_FIELD: Final = 3
_RESIDENT_FIELD: Final = 21


def kill_group(pid: int, number: signal.Signals) -> None:
    """Signals a process and all of its group; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_marked(mark: str) -> list[int]:
    """Kills every process whose environment has this variable, `NAME=value` or only the beginning of it; which ones."""
    killed = []
    for pid in _pids():
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            environment = (PROC / str(pid) / "environ").read_bytes()
            if environment.startswith(mark.encode()) or b"\0" + mark.encode() in environment:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    return killed


async def gone(pids: Iterable[int], timeout_seconds: float) -> None:
    """Waits until these processes, which need not be children, have ended."""
    loop = asyncio.get_running_loop()
    ends: list[tuple[int, asyncio.Event]] = []
    try:
        for pid in pids:
            with contextlib.suppress(OSError, AttributeError):
                descriptor, ended = os.pidfd_open(pid), asyncio.Event()
                ends.append((descriptor, ended))
                loop.add_reader(descriptor, ended.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for _, ended in ends:
                    await ended.wait()
    finally:
        for descriptor, _ in ends:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def resident_bytes_by_session() -> dict[int, int]:
    """How much memory the processes of each session hold. A container is a session of its own."""
    sizes: dict[int, int] = {}
    for pid in _pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name stands in parentheses and may contain anything, so the rest is counted from its end.
            fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            session = int(fields[_SESSION_FIELD])
            sizes[session] = sizes.get(session, 0) + int(fields[_RESIDENT_FIELD]) * _PAGE_BYTES
    return sizes


def limit(pid: int, *, memory_bytes: int | None, niceness: int) -> None:
    """Sets what the system allows without special rights. Resident memory is watched besides; this is against bursts,
    and generous, since programs reserve much that they never touch."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if memory_bytes is not None:
            most = min(2 * memory_bytes + 4 * 2**30, 2**62)
            resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
    with contextlib.suppress(OSError):
        if niceness:
            os.setpriority(os.PRIO_PROCESS, pid, niceness)


def _pids() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for entry in PROC.iterdir():
            if entry.name.isdecimal():
                yield int(entry.name)
