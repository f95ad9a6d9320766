"""What processes have used, from the kernel's accounts: a whole process group, so that wrappers hide nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


class Usage(NamedTuple):
    cpu_seconds: float
    peak_mib: float
    """The most that was resident, each process at its own peak."""


def usage_of_group(group: int) -> Usage:
    """Of the processes of a group that are there now, and of their children that were waited for."""
    cpu, peak = 0.0, 0.0
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = _fields(entry)
            if int(fields[2]) != group:
                continue
            cpu += sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
            peak += _peak_mib(entry)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while it was looked at
    return Usage(cpu, peak)


def cpu_seconds(pid: int) -> float:
    """Of one process, all threads."""
    return sum(map(int, _fields(_PROC / str(pid))[11:13])) / _TICKS_PER_SECOND


def _fields(entry: Path) -> list[str]:
    """Behind the name, which may hold anything: state, parent, group, …"""
    return (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()


def _peak_mib(entry: Path) -> float:
    for line in (entry / "status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
