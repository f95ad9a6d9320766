"""The shell around a lifecycle machine: events become keys, keys are looked at, instructions are carried out.

A controller says which informers it needs, which key an event belongs to, and what its machine decides for a key. One
key is never worked on twice at a time, and one that fails is tried again later without stopping the others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from allhands.api.errors import StatusError
from allhands.runtime.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.lifecycle.instructions import Outcome
    from allhands.ports import Clock, Metrics
    from allhands.runtime.informer import Informer
    from allhands.runtime.performer import Performer

LOOKS_PER_TURN: Final = 32
_LOG = logging.getLogger(__name__)


class Controller(Protocol):
    """`informers` are run by the shell, the one that it is there for first; `wire` connects them to keys."""

    @property
    def name(self) -> str: ...

    @property
    def informers(self) -> Sequence[Informer[Any]]: ...

    def wire(self, queue: WorkQueue) -> None: ...

    def reconcile(self, key: str, now_seconds: float) -> Outcome: ...


@runtime_checkable
class Hearing(Protocol):
    """A controller that wants to know how carrying out went, e.g. to show a refusal in a status."""

    def heard(self, key: str, refusal: StatusError | None) -> None: ...


@runtime_checkable
class Working(Protocol):
    """A controller that has something of its own to run beside, e.g. to ask what machines want to know."""

    async def run_beside(self) -> None: ...


class ControllerLoop:
    """Runs one controller until cancelled."""

    def __init__(
        self,
        controller: Controller,
        performer: Performer,
        clock: Clock,
        *,
        workers: int = 1,
        lazy: bool = False,
        metrics: Metrics | None = None,
    ) -> None:
        """`lazy`: nothing but its first informer is run until that one shows an object."""
        self._controller = controller
        self._performer = performer
        self._clock = clock
        self._workers = workers
        self._lazy = lazy
        self.queue = WorkQueue(controller.name, metrics)
        self._listener = controller if isinstance(controller, Hearing) else None
        for informer in controller.informers:
            performer.show(informer)
        controller.wire(self.queue)

    async def run(self) -> None:
        first, *others = self._controller.informers
        async with asyncio.TaskGroup() as group:
            group.create_task(first.run(), name=f"{self._controller.name}: {first.resource.plural}")
            if self._lazy and not len(first):
                needed = asyncio.Event()
                first.on_change(lambda *_: needed.set())
                await needed.wait()
            for informer in others:
                group.create_task(informer.run(), name=f"{self._controller.name}: {informer.resource.plural}")
            for informer in (first, *others):
                await informer.synced.wait()
            if isinstance(self._controller, Working):
                group.create_task(self._controller.run_beside(), name=f"{self._controller.name}: beside")
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self._controller.name} worker {number}")

    async def _work(self) -> None:
        looks = 0
        while True:
            key = await self.queue.take()
            try:
                await self.look(key)
            finally:
                self.queue.done(key)
            looks += 1
            if looks % LOOKS_PER_TURN == 0:
                # Where neither taking nor looking waits for anything, others would never get their turn.
                await asyncio.sleep(0)

    async def look(self, key: str) -> None:
        """Looks at one key and does what is to be done; a failure is for later."""
        now = self._clock.now().timestamp()
        listener = self._listener
        try:
            outcome = self._controller.reconcile(key, now)
            await self._performer.perform(outcome.instructions)
        except StatusError as refusal:
            if listener is not None:
                listener.heard(key, refusal)
            pause = self.queue.retry(key)
            _LOG.info("%s: %s: %s; again in %g s", self._controller.name, key, refusal.message, pause)
        except Exception:
            # One object that the machine cannot handle must not end the work on all others.
            pause = self.queue.retry(key)
            _LOG.exception("%s: failed at %s; again in %g s", self._controller.name, key, pause)
        else:
            if listener is not None:
                listener.heard(key, None)
            self.queue.succeeded(key)
            if outcome.wake_at_seconds is not None:
                self.queue.add_after(key, max(0.001, outcome.wake_at_seconds - now), hurried=outcome.is_hurried)
