"""A client that is left has let go of every socket, whatever its requests were doing."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.kube import kubeconfig
from allhands.kube.log_stream import LogStream
from allhands.kube.objects import KubeObjects
from allhands.ports import EVERYTHING
from tests.embedded import EmbeddedInThread
from tests.faulty_proxy import Exchange, FaultyProxy, chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from allhands.kube.kubeconfig import Access

PODS = Resource("", "v1", "pods")


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with EmbeddedInThread(folder) as cluster:
        yield kubeconfig.load(cluster.kubeconfig)


async def _answered(client: KubeObjects) -> None:
    await asyncio.gather(*(client.list(PODS) for _ in range(5)))


async def _cancelled(client: KubeObjects) -> None:
    requests = [asyncio.ensure_future(client.list(PODS)) for _ in range(5)]
    await requests[0]
    for it in requests:
        it.cancel()
    await asyncio.gather(*requests, return_exceptions=True)


async def _watched(client: KubeObjects) -> None:
    watch = await client.watch(PODS, EVERYTHING)
    await watch.close()


@pytest.mark.parametrize("talk", [_answered, _cancelled, _watched])
def test_no_socket_outlives_the_client(
    access: Access, talk: Callable[[KubeObjects], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        async with KubeObjects(access) as client:
            await talk(client)

    assert _unclosed(main) == []


def test_no_socket_outlives_a_log_that_was_refused(access: Access) -> None:
    async def main() -> None:
        async with LogStream(access) as stream:
            with pytest.raises(StatusError):
                async for _ in stream.read("default", "absent", {}):
                    pass

    assert _unclosed(main) == []


def test_no_socket_outlives_a_watch_that_broke_and_was_not_closed(access: Access) -> None:
    """Whoever reads it to its end need not close it."""

    async def break_off(exchange: Exchange) -> None:
        await exchange.begin(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        await exchange.write(chunk(b'{"type":"BOOKMARK","object":{}}\n{"type":'))
        exchange.reset()

    async def main() -> None:
        async with FaultyProxy(access) as proxy, KubeObjects(proxy.access) as client:
            proxy.upset(break_off)
            watch = await client.watch(PODS, EVERYTHING)
            assert [event.type async for event in watch] == ["BOOKMARK"]

    assert _unclosed(main) == []


def _unclosed(main: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(main())
        gc.collect()
    return [str(it.message) for it in seen if issubclass(it.category, ResourceWarning)]
