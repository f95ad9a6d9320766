"""Where the processor time of an allhands command goes: looks at its stack every few milliseconds of processor time.

`python bench/sampling.py FILE COMMAND [OPTION]...` runs `allhands COMMAND …` and writes shares into FILE when it ends,
by SIGTERM too. Load of other processes hardly matters, since no wall time is measured. The command runs as it would.
"""

from __future__ import annotations

import atexit
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

EVERY_SECONDS = 0.004
MOST_LINES = 120
PARTS = (
    ("imports", ("importlib._bootstrap",)),
    ("what may we do", ("permissions.py",)),
    ("binds: client", ("KubeObjects.bind",)),
    ("binds: executor", ("executor.py",)),
    ("events", ("recorder.py",)),
    ("explanations and records", ("explainer", "records.py", "group_progress", "scheduling_record")),
    ("history", ("scheduling/history", "past_usage", "run_times")),
    ("decision", ("core/cycle.py",)),
    ("snapshot", ("World.snapshot", "Scheduler.decide")),
    ("informers", ("informer.py",)),
    ("watch lines", ("watching.py", "wire_stream.py")),
    ("other requests", ("kube/transport",)),
    ("TLS handshakes", ("handshake",)),
    ("TLS and HTTP", ("SSLProtocol", "_read_ready", "kube/sockets.py")),
    ("health server", ("uvicorn", "health")),
    ("event loop", ("_run_once",)),
)
"""What a stack belongs to: the first part one of whose words stands anywhere in it."""


class Sampler:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._parts: Counter[str] = Counter()
        self._anywhere: Counter[str] = Counter()
        self._innermost: Counter[str] = Counter()

    def begin(self) -> None:
        atexit.register(self.end)
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)

    def _look(self, number: int, frame: FrameType | None) -> None:
        del number
        names = []
        while frame is not None:
            names.append(f"{_short(frame.f_code.co_filename)} {frame.f_code.co_qualname}")
            frame = frame.f_back
        self._innermost[names[0]] += 1
        self._anywhere.update(dict.fromkeys(names, 1))
        stack = "\n".join(names)
        self._parts[next((part for part, words in PARTS if any(word in stack for word in words)), "rest")] += 1

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        used = time.process_time()
        looks = sum(self._parts.values()) or 1
        lines = [f"{used:.2f} s of processor time, {looks} looks"]
        counts = (("by part", self._parts), ("anywhere in the stack", self._anywhere), ("innermost", self._innermost))
        for title, counted in counts:
            lines.append(f"\n== {title}")
            lines += [
                f"{count / looks:6.1%} {used * count / looks:7.2f} s  {name}"
                for name, count in counted.most_common(MOST_LINES)
            ]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _short(path: str) -> str:
    for mark in ("/site-packages/", "/src/", "/lib/python"):
        if mark in path:
            return path.rpartition(mark)[2]
    return path


if __name__ == "__main__":
    Sampler(Path(sys.argv[1])).begin()
    from allhands.cli import main

    main(sys.argv[2:])
