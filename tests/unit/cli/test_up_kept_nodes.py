"""What `allhands up` says of nodes: what there is, and which kept ones nobody serves this time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from allhands.agents.local_node import LocalNode
from allhands.cli.up import _about_unserved, _nodes_in_words
from allhands.compose.embedded import embedded

COMMAND = Path(sys.executable).parent / "allhands"


def told_at_start(data: Path, *arguments: str) -> str:
    """What it says until it is ready; then it is killed."""
    process = subprocess.Popen(
        [COMMAND, "up", "--data", data, "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    told = ""
    try:
        assert process.stdout is not None
        while "Ctrl-C" not in (line := process.stdout.readline()):
            assert line, f"it ended before it was ready: {told}"
            told += line
        return told
    finally:
        process.kill()
        process.communicate()


async def test_a_kept_node_that_is_not_served_now_is_named_with_what_to_do(tmp_path: Path) -> None:
    async with embedded(tmp_path, durable=True) as cluster:
        await LocalNode(name="local").register(cluster.objects, "2026-01-31T12:00:00Z")
    told = told_at_start(tmp_path)
    assert "An embedded cluster without a node that is served is ready" in told
    assert "node local is kept but not served now; start with --local: nothing is scheduled to it" in told
    told = told_at_start(tmp_path, "--local")
    assert "this machine as its node" in told
    assert "not served" not in told


@pytest.mark.parametrize(
    ("simulated", "unserved", "local", "words"),
    [
        (0, 0, False, "without nodes"),
        (0, 2, False, "without a node that is served"),
        (1, 1, False, "with 1 simulated node"),
        (3, 0, True, "with 3 simulated nodes and this machine"),
        (0, 1, True, "with this machine as its node"),
    ],
)
def test_the_first_line_says_what_there_is(simulated: int, unserved: int, local: bool, words: str) -> None:
    assert _nodes_in_words(simulated, unserved, local=local) == words


def test_of_many_nodes_that_are_not_served_only_the_first_are_named() -> None:
    lines = _about_unserved(tuple(f"n{number}" for number in range(8)))
    assert len(lines) == 6
    assert lines[0] == "node n0 is kept but not served now: nothing is scheduled to it"
    assert lines[-1] == "and 3 more nodes that are not served now"
