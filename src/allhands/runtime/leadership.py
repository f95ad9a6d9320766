"""Leadership whose lease is renewed in a thread of its own, so that a long decision never costs it.

The thread has its own event loop and its own port; the work runs in the loop that asked. Neither touches the other but
by handing over calls. When leadership is lost the work is cancelled, and the lease is given back only when the work has
ended. In simulations there are no threads: there the plain `LeaderLease` leads in the same loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from allhands.api.definitions import MANAGED_BY, OURS, PART_OF
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.runtime.lease import LeaderLease, LeaseTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from allhands.ports import Clock, Metrics, Objects

    Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
    OpenObjects: TypeAlias = Callable[[], contextlib.AbstractAsyncContextManager[Objects]]

NAMESPACES = Resource("", "v1", "namespaces")
NOT_FOUND = 404
_LOG = logging.getLogger(__name__)


async def ensure_namespace(objects: Objects, name: str) -> None:
    """Makes the namespace that a lease lives in; one that is there is left as it is. It looks first: who was installed
    may see its namespace, and not make any."""
    try:
        await objects.get(NAMESPACES, name)
    except StatusError as refusal:
        if refusal.code != NOT_FOUND:
            raise
    else:
        return
    try:
        await objects.create(NAMESPACES, {"metadata": {"name": name, "labels": {MANAGED_BY: OURS, PART_OF: OURS}}})
    except StatusError as refusal:
        if refusal.reason != "AlreadyExists":
            raise


def counted(work: Work, metrics: Metrics, name: str) -> Work:
    """The work of a leader, with `leader_election_master_status` saying whether it runs."""
    metrics.set("leader_election_master_status", 0, name=name)

    async def leading() -> None:
        metrics.set("leader_election_master_status", 1, name=name)
        try:
            await work()
        finally:
            metrics.set("leader_election_master_status", 0, name=name)

    return leading


class ThreadedLeadership:
    """`open_objects` opens a port in the loop of the thread; it is closed there too."""

    def __init__(
        self,
        open_objects: OpenObjects,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        identity: str,
        times: LeaseTimes | None = None,
    ) -> None:
        self._open_objects = open_objects
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._times = times

    async def lead(self, work: Work) -> None:
        """Raises what the work or the thread raises."""
        handover = _Handover(asyncio.get_running_loop(), work)
        thread = threading.Thread(
            target=self._renew, args=(handover,), name=f"lease {self._namespace}/{self._name}", daemon=True
        )
        thread.start()
        try:
            await asyncio.shield(handover.thread_ended)
        finally:
            # Cancelled, the work is ended by the thread too, so that there is one way to end.
            handover.ask_thread_to_end()
            while not handover.thread_ended.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((handover.thread_ended,))
            thread.join()
            if not handover.thread_ended.cancelled():
                handover.thread_ended.exception()  # it was raised above, or nobody waits for it any more

    # -- in the thread

    def _renew(self, handover: _Handover) -> None:
        mistake: BaseException | None = None
        try:
            asyncio.run(self._lead(handover))
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            mistake = error
        handover.tell_thread_ended(mistake)

    async def _lead(self, handover: _Handover) -> None:
        if not handover.thread_begins():
            return
        async with self._open_objects() as objects:

            async def make_room() -> None:
                with contextlib.suppress(StatusError):  # who may not make it may still be able to use it
                    await ensure_namespace(objects, self._namespace)

            lease = LeaderLease(
                objects,
                self._clock,
                name=self._name,
                namespace=self._namespace,
                identity=self._identity,
                times=self._times,
                make_room=make_room,
            )
            await lease.lead(handover.work_elsewhere)


class _Handover:
    """Between the two loops. Each method says which of them calls it."""

    def __init__(self, home: asyncio.AbstractEventLoop, work: Work) -> None:
        self._home = home
        self._work = work
        self.thread_ended: asyncio.Future[None] = home.create_future()
        self._lock = threading.Lock()
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._thread_task: asyncio.Task[Any] | None = None
        self._is_over = False

    # -- called at home

    def ask_thread_to_end(self) -> None:
        with self._lock:
            self._is_over = True
            if self._thread_loop is not None and self._thread_task is not None:
                with contextlib.suppress(RuntimeError):  # its loop has closed already
                    self._thread_loop.call_soon_threadsafe(self._thread_task.cancel)

    # -- called in the thread

    def thread_begins(self) -> bool:
        """False if it is over already."""
        with self._lock:
            self._thread_loop = asyncio.get_running_loop()
            self._thread_task = asyncio.current_task()
            return not self._is_over

    def tell_thread_ended(self, mistake: BaseException | None) -> None:
        def note() -> None:
            if mistake is None:
                self.thread_ended.set_result(None)
            else:
                self.thread_ended.set_exception(mistake)

        with contextlib.suppress(RuntimeError):  # nobody is at home any more
            self._home.call_soon_threadsafe(note)

    async def work_elsewhere(self) -> None:
        """Runs the work at home; cancelled, it cancels it there and returns when it has ended."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        working: list[asyncio.Task[None]] = []
        here = asyncio.get_running_loop()

        def settle(mistake: BaseException | None) -> None:
            if not ended.done():
                ended.set_exception(mistake) if mistake is not None else ended.set_result(None)

        def done(task: asyncio.Task[None]) -> None:
            mistake = None if task.cancelled() else task.exception()
            with contextlib.suppress(RuntimeError):
                here.call_soon_threadsafe(settle, mistake)

        def begin() -> None:
            task = self._home.create_task(self._work(), name="leading")
            working.append(task)
            task.add_done_callback(done)

        def stop() -> None:
            for task in working:
                task.cancel()

        self._home.call_soon_threadsafe(begin)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._home.call_soon_threadsafe(stop)
            while not ended.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((ended,))
            if not ended.cancelled() and (mistake := ended.exception()) is not None:
                raise mistake from None
            raise
