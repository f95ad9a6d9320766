"""Signs of life: each node's Lease is renewed, and its Ready condition is set right when it is not true.

Thousands of nodes share a fixed number of renewals a second: with more of them each renews less often, and its Lease
says for how much longer to trust it. A dead node is simply not renewed; nothing here announces a death.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.agents.agent import LEASE_NAMESPACE, LEASES, NODES
from allhands.api.errors import StatusError
from allhands.runtime.workqueue import WorkQueue, serve

if TYPE_CHECKING:
    from allhands.agents.seen import NodeSeen
    from allhands.agents.time_texts import TimeTexts
    from allhands.ports import Objects

NOT_FOUND: Final = 404
BEATS_PER_TURN: Final = 32
STEP_SECONDS: Final = 1.0


class HeartbeatPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A kubelet renews every 10 seconds and is trusted for 40."""

    least_interval_seconds: float = 10.0
    most_per_second: float = 20.0
    """Renewals of all nodes together."""
    trusted_intervals: int = 4
    """How many intervals may pass without a renewal until the node counts as gone."""

    def interval_seconds(self, nodes: int) -> float:
        return max(self.least_interval_seconds, nodes / self.most_per_second)


class BeatingNodes(Protocol):
    """Whose hearts are to beat."""

    def __len__(self) -> int: ...

    def living(self, name: str) -> NodeSeen | None:
        """The node, if it is there and not dead."""


class Heartbeats:
    def __init__(self, objects: Objects, texts: TimeTexts, nodes: BeatingNodes, policy: HeartbeatPolicy) -> None:
        self._objects = objects
        self._texts = texts
        self._nodes = nodes
        self._policy = policy
        self._queue = WorkQueue()
        self._leased: set[str] = set()

    def beat_now(self, name: str) -> None:
        """Sees to this node soon; it goes on by itself."""
        self._queue.add(name)

    async def run(self) -> None:
        await serve(self._queue, self._beat, "heartbeat of", per_turn=BEATS_PER_TURN)

    async def _beat(self, name: str) -> None:
        node = self._nodes.living(name)
        if node is None:
            self._leased.discard(name)
            return
        interval = self._policy.interval_seconds(len(self._nodes))
        first = name not in self._leased
        await self._renew(node, interval)
        if not node.is_ready:
            await self._report_ready(node)
        # Spread over the interval by name, so that nodes that came together do not beat together.
        share = (zlib.crc32(name.encode()) + 1) / 2**32 if first else 1.0
        # In whole steps, so that a thousand nodes do not wake the process a thousand times.
        now = asyncio.get_running_loop().time()
        due = math.floor((now + interval * share) / STEP_SECONDS) * STEP_SECONDS
        self._queue.add_after(name, max(due - now, min(STEP_SECONDS, interval)))

    async def _renew(self, node: NodeSeen, interval: float) -> None:
        spec = {
            "holderIdentity": node.name,
            "leaseDurationSeconds": max(1, round(interval * self._policy.trusted_intervals)),
            "renewTime": self._texts.precise(),
        }
        try:
            await self._objects.patch(LEASES, node.name, "merge", {"spec": spec}, LEASE_NAMESPACE)
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            metadata = {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._objects.create(LEASES, lease, LEASE_NAMESPACE)
        self._leased.add(node.name)

    async def _report_ready(self, node: NodeSeen) -> None:
        now = self._texts.now()
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the node agent is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        patch = {"status": {"conditions": [ready]}}
        await self._objects.patch(NODES, node.name, "strategic", patch, subresource="status")
