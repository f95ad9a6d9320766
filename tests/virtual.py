"""Tests on virtual time: a decorator, a store in process, and a port that notes every request and refuses or loses the
ones that a test names."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from allhands.api.errors import StatusError
from allhands.sim.virtual_time import VirtualClock, VirtualTimeLoop, run_virtually
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from allhands.api.kinds import Resource
    from allhands.ports import Objects

WRITES = frozenset({"create", "update", "patch", "delete", "delete_all", "bind", "evict"})


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An asynchronous test, run to its end in no time."""

    @functools.wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        run_virtually(VirtualTimeLoop(), test(*arguments, **options))

    return run


class Request(NamedTuple):
    at_seconds: float
    verb: str
    kind: str
    name: str


def lost() -> StatusError:
    return StatusError(503, "ServiceUnavailable", "the answer was lost")


def refused(code: int = 500) -> StatusError:
    return StatusError(code, "Refused", "the test refuses it")


class NotedObjects:
    """The port. `refuse` is asked before a request and `lose` after it: what they return is raised."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.requests: list[Request] = []
        self.refuse: Callable[[Request], StatusError | None] = lambda _: None
        self.lose: Callable[[Request], StatusError | None] = lambda _: None
        self.take_seconds: Callable[[Request], float] = lambda _: 0.0
        """How long the answer takes, once the request has happened."""

    @property
    def port(self) -> Objects:
        return cast("Objects", self)

    @property
    def writes(self) -> list[Request]:
        return [it for it in self.requests if it.verb in WRITES]

    def of(self, verb: str, kind: str = "") -> list[Request]:
        return [it for it in self.requests if it.verb == verb and (not kind or it.kind == kind)]

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._objects, verb)

        async def noted(*arguments: Any, **options: Any) -> Any:
            request = _noted(verb, arguments)
            self.requests.append(request)
            if (error := self.refuse(request)) is not None:
                raise error
            answer = await method(*arguments, **options)
            if (seconds := self.take_seconds(request)) > 0:
                await asyncio.sleep(seconds)
            if (error := self.lose(request)) is not None:
                raise error
            return answer

        return noted


def _noted(verb: str, arguments: tuple[Any, ...]) -> Request:
    now = asyncio.get_running_loop().time()
    if verb in ("bind", "evict"):
        return Request(now, verb, "pods", arguments[1])
    resource: Resource = arguments[0]
    name = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], str) else ""
    if verb == "create" and isinstance(arguments[1], dict):
        name = arguments[1]["metadata"].get("name", "")
    return Request(now, verb, resource.plural, name)


class Cluster(NamedTuple):
    store: Store
    objects: InProcessObjects
    noted: NotedObjects
    clock: VirtualClock


def cluster(window: int | None = None) -> Cluster:
    """A store on the clock of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    clock = VirtualClock(loop)
    store = Store(clock, CountingIds()) if window is None else Store(clock, CountingIds(), window=window)
    objects = InProcessObjects(store)
    return Cluster(store, objects, NotedObjects(objects), clock)


@contextlib.asynccontextmanager
async def running(*works: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Runs them beside the test; a mistake of one of them is a mistake of the test."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
