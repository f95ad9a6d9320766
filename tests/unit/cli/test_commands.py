"""The command line as a user meets it: in a process of its own, with its exit codes, and quick to start."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from allhands import __version__
from allhands.cli import COMMANDS

COMMAND = Path(sys.executable).parent / "allhands"
HEAVY = ("aiohttp", "cryptography", "msgspec", "numpy", "uvicorn", "uvloop", "yaml", "asyncio")


def run(*arguments: str, name: str = "allhands") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND.with_name(name), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_lists_every_command_with_examples() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in COMMANDS)
    assert "Examples:" in shown.stdout


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    assert run(name, "--help").returncode == 0


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from allhands.cli import root\n"
        "try: root.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stderr.strip() == "[]"


def test_the_version_comes_as_text_and_as_json() -> None:
    assert f"allhands {__version__}" in run("version").stdout
    assert json.loads(run("version", "-o", "json").stdout)["allhands"] == __version__


def test_as_a_plugin_it_calls_itself_as_kubectl_does() -> None:
    assert "Usage: kubectl allhands" in run("--help", name="kubectl-allhands").stdout


def test_kubectl_gets_completions_and_its_directive() -> None:
    lines = run("", name="kubectl_complete-allhands").stdout.splitlines()
    assert lines[-1] == ":4"
    assert set(COMMANDS) <= set(lines)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    assert "_ALLHANDS_COMPLETE" in run("completion", shell).stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--nodes", "-1"], "--nodes"),
        (["up", "--node-cpu", "abc"], "is not a quantity such as 8, 500m or 32Gi"),
        (["up", "--node-memory", "0"], "must be more than zero"),
        (["up", "--port", "70000"], "--port"),
        (["nonsense"], "No such command"),
    ],
)
def test_wrong_usage_is_told_and_exits_with_2(arguments: list[str], complaint: str) -> None:
    shown = run(*arguments)
    assert shown.returncode == 2
    assert complaint in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_up_says_what_to_do_next_and_stops_cleanly(tmp_path: Path, sent: signal.Signals) -> None:
    process = subprocess.Popen(
        [COMMAND, "up", "--nodes", "2", "--data", tmp_path / "data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    lines = []
    while "Ctrl-C" not in (line := process.stdout.readline()):
        assert line, "it ended before it was ready"
        lines.append(line)
    process.send_signal(sent)
    _, complaints = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in complaints
    text = "".join(lines)
    assert "with 2 simulated nodes is ready at https://127.0.0.1:" in text
    assert f"kubeconfig: {tmp_path / 'data' / 'kubeconfig'}" in text
    assert len([line for line in lines if line.startswith("  ")]) == 4
    assert (tmp_path / "data" / "kubeconfig").stat().st_mode & 0o077 == 0


def started(*arguments: str | Path, cwd: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "up", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    )


def shown_until_ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = ""
    while "Ctrl-C" not in text:
        line = process.stdout.readline()
        assert line, "it ended before it was ready"
        text += line
    return text


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown = run("up", "--data", str(tmp_path / "file" / "data"))
    assert shown.returncode == 1
    assert shown.stderr == f"Error: cannot use {tmp_path}/file/data: Not a directory\n"


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shown = run("up", "--data", str(tmp_path), "--port", str(port))
    assert shown.returncode == 1
    assert shown.stderr == f"Error: cannot start on port {port}: Address already in use\n"


def test_what_is_to_be_typed_works_in_another_folder_and_with_spaces(tmp_path: Path) -> None:
    process = started("--nodes", "0", "--data", "my data", cwd=tmp_path)
    text = shown_until_ready(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert f"  export KUBECONFIG='{tmp_path}/my data/kubeconfig'\n" in text


def test_a_token_that_no_header_could_carry_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe\n")
    process = started("--nodes", "0", "--data", tmp_path)
    shown_until_ready(process)
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=30)[1]
    assert len((tmp_path / "token").read_text(encoding="ascii")) > 30


def test_a_long_start_can_be_ended(tmp_path: Path) -> None:
    process = started("--nodes", "100000", "--data", tmp_path / "data")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    process.send_signal(signal.SIGINT)
    shown, complaints = process.communicate(timeout=60)
    assert (process.returncode, shown) == (130, "")
    assert complaints in ("", "Stopped before it was ready.\n")


def test_a_data_folder_serves_one_cluster_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shown = run("up", "--data", str(tmp_path / "data"))
    assert shown.returncode == 1
    assert "another cluster is running with this folder" in shown.stderr
