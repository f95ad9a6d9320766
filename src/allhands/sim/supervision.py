"""Parts of a simulated system that may die and come back: each incarnation gets a port and a state of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from allhands.sim.faults import FaultyObjects

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from allhands.ports import Objects
    from allhands.sim.faults import CrashAt, Faults

RESTART_SECONDS = 3.0


class Part:
    """`begin` makes a new incarnation from its port and returns what runs it."""

    def __init__(
        self,
        name: str,
        objects: Objects,
        begin: Callable[[Objects], Coroutine[Any, Any, None]],
        faults: Faults,
        chance: random.Random,
    ) -> None:
        self.name = name
        self.faults = faults
        self._objects = objects
        self._begin = begin
        self._chance = chance
        self._port: FaultyObjects | None = None
        self._crash = asyncio.Event()
        self.incarnations = 0

    def crash(self) -> None:
        """Ends the present incarnation, wherever it is."""
        if self._port is not None:
            self._port.kill()
        self._crash.set()

    def crash_at(self, crash: CrashAt) -> None:
        """Ends the present incarnation, and only that, at one of its writes."""
        if self._port is not None:
            self._port.crash_at = crash

    def set_faults(self, faults: Faults) -> None:
        self.faults = faults
        if self._port is not None:
            self._port.faults = faults

    async def run(self) -> None:
        while True:
            self._crash.clear()
            self.incarnations += 1
            self._port = FaultyObjects(self._objects, self.faults, self._chance, self._crash.set)
            work = asyncio.create_task(self._begin(self._port), name=self.name)
            crashed = asyncio.create_task(self._crash.wait())
            try:
                await asyncio.wait((work, crashed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                crashed.cancel()
                if not work.done():
                    work.cancel()
            if work.done() and not work.cancelled() and (error := work.exception()) is not None:
                raise error  # a part that ends by itself has a mistake
            # Not `await work`: ended in this moment, we would take our end for its, and go on for ever.
            await asyncio.wait((work,))
            if not work.cancelled():
                work.result()
            await asyncio.sleep(RESTART_SECONDS * (0.5 + self._chance.random()))
