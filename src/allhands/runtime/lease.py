"""Leadership by a Lease of the API: at most one leads, and one that cannot renew in time stops by itself.

Whether another's lease has run out is judged by how long *we* have not seen it change, not by its time stamps: clocks
differ. A leader that ends hands the lease back, so that the next one need not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import math
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from allhands.api.document import Manifest
    from allhands.ports import Clock, Objects

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases")
CONFLICT, NOT_FOUND = 409, 404
_LOG = logging.getLogger(__name__)


class LeaseTimes(msgspec.Struct, frozen=True):
    """As Kubernetes' own parts have them by default."""

    duration_seconds: float = 15.0
    give_up_seconds: float = 10.0
    """A leader that has not renewed for so long stops leading."""
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.give_up_seconds < self.duration_seconds:
            raise ValueError(
                f"lease: it must be retried ({self.retry_seconds} s) sooner than it is given up "
                f"({self.give_up_seconds} s), and that sooner than it runs out ({self.duration_seconds} s)"
            )


class LeaderLease:
    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        identity: str,
        times: LeaseTimes | None = None,
        make_room: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`make_room` is called before the lease is made: its namespace may not be there yet, or not any more."""
        self._objects = objects
        self._make_room = make_room
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._times = times or LeaseTimes()
        self._seen: tuple[str, float] = ("", 0.0)
        """The version of the lease that was seen last, and when it was first seen."""
        self._is_taken = False
        """Whether the last answer was that somebody else has it."""
        self.is_leading = False

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs the work whenever it leads, until cancelled. Work is cancelled when leadership is lost."""
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            while not await self._try(self._times.give_up_seconds):
                await asyncio.sleep(self._times.retry_seconds)
                asked_at = loop.time()
            self.is_leading = True
            _LOG.info("%s leads %s/%s", self._identity, self._namespace, self._name)
            working = asyncio.create_task(work(), name=f"leader of {self._name}")
            try:
                await self._renew_while(working, asked_at)
            finally:
                self.is_leading = False
                working.cancel()
                await asyncio.wait((working,))
                await self._hand_back()
            if not working.cancelled() and (mistake := working.exception()) is not None:
                raise mistake

    async def _renew_while(self, working: asyncio.Task[None], renewed_at: float) -> None:
        """`renewed_at` is when we asked for what was granted: nobody can have seen it earlier, so nobody thinks that
        it has run out before we do."""
        loop = asyncio.get_running_loop()
        while not working.done():
            left = renewed_at + self._times.give_up_seconds - loop.time()
            await asyncio.wait((working,), timeout=max(0.0, min(self._times.retry_seconds, left)))
            asked_at = loop.time()
            left = renewed_at + self._times.give_up_seconds - asked_at
            if left <= 0:
                _LOG.warning("%s could not renew its lease in time and stops leading", self._identity)
                return
            if not working.done() and await self._try(left):
                renewed_at = asked_at
            elif self._is_taken:
                _LOG.warning("%s has lost its lease to another and stops leading", self._identity)
                return

    async def _try(self, within_seconds: float) -> bool:
        """Takes or renews the lease; False if somebody else has it, or nobody can be asked."""
        self._is_taken = False
        try:
            async with asyncio.timeout(within_seconds):
                return await self._take()
        except (StatusError, TimeoutError) as refusal:
            _LOG.info("lease %s/%s: %s", self._namespace, self._name, refusal)
            return False

    async def _take(self) -> bool:
        try:
            lease = (await self._objects.get(LEASES, self._name, self._namespace)).manifest()
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            if self._make_room is not None:
                await self._make_room()
            spec = self._spec(0, None)
            metadata = {"name": self._name, "namespace": self._namespace}
            await self._objects.create(LEASES, {"metadata": metadata, "spec": spec}, self._namespace)
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        version = lease["metadata"]["resourceVersion"]
        now = asyncio.get_running_loop().time()
        if version != self._seen[0]:
            self._seen = (version, now)
        lasts = float(spec.get("leaseDurationSeconds") or self._times.duration_seconds)
        if holder not in ("", self._identity) and (now - self._seen[1] < lasts or self.is_leading):
            self._is_taken = True
            return False
        changes = int(spec.get("leaseTransitions") or 0) + (holder != self._identity)
        lease["spec"] = self._spec(changes, spec.get("acquireTime") if holder == self._identity else None)
        await self._objects.update(LEASES, self._name, lease, self._namespace)
        return True

    def _spec(self, changes: int, acquired: str | None, *, lasts: int | None = None) -> Manifest:
        now = self._clock.now().astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": lasts or math.ceil(self._times.duration_seconds),
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": changes,
        }

    async def _hand_back(self) -> None:
        """Best effort: if it fails, the others wait until it runs out."""
        with contextlib.suppress(StatusError, TimeoutError):
            async with asyncio.timeout(1):
                lease = (await self._objects.get(LEASES, self._name, self._namespace)).manifest()
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") == self._identity:
                    lease["spec"] = self._spec(int(spec.get("leaseTransitions") or 0), None, lasts=1)
                    lease["spec"]["holderIdentity"] = ""
                    await self._objects.update(LEASES, self._name, lease, self._namespace)
