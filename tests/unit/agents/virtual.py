"""A small cluster on virtual time for tests of agents: a store, nodes, pods, and questions about them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from allhands.ports import DeleteOptions
from allhands.sim.virtual_time import VirtualClock, VirtualTimeLoop, run_virtually
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds
from tests.manifests import NODES, PODS, pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.agents.agent import NodeAgent
    from allhands.ports import Objects

T = TypeVar("T")
Manifest = dict[str, Any]


class World:
    """What a test sees of the cluster."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.clock = VirtualClock(loop)
        self.store = Store(self.clock, CountingIds())
        self.objects: Objects = InProcessObjects(self.store)
        self.agents: dict[int, asyncio.Task[None]] = {}

    def start(self, agent: NodeAgent) -> None:
        self.agents[id(agent)] = asyncio.create_task(agent.run())

    async def stop(self, agent: NodeAgent) -> None:
        task = self.agents.pop(id(agent))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def add_node(
        self, name: str, *, cpu: str = "8", memory: str = "32Gi", pods: str = "110", **more: Any
    ) -> None:
        room = {"cpu": cpu, "memory": memory, "pods": pods}
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        metadata = {"name": name, "labels": more.pop("labels", {})}
        await self.objects.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": more})
        await self.objects.patch(NODES, name, "merge", {"spec": {"taints": more.get("taints")}})
        await self.objects.patch(NODES, name, "merge", {"status": status}, subresource="status")

    async def add_pod(self, name: str, node: str = "n1", said: dict[str, str] | None = None, **spec: Any) -> None:
        manifest = pod(name, nodeName=node, **{"restartPolicy": "Never", **spec})
        if said:
            manifest["metadata"]["annotations"] = {f"sim.allhands.dev/{key}": value for key, value in said.items()}
        await self.objects.create(PODS, manifest, "default")

    async def pod(self, name: str) -> Manifest:
        return (await self.objects.get(PODS, name, "default")).manifest()

    async def status(self, name: str) -> Manifest:
        status: Manifest = (await self.pod(name)).get("status", {})
        return status

    async def phase(self, name: str) -> str:
        phase: str = (await self.status(name)).get("phase", "")
        return phase

    async def delete_pod(self, name: str, grace_seconds: int | None = None) -> None:
        await self.objects.delete(PODS, name, "default", DeleteOptions(grace_seconds=grace_seconds))

    async def pod_names(self) -> list[str]:
        page = await self.objects.list(PODS)
        return [msgspec.json.decode(raw)["metadata"]["name"] for raw in page.items]


def in_virtual_time(story: Callable[[World], Awaitable[T]]) -> T:
    """Runs a story in a world of its own."""
    loop = VirtualTimeLoop()

    async def main() -> T:
        return await story(World(loop))

    return run_virtually(loop, main())
