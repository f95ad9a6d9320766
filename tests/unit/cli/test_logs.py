"""`allhands logs`: whole lines of all pods, each with its pod; refusals that stop nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from allhands.agents.local_node import LocalNode
from allhands.cli import root
from allhands.cli.logs import LONGEST_LINE, lines
from allhands.compose.system import SystemOptions
from tests.unit.cli.log_server import LogServer
from tests.unit.cli.running_cluster import RunningCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def logs(server: LogServer, *arguments: str) -> Result:
    return CliRunner().invoke(root, ["logs", "job/train", "--kubeconfig", str(server.kubeconfig), *arguments])


@pytest.mark.parametrize("follow", [[], ["-f"]], ids=["once", "followed"])
def test_every_line_comes_with_its_pod(tmp_path: Path, follow: list[str]) -> None:
    with LogServer(tmp_path, {"train-0": [b"one\ntw", b"o\n"], "train-1": [b"three\nno end"]}) as server:
        shown = logs(server, *follow)
    assert shown.exit_code == 0, shown.output
    assert sorted(shown.stdout.splitlines()) == [
        "[train-0] one",
        "[train-0] two",
        "[train-1] no end",
        "[train-1] three",
    ]
    assert shown.stderr == ""


def test_options_reach_the_server_and_the_prefix_can_be_left_out(tmp_path: Path) -> None:
    with LogServer(tmp_path, {"train-0": [b"x\n"]}) as server:
        arguments = ["--tail", "3", "--since", "1m", "--timestamps", "--previous", "--no-prefix"]
        assert logs(server, *arguments).stdout == "x\n"
        wanted = {"tailLines": "3", "sinceSeconds": "60", "timestamps": "true", "previous": "true", "container": "main"}
        assert server.asked == [wanted]


def test_several_containers_are_told_apart_and_one_can_be_chosen(tmp_path: Path) -> None:
    with LogServer(tmp_path, {"train-0": [b"x\n"]}, containers=("main", "side")) as server:
        assert logs(server).stdout == "[train-0 main] x\n[train-0 side] x\n"
        assert logs(server, "-c", "side").stdout == "[train-0 side] x\n"
        assert logs(server, "-c", "sid").stderr == "Error: job/train has no container 'sid'; it has main, side\n"


def test_one_pod_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    with LogServer(tmp_path, {"train-0": 400, "train-1": [b"here\n"]}) as server:
        shown = logs(server)
        assert (shown.exit_code, shown.stdout) == (0, "[train-1] here\n")
        assert shown.stderr == "train-0: container is waiting to start\n"
        followed = logs(server, "-f")
        assert (followed.exit_code, followed.stdout) == (0, "[train-1] here\n")
        assert followed.stderr == "train-0: container is waiting to start\n"


def test_if_none_can_be_read_it_fails(tmp_path: Path) -> None:
    with LogServer(tmp_path, {"train-0": 400}) as server:
        assert logs(server).exit_code == 1


def test_bytes_of_any_kind_are_passed_on(tmp_path: Path) -> None:
    with LogServer(tmp_path, {"train-0": [b"\xff\x00\n"]}) as server:
        assert logs(server, "--no-prefix").stdout_bytes == b"\xff\x00\n"


SPEAKING = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: local
        command: [sh, -c, 'for n in 1 2; do echo "rank $JOB_COMPLETION_INDEX says $n"; sleep 0.2; done']
"""


def test_processes_are_followed_to_the_end_of_their_job(tmp_path: Path) -> None:
    here = LocalNode(name="here", capacity={"cpu": "4", "memory": "4Gi"})
    system = SystemOptions(process_node=here, process_folder=tmp_path / "pods")
    with RunningCluster(tmp_path / "data", nodes=0, system=system) as cluster:
        submitted = ["submit", "-f", "-", "--kubeconfig", str(cluster.kubeconfig)]
        assert CliRunner().invoke(root, submitted, input=SPEAKING).exit_code == 0
        shown = CliRunner().invoke(root, ["logs", "-f", "job/train", "--kubeconfig", str(cluster.kubeconfig)])
        assert (shown.exit_code, shown.stderr) == (0, "")
        said = sorted((line.partition("] ")[2], line.partition("-")[0]) for line in shown.stdout.splitlines())
        assert said == [(f"rank {rank} says {n}", "[train") for rank in (0, 1) for n in (1, 2)]


async def _chunks(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@given(st.lists(st.binary(max_size=20), max_size=10))
async def test_lines_do_not_depend_on_how_they_were_cut_into_chunks(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    got = [line async for line in lines(_chunks(chunks))]
    assert b"".join(got) == whole + (b"" if not whole or whole.endswith(b"\n") else b"\n")
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in got)


async def test_a_line_without_an_end_is_printed_in_pieces() -> None:
    got = [line async for line in lines(_chunks([b"x" * LONGEST_LINE] * 4))]
    assert len(got) == 2
