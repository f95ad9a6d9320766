"""What the system knows of processes: who belongs to a container, what it uses. Linux' /proc, read only.

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

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PROC: Final = Path("/proc")
_PAGE_BYTES: Final = resource.getpagesize()
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
# Fields of `stat`, counted from behind the name.
_PARENT_FIELD: Final = 1
_SESSION_FIELD: Final = 3
_TIME_FIELDS: Final = slice(11, 15)
"""Its own time as a user and in the system, and that of its children that have ended and were waited for."""
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


class Consumption(msgspec.Struct, frozen=True, gc=False):
    """What a process, or several, have used until now and hold."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: Consumption) -> Consumption:
        return Consumption(self.cpu_seconds + other.cpu_seconds, self.memory_bytes + other.memory_bytes)


class _Process(msgspec.Struct, frozen=True, gc=False):
    pid: int
    parent: int
    session: int
    used: Consumption


def resident_bytes_by_session() -> dict[int, int]:
    """How much memory the processes of each session hold. A container is a session of its own."""
    sizes: dict[int, int] = {}
    for process in _processes():
        sizes[process.session] = sizes.get(process.session, 0) + process.used.memory_bytes
    return sizes


def consumption_by_container(roots: Mapping[int, str], mark: str) -> dict[str, Consumption]:
    """What each container uses, with all that it started. `roots` are the first processes of containers, by pid, with
    the containers' ids; `mark` is the variable in which their processes carry the id."""
    living = {process.pid: process for process in _processes()}
    owners: dict[int, str] = {}
    for pid in living:
        _find_owner(pid, living, roots, owners)
    sums: dict[str, Consumption] = {owner: Consumption() for pid, owner in roots.items() if pid in living}
    known = set(roots.values())
    for pid, process in living.items():
        # One whose parents have ended and that left their session still has their environment.
        owner = owners.get(pid) or _marked_owner(pid, mark, known)
        if owner in sums:
            sums[owner] += process.used
    return sums


def _find_owner(pid: int, living: Mapping[int, _Process], roots: Mapping[int, str], owners: dict[int, str]) -> None:
    """Notes whose a process is, and its ancestors up to the first of which that is known; empty is nobody's."""
    path: list[int] = []
    owner = ""
    while pid in living and pid not in owners:
        path.append(pid)
        process = living[pid]
        owner = roots.get(pid) or roots.get(process.session) or ""
        if owner or process.parent == pid:
            break
        owners[pid] = ""  # so that what never happens, a circle of parents, ends
        pid = process.parent
    else:
        owner = owners.get(pid, "")
    for passed in path:
        owners[passed] = owner


def _marked_owner(pid: int, mark: str, known: set[str]) -> str:
    with contextlib.suppress(OSError):
        for variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name == mark.encode() and (found := value.decode(errors="replace")) in known:
                return found
    return ""


def machine_consumption() -> Consumption | None:
    """What this machine uses in all: the time that its processors were not idle since it began, and the memory that is
    not available; None where that is not known."""
    try:
        times = [int(it) for it in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]]
        memory = dict(line.split(":", 1) for line in (PROC / "meminfo").read_text().splitlines())
        held = [int(memory[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; those of guests are in the first two already.
    busy = sum(times[:3]) + sum(times[5:8])
    return Consumption(busy / _TICKS_PER_SECOND, max(0, held[0] - held[1]))


def _processes() -> Iterator[_Process]:
    for pid in _pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name stands in parentheses and may contain anything, so the rest is counted from its end.
            fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            seconds = sum(map(int, fields[_TIME_FIELDS])) / _TICKS_PER_SECOND
            used = Consumption(seconds, int(fields[_RESIDENT_FIELD]) * _PAGE_BYTES)
            yield _Process(pid, int(fields[_PARENT_FIELD]), int(fields[_SESSION_FIELD]), used)


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
