"""`python -m bench.reloading FOLDER`: begins a store on the data in a folder, and prints what that took."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

from allhands.compose.admission import WEBHOOKS
from allhands.compose.embedded_data import stored
from allhands.compose.machine import RandomIds, SystemClock


class Reloaded(msgspec.Struct, frozen=True):
    objects: int
    seconds: float
    cpu_seconds: float


async def reload(folder: Path) -> Reloaded:
    began, cpu_began = time.perf_counter(), time.process_time()
    async with stored(folder, SystemClock(), RandomIds(), WEBHOOKS, durable=True) as kept:
        return Reloaded(kept.found, time.perf_counter() - began, time.process_time() - cpu_began)


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(reload(Path(sys.argv[1])))).decode())
