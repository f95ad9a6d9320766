"""One fresh process that reads all pods of a server in one of several ways, and prints what it took as JSON.

Run by `bench.syncing`, never imported for its work: processor time and memory mean something only in a process of their
own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop

from allhands.kube.access import Access
from allhands.kube.objects import KubeObjects
from allhands.ports import Query
from allhands.runtime.scheduling.watched_world import WatchedWorld
from bench.pods import PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAGE = 500


class Synced(msgspec.Struct, frozen=True):
    count: int
    cpu_seconds: float
    peak_mebibytes: float


async def _list(objects: KubeObjects) -> int:
    count, token = 0, ""
    while True:
        page = await objects.list(PODS, Query(limit=PAGE, continue_token=token))
        count, token = count + len(page.items), page.continue_token
        if not token:
            return count


async def _watch(objects: KubeObjects) -> int:
    count = 0
    watch = await objects.watch(PODS, bookmarks=True, initial_events=True)
    async for event in watch:
        if event.type == "BOOKMARK":
            break
        count += 1
    await watch.close()
    return count


async def _synced(objects: KubeObjects) -> int:
    pods = WatchedWorld(objects, changed=lambda: None).pods
    running = asyncio.create_task(pods.run())
    await pods.synced.wait()
    running.cancel()
    await asyncio.wait((running,))
    return len(pods)


MODES: dict[str, Callable[[KubeObjects], Awaitable[int]]] = {"list": _list, "watch": _watch, "synced": _synced}


async def main(mode: str, access: Access) -> Synced:
    async with KubeObjects(access) as objects:
        began = time.process_time()
        count = await MODES[mode](objects)
        taken = time.process_time() - began
    return Synced(count, taken, _peak_mebibytes())


def _peak_mebibytes() -> float:
    """Of this program alone: what getrusage says also holds for whoever started it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(main(sys.argv[1], Access(server=sys.argv[2], ca_pem=Path(sys.argv[3]).read_bytes())))
    print(msgspec.json.encode(found).decode())
