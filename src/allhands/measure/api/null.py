"""The null scheduler: our HTTP client, and no thinking. It lists pods and nodes and binds the one to the other in turn.

What it needs is what the API server needs: the floor that every scheduler is divided by. It filters nothing and knows
no gangs, so never use it for anything else. `python -m allhands.measure.api.null KUBECONFIG SCHEDULER FLIGHT [watch]`:
with `watch` it binds what comes, each pod as soon as it sees it, instead of what is there.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from allhands.api.kinds import Resource
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.kube.transport import Settings
from allhands.ports import Query

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str
    namespace: str = ""


class _Named(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


_named = msgspec.json.Decoder(_Named)


async def bind_everything(objects: KubeObjects, scheduler_name: str, flight: int) -> None:
    """With `flight` binds under way at a time."""
    waiting = Query(fields=f"spec.nodeName=,spec.schedulerName={scheduler_name}")
    pods, nodes = await asyncio.gather(objects.list(PODS, waiting), objects.list(NODES))
    names = [_named.decode(raw).metadata.name for raw in nodes.items]
    pairs = zip((_named.decode(raw).metadata for raw in pods.items), cycle(names))
    await asyncio.gather(*(_bind_next(objects, pairs) for _ in range(flight)))


async def _bind_next(objects: KubeObjects, pairs: Iterator[tuple[_Meta, str]]) -> None:
    for pod, node in pairs:
        target = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node}}
        await objects.bind(pod.namespace, pod.name, target)


async def bind_what_comes(objects: KubeObjects, scheduler_name: str) -> None:
    """Until cancelled."""
    waiting = Query(fields=f"spec.nodeName=,spec.schedulerName={scheduler_name}")
    names = cycle([_named.decode(raw).metadata.name for raw in (await objects.list(NODES)).items])
    seen: set[str] = set()
    async with asyncio.TaskGroup() as binding:
        while True:  # a server ends a watch every few minutes
            watch = await objects.watch(PODS, waiting)
            try:
                async for event in watch:
                    pod = _named.decode(event.raw).metadata
                    if event.type == "ADDED" and pod.uid not in seen:
                        seen.add(pod.uid)
                        binding.create_task(_bind_next(objects, iter([(pod, next(names))])))
            finally:
                await watch.close()


async def run(path: str, scheduler_name: str, flight: int, *, watches: bool) -> None:
    """Binds all that wait, and stays, so that it can be looked at."""
    settings = Settings(component="null-scheduler", in_flight=flight, packed=frozenset({PODS}))
    async with KubeObjects(kubeconfig.load(Path(path)), settings=settings) as objects:
        if watches:
            await bind_what_comes(objects, scheduler_name)
        await bind_everything(objects, scheduler_name, flight)
        await asyncio.Event().wait()


def main(path: str, scheduler_name: str, flight: str, mode: str = "") -> None:
    asyncio.run(run(path, scheduler_name, int(flight), watches=mode == "watch"))


if __name__ == "__main__":
    main(*sys.argv[1:])
