"""An informer over HTTP shows what is there and what happens, on both servers, by streamed and by paged lists."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import Query
from allhands.runtime.informer import PAGE_SIZE, Informer
from tests.manifests import CONFIG_MAPS, NAMESPACES, config_map

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from allhands.compose.embedded import EmbeddedCluster
    from tests.controlplane import ControlPlane

PATIENCE_SECONDS = 120
COUNT = PAGE_SIZE + 10


class Paging(KubeObjects):
    """As if the server could not stream lists."""

    streams_lists = False


@pytest.fixture(params=["embedded_cluster", "control_plane"])
async def filled(request: pytest.FixtureRequest) -> AsyncIterator[tuple[KubeObjects, KubeObjects, str]]:
    cluster: EmbeddedCluster | ControlPlane = request.getfixturevalue(request.param)
    access, namespace = kubeconfig.load(cluster.kubeconfig), f"informed-{os.urandom(4).hex()}"
    async with KubeObjects(access) as streaming, Paging(access) as paging:
        await streaming.create(NAMESPACES, {"metadata": {"name": namespace}})
        await asyncio.gather(
            *(streaming.create(CONFIG_MAPS, config_map(f"c{it:04d}"), namespace) for it in range(COUNT))
        )
        yield streaming, paging, namespace


async def test_streamed_and_paged_lists_show_the_same_and_go_on(
    filled: tuple[KubeObjects, KubeObjects, str],
) -> None:
    streaming, paging, namespace = filled
    query = Query(namespace=namespace, labels="!no")
    informers: list[Informer[Any]] = [
        Informer(client, CONFIG_MAPS, msgspec.json.decode, query=query) for client in (streaming, paging)
    ]
    told: list[asyncio.Queue[tuple[str, Any]]] = [asyncio.Queue() for _ in informers]
    running = [asyncio.create_task(informer.run()) for informer in informers]
    async with asyncio.timeout(PATIENCE_SECONDS):
        for informer, heard in zip(informers, told, strict=True):
            await informer.synced.wait()
            informer.on_change(_telling(heard))
        streamed, paged = ({_without_kind(it) for it in informer.all()} for informer in informers)
        assert streamed == paged
        assert len(streamed) >= COUNT
        await streaming.create(CONFIG_MAPS, config_map("later"), namespace)
        await streaming.delete(CONFIG_MAPS, "c0000", namespace)
        for heard in told:
            key, after = await heard.get()
            assert (key, after["metadata"]["name"]) == (f"{namespace}/later", "later")
            assert await heard.get() == (f"{namespace}/c0000", None)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _telling(heard: asyncio.Queue[tuple[str, Any]]) -> Callable[[str, Any, Any], None]:
    return lambda key, _, after: heard.put_nowait((key, after))


def _without_kind(manifest: dict[str, Any]) -> bytes:
    """Items of lists may lack them."""
    return msgspec.json.encode({name: it for name, it in manifest.items() if name not in ("apiVersion", "kind")})
