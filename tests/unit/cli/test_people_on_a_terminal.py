"""On a terminal: colours, a picture that is drawn again in place, progress while waiting, and a clean Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = Path(sys.executable).parent / "allhands"
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
"""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The API alone, with a Job that waits, since nothing schedules it."""
    with EmbeddedInThread(tmp_path_factory.mktemp("api")) as cluster:
        subprocess.run(
            [COMMAND, "submit", "-f", "-", "--kubeconfig", cluster.kubeconfig],
            input=JOB,
            text=True,
            check=True,
            capture_output=True,
            timeout=60,
        )
        yield cluster.kubeconfig


class Terminal:
    """A command that believes it runs on a terminal of 100 columns."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self._reading, writing = pty.openpty()
        known = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24", **environment}
        self.process = subprocess.Popen(
            [COMMAND, *map(str, arguments)], stdin=writing, stdout=writing, stderr=writing, env=known
        )
        os.close(writing)
        self.text = ""

    def read(self) -> bool:
        """More text; False at the end."""
        try:
            chunk = os.read(self._reading, 65536)
        except OSError:  # how Linux says that nobody writes any more
            chunk = b""
        self.text += chunk.decode()
        return bool(chunk)

    def read_until(self, pattern: str) -> None:
        while not re.search(pattern, self.text, re.DOTALL):
            assert self.read(), f"it ended without {pattern!r}: {self.text}"

    def end(self) -> int:
        while self.read():
            pass
        os.close(self._reading)
        return self.process.wait(timeout=30)


def test_a_table_has_colours_only_on_a_terminal_that_wants_them(kubeconfig: Path) -> None:
    coloured = Terminal("jobs", "--kubeconfig", kubeconfig)
    assert coloured.end() == 0
    assert "\x1b[33mWaiting\x1b[0m" in coloured.text
    plain = Terminal("jobs", "--kubeconfig", kubeconfig, NO_COLOR="1")
    assert plain.end() == 0
    assert "Waiting" in plain.text
    assert "\x1b[" not in plain.text


WATCHED = [["jobs"], ["top"], ["queues"], ["topology"], ["explain", "job/train"]]


def test_a_watch_without_colours_still_draws_in_place(kubeconfig: Path) -> None:
    terminal = Terminal("jobs", "--watch", "--kubeconfig", kubeconfig, NO_COLOR="1")
    terminal.read_until(r"\x1b\[2J.*\x1b\[2J")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.text)


@pytest.mark.parametrize("command", WATCHED, ids=lambda it: it[0])
def test_a_watch_draws_again_in_place_and_ends_with_ctrl_c(kubeconfig: Path, command: list[str]) -> None:
    terminal = Terminal(*command, "--watch", "--kubeconfig", kubeconfig)
    terminal.read_until(r"\x1b\[2J.*\x1b\[2J")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text


def test_waiting_shows_the_reason_and_ends_with_ctrl_c(kubeconfig: Path) -> None:
    terminal = Terminal("wait", "job/train", "--timeout", "-1", "--kubeconfig", kubeconfig)
    terminal.read_until("job/train is waiting: It is suspended.")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text
