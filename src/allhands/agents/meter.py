"""How fast processes use processor time, from what they have used until now, looked at when somebody asks.

Usage needs two looks. The earlier one is that of a question before, if it was between a second and a minute ago; or the
container's start, if it began within the last minute; else the asker waits a second. Without a question, nobody looks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.agents.child import MARK
from allhands.agents.processes import Consumption, consumption_by_container, machine_consumption
from allhands.agents.usage import InUse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

SHORTEST_SECONDS: Final = 1.0
"""The system counts in hundredths of a second: over less, usage would be noise."""
LONGEST_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.25
"""Looks closer to each other than this are not remembered: however often somebody asks, a few are."""
_LEAST_SECONDS: Final = 0.01
"""Nobody is taken to have run for less."""
MACHINE: Final = ""
"""The id of the machine as a whole, beside those of containers."""


class Started(Protocol):
    """The first process of a container."""

    pid: int
    id: str
    """Unlike that of any other run of any container."""
    began: float
    """On the loop's clock."""


class Rate(msgspec.Struct, frozen=True):
    usage: InUse
    window_seconds: float


class _Look(msgspec.Struct, frozen=True):
    at: float
    cpu_seconds: float


async def consumption(roots: Mapping[int, str]) -> Mapping[str, Consumption]:
    """In a thread: a machine may have thousands of processes."""
    return await asyncio.to_thread(consumption_by_container, roots, MARK)


class Meter:
    """The usage of one machine and of containers on it."""

    def __init__(
        self,
        containers: Callable[[Mapping[int, str]], Awaitable[Mapping[str, Consumption]]] = consumption,
        machine: Callable[[], Consumption | None] = machine_consumption,
    ) -> None:
        self._containers = containers
        self._machine = machine
        self._looks: dict[str, list[_Look]] = {}
        """Of each container, from old to new; the first is what the next answer is measured from."""
        self._asking = asyncio.Lock()

    async def rates(self, children: Sequence[Started], *, machine: bool = False) -> dict[str, Rate]:
        """By id of the container; of the machine under `MACHINE`, if that is asked for too. Who is gone is left out."""
        roots = {child.pid: child.id for child in children}
        began = {child.id: child.began for child in children}
        async with self._asking:
            now, used = await self._look(roots, machine=machine)
            self._forget(now)
            for it, since in began.items():
                self._looks.setdefault(it, [_Look(since, 0.0)])
            if any(not self._can_tell(it, now) for it in used):
                for it, consumption in used.items():
                    if not self._can_tell(it, now):
                        self._looks[it] = [_Look(now, consumption.cpu_seconds)]
                await asyncio.sleep(SHORTEST_SECONDS)
                now, used = await self._look(roots, machine=machine)
            return dict(self._measured(now, used))

    async def _look(self, roots: Mapping[int, str], *, machine: bool) -> tuple[float, dict[str, Consumption]]:
        used = dict(await self._containers(roots)) if roots else {}
        whole = self._machine() if machine else None
        if whole is not None:
            used[MACHINE] = whole
        return asyncio.get_running_loop().time(), used

    def _forget(self, now: float) -> None:
        """What is too old to measure from is not kept, and so nothing of containers that are gone."""
        for it in [it for it, looks in self._looks.items() if now - looks[-1].at > LONGEST_SECONDS]:
            del self._looks[it]

    def _can_tell(self, it: str, now: float) -> bool:
        """Whether there is an earlier look of the right age; the start of a container may be as young as it is."""
        looks = self._looks.get(it)
        return looks is not None and now - self._base(looks, now).at <= LONGEST_SECONDS

    @staticmethod
    def _base(looks: list[_Look], now: float) -> _Look:
        """The youngest that is old enough; if none is, the oldest."""
        while len(looks) > 1 and now - looks[1].at >= SHORTEST_SECONDS:
            looks.pop(0)
        return looks[0]

    def _measured(self, now: float, used: Mapping[str, Consumption]) -> Iterator[tuple[str, Rate]]:
        for it, consumption in used.items():
            looks = self._looks.get(it)
            if looks is None:
                continue
            base = self._base(looks, now)
            window = max(now - base.at, _LEAST_SECONDS)
            # What a process used that ended where nobody waited for it is lost: never less than nothing.
            nanos = max(0, round((consumption.cpu_seconds - base.cpu_seconds) / window * 1e9))
            if now - looks[-1].at >= _LOOK_SECONDS:
                looks.append(_Look(now, consumption.cpu_seconds))
            yield it, Rate(InUse(nanos, consumption.memory_bytes), window)
