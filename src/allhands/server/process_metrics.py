"""What Prometheus expects every process to say of itself: its time, its memory, its files, its age.

Read from the system when somebody asks. Where the system does not tell, it is left out.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.ports import Metrics


def measure_process(metrics: Metrics) -> None:
    """From now on the metrics of this process are among those that are read."""
    began = _began_at_seconds()
    seen = [0.0]

    def refresh() -> None:
        used = time.process_time()
        metrics.count("process_cpu_seconds_total", max(0.0, used - seen[0]))
        seen[0] = max(seen[0], used)
        metrics.set("process_resident_memory_bytes", _resident_bytes())
        metrics.set("process_start_time_seconds", began)
        if (files := _open_files()) is not None:
            metrics.set("process_open_fds", files)

    metrics.refresh_with("process", refresh)


def _began_at_seconds() -> float:
    """Where the system does not tell, it is now: who asks does so at the beginning."""
    try:
        ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
        booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return time.time()
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int | None:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return None
