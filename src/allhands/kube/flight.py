"""How many requests are under way at a time, and who is next when all places are taken.

Renewing a lease must not wait behind ten thousand binds: leases go first, and have places that nobody else may use.
Among the others each class has its turn, so that one that asks for much slows down itself and not the rest.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import Final

MAX_IN_FLIGHT: Final = 96
"""An API server on a few cores has its best throughput at 64 to 128; more only wait there instead of here."""
RESERVED: Final = 4
"""Places beyond that for leases alone: also a server that hangs on everything else is asked to renew."""


class Urgency(enum.IntEnum):
    """Which queue a request stands in."""

    LEASE = 0
    READ = 1
    WRITE = 2
    EVENT = 3
    """What is told about what was done; it may wait, but not for ever."""


class Flight:
    """Use as `async with flight.place(urgency)`. First come, first served within a class."""

    def __init__(self, most: int = MAX_IN_FLIGHT, reserved: int = RESERVED) -> None:
        if most < 1:
            raise ValueError(f"requests in flight: must be at least 1, not {most}")
        self._most = most
        self._reserved = reserved
        self._flying = 0
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Urgency)
        self._turn = Urgency.READ.value
        self.places = tuple(_Place(self, urgency) for urgency in Urgency)

    @property
    def capacity(self) -> int:
        """The most that can ever be under way: so many connections are needed."""
        return self._most + self._reserved

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._queues)

    def place(self, urgency: Urgency) -> _Place:
        return self.places[urgency]

    def enter_at_once(self, urgency: Urgency) -> bool:
        """Takes a place if there is one and nobody of the class waits for it."""
        if self._flying < self._limit(urgency) and not self._queues[urgency]:
            self._flying += 1
            return True
        return False

    async def enter(self, urgency: Urgency) -> None:
        if self.enter_at_once(urgency):
            return
        place = asyncio.get_running_loop().create_future()
        self._queues[urgency].append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # it was given to us in the very moment
            raise

    def leave(self) -> None:
        self._flying -= 1
        if not any(self._queues):
            return
        while (queue := self._next_queue()) is not None:
            place = queue.popleft()
            if not place.cancelled():
                self._flying += 1
                place.set_result(None)

    def _limit(self, urgency: int) -> int:
        return self._most + (self._reserved if urgency == Urgency.LEASE else 0)

    def _next_queue(self) -> deque[asyncio.Future[None]] | None:
        """Whose turn it is, if there is a place for anyone who waits."""
        leases, *others = self._queues
        if leases and self._flying < self._limit(Urgency.LEASE):
            return leases
        if self._flying >= self._most:
            return None
        for step in range(len(others)):
            turn = (self._turn - 1 + step) % len(others)
            if others[turn]:
                self._turn = (turn + 1) % len(others) + 1
                return others[turn]
        return None


class _Place:
    """One reusable context manager for each class: entering must cost next to nothing."""

    __slots__ = ("_flight", "_urgency")

    def __init__(self, flight: Flight, urgency: Urgency) -> None:
        self._flight = flight
        self._urgency = urgency

    async def __aenter__(self) -> None:
        await self._flight.enter(self._urgency)

    async def __aexit__(self, *reason: object) -> None:
        del reason
        self._flight.leave()
