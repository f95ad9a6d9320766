"""The command line as a user meets it: in a process of its own, with its exit codes, and quick to start."""

from __future__ import annotations

import json
import os
import signal
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
    assert "with 2 nodes is ready at https://127.0.0.1:" in text
    assert f"kubeconfig: {tmp_path / 'data' / 'kubeconfig'}" in text
    assert len([line for line in lines if line.startswith("  ")]) == 3
    assert (tmp_path / "data" / "kubeconfig").stat().st_mode & 0o077 == 0


def test_the_demo_runs_to_its_end(tmp_path: Path) -> None:
    shown = subprocess.run(
        [COMMAND, "demo"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert shown.returncode == 0, shown.stderr
    assert "already assigned to node" in shown.stdout
    assert list(tmp_path.iterdir()) == []
