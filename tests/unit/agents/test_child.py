"""Local processes: started, heard, ended, with nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from allhands.agents.child import Child, Command, StartProblem
from allhands.agents.log_files import LogFile
from allhands.agents.logs import LogOptions
from allhands.agents.processes import kill_marked

STAMP = "2026-01-31T12:00:00.000000000Z"
PATH = {"PATH": os.environ["PATH"]}


async def begin(tmp_path: Path, *words: str, **more: Any) -> tuple[Child, LogFile]:
    log = LogFile(tmp_path / "log", more.pop("most_bytes", 10**6))
    command = Command(words, PATH | more.pop("environment", {}), tmp_path, f"{tmp_path.name}/{words[0]}", **more)
    try:
        return await Child.start(command, log, lambda: STAMP), log
    except BaseException:
        log.close(STAMP)
        raise


async def written(log: LogFile) -> str:
    log.close(STAMP)
    return b"".join([piece async for piece in log.read(LogOptions(), "")]).decode()


def alive(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


async def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    child, log = await begin(tmp_path, "sh", "-c", "echo out; echo err >&2; pwd; exit 3")
    assert await child.wait() == 3
    assert sorted((await written(log)).split()) == sorted(["err", "out", str(tmp_path)])


async def test_a_signal_is_128_and_its_number(tmp_path: Path) -> None:
    child, log = await begin(tmp_path, "sleep", "1000")
    child.terminate()
    assert await child.wait() == 128 + signal.SIGTERM
    log.close(STAMP)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("no-such-command",), "'no-such-command' was not found on this machine in PATH"),
        (("/nowhere/at/all",), "'/nowhere/at/all' was not found on this machine"),
        (("/etc/passwd",), "may not be executed"),
        (("true", "a\0b"), "embedded null byte"),
        (("true", "x" * 3_000_000), "too long"),
    ],
    ids=["not in the path", "no file", "no program", "a null byte", "too long"],
)
async def test_what_cannot_be_started_says_why(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    with pytest.raises(StartProblem, match=told):
        await begin(tmp_path, *words)


async def test_no_command_is_a_reason_too(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    with pytest.raises(StartProblem, match="must state a command"):
        await Child.start(Command((), PATH, tmp_path, "id"), log, lambda: STAMP)
    with pytest.raises(StartProblem, match="working directory"):
        await Child.start(Command(("true",), PATH, tmp_path / "none", "id"), log, lambda: STAMP)
    log.close(STAMP)


async def test_children_that_outlive_their_parent_are_ended(tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    script = f"(exec -a {mark} sleep 1000) & setsid bash -c 'exec -a {mark} sleep 1000' & sleep 0.2; exit 0"
    child, log = await begin(tmp_path, "bash", "-c", script)
    assert await child.wait() == 0
    log.close(STAMP)
    assert alive(mark) == []


async def test_a_deaf_process_is_killed_and_no_zombie_stays(tmp_path: Path) -> None:
    deaf = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); print('deaf', flush=True); s.pause()"
    child, log = await begin(tmp_path, sys.executable, "-c", deaf)
    reading = log.read(LogOptions(follow=True), "")
    async for piece in reading:
        if piece:
            break
    child.terminate()
    await asyncio.sleep(0)
    await child.kill()
    assert await child.wait() == 137
    log.close(STAMP)
    assert not Path(f"/proc/{child.pid}").exists()


async def test_endless_output_is_throttled_and_bounded(tmp_path: Path) -> None:
    child, log = await begin(tmp_path, "yes", most_bytes=200_000)
    others = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + 0.5
    while loop.time() < end:
        await asyncio.sleep(0.001)
        others += 1
    await child.kill()
    log.close(STAMP)
    assert others > 20, "others get their turn"
    assert sum(path.stat().st_size for path in (tmp_path / "log").iterdir()) < 400_000


async def test_a_cancelled_wait_leaves_nothing_running(tmp_path: Path) -> None:
    child, log = await begin(tmp_path, "sleep", "1000")
    waiting = asyncio.create_task(child.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not Path(f"/proc/{child.pid}").exists()
    log.close(STAMP)


async def test_processes_are_found_by_what_their_environment_says(tmp_path: Path) -> None:
    child, log = await begin(tmp_path, "sleep", "1000", environment={"WHO": f"me-{tmp_path.name}"})
    assert kill_marked(f"WHO=me-{tmp_path.name}") == [child.pid]
    assert await child.wait() == 137
    log.close(STAMP)
