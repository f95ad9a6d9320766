"""`allhands demo` as people see it: it keeps its promises, with and without a terminal, and leaves nothing behind."""

from __future__ import annotations

import codecs
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = Path(sys.executable).parent / "allhands"
ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAINTED_JOB = re.compile(r"node-\w+ \[[a-z]")
"""A node with a GPU that some job holds."""
JOBS = ("resnet", "whisper", "sweep", "hotfix", "gpt", "eval", "llama", "prepare", "train", "allreduce")


class Shown(NamedTuple):
    text: str
    complaints: str
    code: int
    seconds: float
    left: list[Path]

    def row(self, job: str) -> list[str]:
        """A job's line of the table at the end."""
        table = self.text[self.text.index("WHY IT WAITED") :]
        found = next(line for line in table.splitlines() if line.startswith(f"{job} "))
        return re.split(r"\s{2,}", found)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """One run to the end, without a terminal."""
    folder = tmp_path_factory.mktemp("demo")
    began = time.monotonic()
    ran = subprocess.run(
        [COMMAND, "demo"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    return Shown(ran.stdout, ran.stderr, ran.returncode, time.monotonic() - began, list(folder.iterdir()))


def test_it_ends_well_and_in_time_and_leaves_nothing(shown: Shown) -> None:
    assert (shown.code, shown.complaints) == (0, "")
    assert shown.seconds < 60
    assert shown.left == []
    assert "\033" not in shown.text
    assert all(len(line) <= 110 for line in shown.text.splitlines())


def test_every_job_has_its_line_with_where_it_ran(shown: Shown) -> None:
    for job in JOBS:
        name, queue, waited, ran, where, *_ = shown.row(job)
        assert name == job
        assert queue in ("vision", "speech", "default")
        assert float(waited.removesuffix(" s")) >= 0
        assert float(ran.removesuffix(" s")) > 0
        assert where != "no place"


def test_gangs_that_want_a_rack_are_in_one(shown: Shown) -> None:
    for job in ("resnet", "whisper", "sweep", "llama"):
        assert shown.row(job)[4] in ("rack-a", "rack-b", "rack-c")


def test_the_gang_that_waits_says_why_and_until_when(shown: Shown) -> None:
    text = " ".join(shown.text.split())
    assert re.search(r"gpt waits: \d of the 6 pods fit now; nvidia\.com/gpu is short by \d+\.", text)
    assert re.search(r'once "default/job:hotfix" has ended, .* Expected start: \S+Z\.', text)
    assert "gpt was told to expect" in text
    assert shown.text.index("eval runs") < shown.text.index("gpt runs")


def test_the_urgent_job_takes_the_place_of_a_whole_gang_which_comes_back(shown: Shown) -> None:
    text = " ".join(shown.text.split())
    left = 'Gang "default/job:sweep" must leave for "default/job:hotfix", whose priority is 1000 over -100'
    assert text.index("sweep runs: 3 workers") < text.index(left) < text.index("sweep runs again: 3 workers")


def test_one_job_waits_for_the_other(shown: Shown) -> None:
    assert 'train waits: It waits for "prepare".' in shown.text
    assert shown.text.index("prepare is done") < shown.text.index("train runs")


def test_four_processes_have_the_same_sum(shown: Shown) -> None:
    assert shown.row("allreduce")[4] == "this-machine"
    assert len(re.findall(r"worker \d of 4 at [\d.]+: sum of \d+ numbers correct", shown.text)) == 4


def test_it_says_what_to_try_next(shown: Shown) -> None:
    rest = shown.text[shown.text.index("Try next:") :]
    assert f"{COMMAND} up --local" in rest or "allhands up --local" in rest
    for step in ("explain job/hello", "submit -f examples/gang.yaml", "jobs --watch"):
        assert step in rest


def test_a_signal_ends_it_and_everything_that_it_began(tmp_path: Path) -> None:
    with subprocess.Popen(
        [COMMAND, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        while "resnet runs" not in (line := process.stdout.readline()):
            assert line, "it ended before anything ran"
        process.send_signal(signal.SIGTERM)
        _, complaints = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert complaints == "Ended early; the cluster is gone and left nothing behind.\n"
    assert list(tmp_path.iterdir()) == []


def _shown(terminal: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while chunk := os.read(terminal, 65536):
            yield decoder.decode(chunk)
    except OSError:  # how Linux says that nobody writes any more
        return


def test_on_a_terminal_it_paints_the_cluster_and_ctrl_c_restores_everything(tmp_path: Path) -> None:
    reading, writing = pty.openpty()
    known = {**os.environ, "TERM": "xterm", "COLUMNS": "90", "LINES": "30", "TMPDIR": str(tmp_path), "NO_COLOR": "1"}
    text, is_interrupted = "", False
    with subprocess.Popen([COMMAND, "demo"], stdin=writing, stdout=writing, stderr=writing, env=known) as process:
        os.close(writing)
        for chunk in _shown(reading):
            text += chunk
            if not is_interrupted and PAINTED_JOB.search(text):
                process.send_signal(signal.SIGINT)
                is_interrupted = True
    os.close(reading)
    assert process.returncode == 128 + signal.SIGINT, text
    assert text.startswith("\033[?25l")  # the cursor is hidden while it paints
    assert text.rstrip().endswith("\033[J\033[?25hEnded early; the cluster is gone and left nothing behind.")
    assert list(tmp_path.iterdir()) == []
