"""The same story on two real API servers, with Kubernetes' own controllers and with ours: both must end up the same."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.kinds import Resource
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.node import NODES
from allhands.lifecycle.volume_kinds import VOLUMES
from allhands.ports import Objects, Query
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from tests import pod_life

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from allhands.api.document import Manifest
    from tests.controlplane import ControlPlane

NAMESPACES = Resource("", "v1", "namespaces")
PATIENCE_SECONDS = 25.0


class SystemClock:
    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class Place:
    """A namespace on one of the two servers."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self.objects = objects
        self.namespace = namespace

    async def create(self, resource: Resource, manifest: Manifest) -> None:
        await self.objects.create(resource, manifest, self.namespace)

    async def patch(self, resource: Resource, name: str, patch: Manifest, subresource: str = "") -> None:
        await self.objects.patch(resource, name, "merge", patch, self.namespace, subresource=subresource)

    async def all(self, resource: Resource) -> list[Manifest]:
        query = Query(namespace="" if resource in (VOLUMES, NODES) else self.namespace)
        page = await self.objects.list(resource, query)
        return [msgspec.json.decode(item) for item in page.items]

    async def live(self) -> None:
        """Pods live on their own."""
        while True:
            await pod_life.step(self.objects, _now(), self.namespace)
            await asyncio.sleep(0.05)


def _now() -> str:
    return SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions_of(document: Manifest) -> list[tuple[str, str, str]]:
    conditions = document.get("status", {}).get("conditions", ())
    return sorted((it["type"], it["status"], it.get("reason", "")) for it in conditions)


def counts_of(document: Manifest) -> dict[str, int]:
    status = document.get("status", {})
    counts = {key: value for key, value in status.items() if isinstance(value, int) and value}
    observed = counts.pop("observedGeneration", 0)
    return {**counts, "behind": document["metadata"].get("generation", 0) - observed}


@contextlib.asynccontextmanager
async def _living(plane: ControlPlane, ours: Callable[[Objects], list[Any]] | None) -> AsyncIterator[Place]:
    namespace = f"like-{os.urandom(3).hex()}"
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        await objects.create(NAMESPACES, {"metadata": {"name": namespace}})
        place = Place(objects, namespace)
        tasks = [asyncio.create_task(place.live())]
        if ours is not None:
            clock = SystemClock()
            recorder = Recorder(objects, clock, "test")
            performer = Performer(objects, recorder, flight=4)
            tasks.append(asyncio.create_task(recorder.run()))
            tasks += [asyncio.create_task(ControllerLoop(it, performer, clock).run()) for it in ours(objects)]
        try:
            yield place
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _agree(
    one: Place, other: Place, seen_at: Callable[[Place], Awaitable[dict[str, Any]]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both states, once they are equal and stay so, or when patience is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_SECONDS
    last: dict[str, Any] = {}
    while True:
        seen, also = await seen_at(one), await seen_at(other)
        if (seen == also == last) or loop.time() > end:
            return seen, also
        last = seen
        await asyncio.sleep(0.3)


async def assert_alike(
    theirs: ControlPlane,
    ours: ControlPlane,
    controllers: Callable[[Objects], list[Any]],
    story: Sequence[Callable[[Place], Awaitable[None]]],
    seen_at: Callable[[Place], Awaitable[dict[str, Any]]],
) -> None:
    """After each move of the story. `seen_at` tells the state without what differs from server to server."""
    async with _living(theirs, None) as their_place, _living(ours, controllers) as our_place:
        wanted: dict[str, Any] = {}
        for move in story:
            await move(their_place)
            await move(our_place)
            seen, wanted = await _agree(our_place, their_place, seen_at)
            for part in wanted:
                told = f"{part} after {move.__name__}: ours {seen[part]}, theirs {wanted[part]}"
                assert seen[part] == wanted[part], told
        assert all(wanted.values()), "the story leaves a part of the comparison empty"
