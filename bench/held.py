"""One fresh process that holds a given number of pods, measures itself, and prints what it found as JSON.

Run by `bench.holding`, never imported by it: resident memory means something only in a process that did nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from allhands.compose.machine import COLLECTOR_THRESHOLDS, RandomIds, SystemClock
from allhands.ports import Query
from allhands.store import InProcessObjects, Store
from bench.pods import GANG_SIZE, JOBS, PODS, bodies, job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NAMESPACE = "default"
REPEATS = 5
WATCHES = 1_000
CHANGES = 1_000
"""How many changes lie between a watch's version and the present, or between two pages of a list."""


class Held(msgspec.Struct, kw_only=True):
    """What holding `count` pods is like. Times are the least of a few repeats, in seconds."""

    count: int
    stored_bytes: float
    resident_bytes_per_pod: float
    list_all_seconds: float
    scan_seconds: float
    by_label_seconds: float
    by_node_seconds: float
    first_page_seconds: float
    later_page_seconds: float
    later_page_after_changes_seconds: float
    watch_seconds: float
    watch_earlier_seconds: float
    watch_bytes: float
    fan_out_seconds: float


async def hold(count: int) -> Held:
    store = Store(SystemClock(), RandomIds())
    objects = InProcessObjects(store)
    await _fill(objects, store, GANG_SIZE, first=count)  # so that code and schemas are in memory before we look
    before = _resident_bytes()
    await _fill(objects, store, count)
    gc.collect()
    resident = _resident_bytes() - before
    pods = (await objects.list(PODS)).items
    stored = sum(len(raw) for raw in pods) / len(pods)
    del pods
    gc.freeze()
    readings = await _reading(objects, count)
    watching = await _watching(objects, store)
    paging = await _paging(objects)
    return Held(
        count=count, stored_bytes=stored, resident_bytes_per_pod=resident / count, **readings, **watching, **paging
    )


async def _fill(objects: InProcessObjects, store: Store, count: int, *, first: int = 0) -> None:
    """Gangs of a hundred, each with its job, spread over nodes of a hundred pods."""
    nodes = max(1, count // GANG_SIZE)
    for start in range(first, first + count, GANG_SIZE):
        owner = (await objects.create(JOBS, job(f"training-{start // GANG_SIZE:05d}"), NAMESPACE)).manifest()
        for body in bodies("large", "equal", GANG_SIZE, owner, first=start, nodes=nodes):
            await objects.create(PODS, body, NAMESPACE)
        store.housekeeper.run_pending()


async def _reading(objects: InProcessObjects, count: int) -> dict[str, float]:
    gang = f"batch.kubernetes.io/job-name=training-{count // GANG_SIZE // 2:05d}"
    node = f"spec.nodeName=node-{count // GANG_SIZE // 2:05d}"
    by_label, by_node = Query(labels=gang), Query(fields=node)
    every, scan = Query(), Query(labels="!example.com/absent")
    for query in (by_label, by_node):
        found = len((await objects.list(PODS, query)).items)
        if found not in (GANG_SIZE, GANG_SIZE + 1):
            raise RuntimeError(f"{query} found {found} pods")
    return {
        "list_all_seconds": await _least(lambda: objects.list(PODS, every)),
        "scan_seconds": await _least(lambda: objects.list(PODS, scan)),
        "by_label_seconds": await _least(lambda: objects.list(PODS, by_label), 20),
        "by_node_seconds": await _least(lambda: objects.list(PODS, by_node), 20),
    }


async def _paging(objects: InProcessObjects) -> dict[str, float]:
    """A page of a hundred: the first, a later one, and a later one while others write."""
    first = Query(limit=100)
    token = (await objects.list(PODS, first)).continue_token
    later = Query(limit=100, continue_token=token)
    first_seconds = await _least(lambda: objects.list(PODS, first), 20)
    later_seconds = await _least(lambda: objects.list(PODS, later), 20)
    await _change(objects, CHANGES)
    after_seconds = await _least(lambda: objects.list(PODS, later))
    return {
        "first_page_seconds": first_seconds,
        "later_page_seconds": later_seconds,
        "later_page_after_changes_seconds": after_seconds,
    }


async def _watching(objects: InProcessObjects, store: Store) -> dict[str, float]:
    earlier = str(store.version)
    await _change(objects, CHANGES)
    now = Query(resource_version=str(store.version))
    since = Query(resource_version=earlier)
    watch_seconds = await _least(lambda: objects.watch(PODS, now), 20)
    earlier_seconds = await _least(lambda: objects.watch(PODS, since), 20)
    gc.collect()
    tracemalloc.start()
    watches = [await objects.watch(PODS, now) for _ in range(WATCHES)]
    watch_bytes = tracemalloc.get_traced_memory()[0] / WATCHES
    tracemalloc.stop()
    tasks = [asyncio.create_task(anext(watch)) for watch in watches]
    await asyncio.sleep(0)  # every watcher waits now
    began = time.perf_counter()
    await _change(objects, 1)
    await asyncio.gather(*tasks)
    fan_out = time.perf_counter() - began
    return {
        "watch_seconds": watch_seconds,
        "watch_earlier_seconds": earlier_seconds,
        "watch_bytes": watch_bytes,
        "fan_out_seconds": fan_out,
    }


async def _change(objects: InProcessObjects, count: int) -> None:
    """`count` changes of one pod, so that versions move and memory does not."""
    name = "training-00000-worker-000"
    for number in range(count):
        mark = {"metadata": {"annotations": {"example.com/step": f"{time.monotonic_ns()}-{number}"}}}
        await objects.patch(PODS, name, "merge", mark, NAMESPACE)


async def _least(call: Callable[[], Awaitable[object]], repeats: int = REPEATS) -> float:
    least = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        answer = await call()
        least = min(least, time.perf_counter() - began)
        del answer
    return least


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say how much memory is resident")


if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(hold(int(sys.argv[1])))))
