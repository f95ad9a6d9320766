"""What pods on a process node use, as the system says it: all that a container started, and nobody else."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import TYPE_CHECKING

from allhands.agents.logs import LogOptions
from allhands.agents.processes import consumption_by_container, machine_consumption
from tests.unit.agents.local import NODE, PATIENCE_SECONDS, Local, local

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.agents.usage import PodUsage

BUSY = "import os; print('up', flush=True)\nwhile True: pass"
LARGE = "x = bytearray(80 * 2**20); print('up', flush=True); import signal; signal.pause()"
DAEMON = f"""\
import os, subprocess, sys
# A child that leaves the session of its parent, whose parent then ends: it is nobody's child any more.
script = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
subprocess.run([sys.executable, "-c", script, {BUSY!r}])
import signal; signal.pause()
"""
MIB = 2**20


async def up(here: Local, name: str, lines: int = 1) -> None:
    """Waits until it has written so many lines, by reading its log to them."""
    await here.running(name)
    reading = await here.agent.logs("default", name, LogOptions(follow=True))
    text = b""
    async for piece in reading:
        text += piece
        if text.count(b"\n") >= lines:
            break
    await reading.aclose()  # type: ignore[attr-defined]


async def used(here: Local, name: str) -> PodUsage:
    return (await here.agent.of_pods([f"default/{name}"]))[f"default/{name}"]


async def test_a_busy_pod_uses_processor_time_and_an_idle_one_memory(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("busy", sys.executable, "-c", BUSY)
        await here.add("large", sys.executable, "-c", LARGE)
        await up(here, "busy")
        await up(here, "large")
        keys = ["default/busy", "default/large", "default/nobody"]
        async with asyncio.timeout(PATIENCE_SECONDS):  # until what both used to begin is long ago
            while True:
                found = await here.agent.of_pods(keys)
                assert sorted(found) == keys[:2]
                busy, large = (found[key].containers["main"] for key in keys[:2])
                if busy.cpu_nanos > 2 * large.cpu_nanos:
                    break
                await asyncio.sleep(0.1)
        assert large.memory_bytes > 80 * MIB > busy.memory_bytes
        assert 0 < found["default/busy"].window_seconds <= 60


async def test_a_daemon_that_left_its_session_and_lost_its_parents_counts(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("daemon", sys.executable, "-c", DAEMON)
        await up(here, "daemon")
        pids = here.processes()
        assert len(pids) == 2
        first = here.agent._runs["default/daemon"].local.containers[0].child
        assert first is not None
        alone = consumption_by_container({first.pid: first.id}, "NO_SUCH_MARK")[first.id]
        together = consumption_by_container({first.pid: first.id}, "ALLHANDS_CONTAINER_ID")[first.id]
        assert together.memory_bytes > alone.memory_bytes


async def test_children_are_counted_with_their_container_alone(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        script = f"{sys.executable} -c {shlex.quote(LARGE)} & wait"
        main = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
        beside = {"name": "beside", "image": "none", "command": ["sh", "-c", "echo up; exec sleep 600"]}
        await here.add("two", "x", spec={"containers": [main, beside]})
        await up(here, "two")
        containers = (await used(here, "two")).containers
        assert sorted(containers) == ["beside", "main"]
        assert containers["main"].memory_bytes > 80 * MIB > 8 * containers["beside"].memory_bytes


async def test_what_does_not_run_uses_nothing(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("done", "true")
        await here.ended("done")
        assert await here.agent.of_pods(["default/done", "default/never"]) == {}


async def test_the_node_uses_at_least_what_its_pods_use(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("large", sys.executable, "-c", LARGE)
        await up(here, "large")
        found = await here.agent.of_nodes([NODE, "elsewhere"])
        assert list(found) == [NODE]
        assert found[NODE].usage.memory_bytes > 80 * MIB
        assert await here.agent.of_nodes(["elsewhere"]) == {}


def test_the_machine_has_used_something() -> None:
    whole = machine_consumption()
    assert whole is not None
    assert whole.memory_bytes > MIB
