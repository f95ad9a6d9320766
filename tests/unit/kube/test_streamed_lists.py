"""What is there comes as the beginning of the watch; where the server does not do that, or breaks off, all is seen
all the same."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.kube.retrying import Patience
from allhands.kube.transport import Settings
from allhands.ports import Query
from allhands.runtime.informer import FIRST_PAGE, PAGE_SIZE, Informer
from tests import faulty_proxy
from tests.embedded import EmbeddedInThread
from tests.faulty_proxy import FaultyProxy, Request
from tests.manifests import CONFIG_MAPS, config_map

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from allhands.kube.access import Access

QUICK = Settings(patience=Patience(first_seconds=0.001, most_seconds=0.002))
COUNT = PAGE_SIZE + 20
NAMES = {f"default/c{number:04d}" for number in range(COUNT)}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with EmbeddedInThread(tmp_path_factory.mktemp("cluster")) as cluster:
        access = kubeconfig.load(cluster.kubeconfig)
        asyncio.run(_fill(access))
        yield access


async def _fill(access: Access) -> None:
    async with KubeObjects(access) as client:
        for number in range(COUNT):
            await client.create(CONFIG_MAPS, config_map(f"c{number:04d}"), "default")


@pytest.fixture
async def proxy(upstream: Access) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(upstream) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def informed(
    proxy: FaultyProxy, *, is_early: bool = False, in_pages: bool = False
) -> AsyncIterator[tuple[KubeObjects, Informer[Any]]]:
    """`is_early`: everything was asked for before."""
    async with KubeObjects(proxy.access, settings=QUICK) as client:
        query = Query() if is_early else Query(namespace="default")
        informer: Informer[Any] = Informer(client, CONFIG_MAPS, msgspec.json.decode, query=query, in_pages=in_pages)
        if is_early and in_pages:
            client.list_early(CONFIG_MAPS, FIRST_PAGE)
        elif is_early:
            client.watch_early([CONFIG_MAPS])
        running = asyncio.create_task(informer.run())
        try:
            async with asyncio.timeout(60):
                await informer.synced.wait()
                yield client, informer
        finally:
            running.cancel()
            await asyncio.wait((running,))


async def change(client: KubeObjects, informer: Informer[Any]) -> None:
    """Something happens, and the informer sees it."""
    told: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
    informer.on_change(lambda key, _, after: told.put_nowait((key, after is not None)))
    await client.create(CONFIG_MAPS, config_map("later"), "default")
    assert await told.get() == ("default/later", True)
    await client.delete(CONFIG_MAPS, "later", "default")
    assert await told.get() == ("default/later", False)


def is_watch(request: Request) -> bool:
    return "watch=true" in request.path


async def test_one_request_shows_what_is_there_and_what_happens(proxy: FaultyProxy) -> None:
    async with informed(proxy) as (client, informer):
        assert set(informer.keys()) == NAMES
        await change(client, informer)
    assert [is_watch(it) for it in proxy.seen] == [True, False, False]
    assert "sendInitialEvents=true" in proxy.seen[0].path
    assert "resourceVersionMatch=NotOlderThan" in proxy.seen[0].path
    assert "allowWatchBookmarks=true" in proxy.seen[0].path


async def test_what_was_asked_for_early_is_not_asked_for_again(proxy: FaultyProxy) -> None:
    async with informed(proxy, is_early=True) as (client, informer):
        assert set(informer.keys()) >= NAMES
        await change(client, informer)
    assert [is_watch(it) for it in proxy.seen] == [True, False, False]


async def test_a_large_collection_comes_in_pages_of_which_the_first_was_asked_for_early(proxy: FaultyProxy) -> None:
    async with informed(proxy, is_early=True, in_pages=True) as (client, informer):
        assert set(informer.keys()) >= NAMES
        await change(client, informer)
    first, second, *others = proxy.seen
    assert f"limit={PAGE_SIZE}" in first.path
    assert "continue=" in second.path
    assert not any("limit=" in it.path or "sendInitialEvents" in it.path for it in others)


async def test_an_early_page_that_is_refused_is_asked_for_again(proxy: FaultyProxy) -> None:
    proxy.upset(faulty_proxy.status(403, "Forbidden"))
    async with informed(proxy, is_early=True, in_pages=True) as (client, informer):
        assert set(informer.keys()) >= NAMES
        await change(client, informer)


async def test_pages_that_expire_while_the_one_before_is_looked_at_are_replaced_too(proxy: FaultyProxy) -> None:
    proxy.upset(faulty_proxy.Exchange.pass_on, faulty_proxy.status(410, "Expired"))
    async with informed(proxy, in_pages=True) as (client, informer):
        assert set(informer.keys()) == NAMES
        await change(client, informer)
    assert "limit=" not in proxy.seen[2].path


async def test_an_older_server_that_was_asked_early_is_asked_for_pages(proxy: FaultyProxy) -> None:
    proxy.upset(faulty_proxy.status(422, "Invalid", "sendInitialEvents is forbidden for watch"))
    async with informed(proxy, is_early=True) as (client, informer):
        assert set(informer.keys()) >= NAMES
        await change(client, informer)
    refused, first, *_ = proxy.seen
    assert is_watch(refused)
    assert f"limit={PAGE_SIZE}" in first.path


async def test_an_older_server_is_asked_for_pages(proxy: FaultyProxy) -> None:
    why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    proxy.upset(faulty_proxy.status(422, "Invalid", why))
    async with informed(proxy) as (client, informer):
        assert set(informer.keys()) == NAMES
        await change(client, informer)
    refused, first, second, *others = proxy.seen
    assert is_watch(refused)
    assert f"limit={PAGE_SIZE}" in first.path
    assert "continue=" in second.path
    watch = next(it for it in others if is_watch(it))
    assert "sendInitialEvents" not in watch.path


async def test_pages_that_expire_halfway_are_replaced_by_one_list(proxy: FaultyProxy) -> None:
    refuse = faulty_proxy.status(422, "Invalid")
    expired = faulty_proxy.status(410, "Expired", "The provided continue parameter is too old")
    proxy.upset(refuse, faulty_proxy.Exchange.pass_on, expired)
    async with informed(proxy) as (client, informer):
        assert set(informer.keys()) == NAMES
        await change(client, informer)
    assert "continue=" in proxy.seen[2].path
    assert "limit=" not in proxy.seen[3].path


async def test_a_stream_that_breaks_off_begins_again(proxy: FaultyProxy) -> None:
    async def break_off(exchange: faulty_proxy.Exchange) -> None:
        async with proxy.ask(exchange.request) as answer:
            lines = [await answer.content.readline() for _ in range(COUNT // 2)]
        await exchange.begin(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        await exchange.write(faulty_proxy.chunk(b"".join(lines)[:-10]))
        exchange.reset()

    proxy.upset(break_off, break_off)
    async with informed(proxy) as (client, informer):
        assert set(informer.keys()) == NAMES
        await change(client, informer)
    assert ["sendInitialEvents" in it.path for it in proxy.seen[:3]] == [True, True, True]


async def test_after_an_expired_version_what_is_gone_is_dropped(proxy: FaultyProxy) -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}

    async def expire(exchange: faulty_proxy.Exchange) -> None:
        """All that is there, and one more that the next list does not have; then the window is past."""
        ghost = config_map("ghost") | {"metadata": {"name": "ghost", "namespace": "default", "resourceVersion": "1"}}
        async with proxy.ask(exchange.request) as answer:
            lines = [await answer.content.readline() for _ in range(COUNT + 1)]
        lines.insert(0, _event("ADDED", ghost))
        lines.append(_event("ERROR", gone))
        await exchange.begin(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        await exchange.write(faulty_proxy.chunk(b"".join(lines)))

    proxy.upset(expire)
    async with KubeObjects(proxy.access, settings=QUICK) as client:
        informer: Informer[Any] = Informer(client, CONFIG_MAPS, msgspec.json.decode, query=Query(namespace="default"))
        told: asyncio.Queue[str] = asyncio.Queue()
        informer.on_change(lambda key, before, after: told.put_nowait(key) if before and not after else None)
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(60):
            assert await told.get() == "default/ghost"
        assert set(informer.keys()) == NAMES
        running.cancel()
        await asyncio.wait((running,))


def _event(kind: str, document: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"
