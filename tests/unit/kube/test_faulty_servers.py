"""Through a proxy that goes wrong: reads arrive in the end, writes are done once or told apart, nothing fills up."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import StatusError
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.kube.paths import asked, path_to
from allhands.kube.retrying import IMPATIENT, Patience
from allhands.kube.transport import Limits, Settings, Transport
from allhands.kube.watching import KubeWatch
from allhands.kube.wire_stream import WireStream
from allhands.ports import Query
from tests import faulty_proxy
from tests.embedded import EmbeddedInThread
from tests.faulty_proxy import (
    FaultyProxy,
    busy,
    cut_the_answer,
    delay,
    drop_the_answer,
    never_end,
    page,
    reset_before_asking,
    say_nothing,
)
from tests.manifests import CONFIG_MAPS, config_map

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from allhands.kube.access import Access

QUICK = Settings(
    patience=Patience(first_seconds=0.001, most_seconds=0.002),
    limits=Limits(answer_bytes=4 * 1024 * 1024, event_bytes=1024 * 1024),
)
IN_TIME = 30.0


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with EmbeddedInThread(tmp_path_factory.mktemp("cluster")) as cluster:
        yield kubeconfig.load(cluster.kubeconfig)


@pytest.fixture
async def proxy(upstream: Access) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(upstream) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultyProxy) -> AsyncIterator[KubeObjects]:
    transport = Transport(proxy.access, QUICK, chance=random.Random(1))
    async with KubeObjects(proxy.access, transport=transport) as client, asyncio.timeout(IN_TIME):
        yield client


@pytest.fixture(autouse=True)
async def nothing_is_left(upstream: Access) -> AsyncIterator[None]:
    yield
    async with KubeObjects(upstream) as direct:
        await direct.delete_all(CONFIG_MAPS, Query(namespace="default"))


async def refused(awaitable: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


async def names(client: KubeObjects) -> list[str]:
    page = await client.list(CONFIG_MAPS, Query(namespace="default"))
    return [item.partition(b'"name":"')[2].partition(b'"')[0].decode() for item in page.items]


@pytest.mark.parametrize(
    "fault",
    [
        reset_before_asking,
        drop_the_answer,
        cut_the_answer,
        busy(429),
        busy(503),
        busy(500),
        busy(502, retry_after=None),
        busy(503, retry_after=None),
        page(504),
    ],
)
async def test_a_read_is_repeated_until_it_is_answered(
    client: KubeObjects, proxy: FaultyProxy, fault: faulty_proxy.Fault
) -> None:
    await client.create(CONFIG_MAPS, config_map("a"), "default")
    proxy.upset(fault, fault, fault)
    assert await names(client) == ["a"]
    assert proxy.is_honest


async def test_a_read_is_not_repeated_for_ever(client: KubeObjects, proxy: FaultyProxy) -> None:
    proxy.upset(*[reset_before_asking] * 50)
    gone = await refused(names(client))
    assert (gone.code, gone.reason, len(proxy.seen)) == (503, "ServiceUnavailable", 5)
    assert not gone.may_have_happened


@pytest.mark.parametrize("fault", [busy(429), busy(503)])
async def test_a_write_that_was_turned_away_is_done_once(
    client: KubeObjects, proxy: FaultyProxy, fault: faulty_proxy.Fault
) -> None:
    proxy.upset(fault, fault)
    await client.create(CONFIG_MAPS, config_map("a"), "default")
    assert await names(client) == ["a"]


@pytest.mark.parametrize(
    ("fault", "is_done"),
    [
        (reset_before_asking, False),
        (drop_the_answer, True),
        (cut_the_answer, True),
        (busy(500), False),
        (busy(502, retry_after=None), False),
        (busy(504, retry_after=None), False),
        (page(200), False),
    ],
)
async def test_a_write_whose_answer_is_lost_is_told_apart_and_never_repeated(
    client: KubeObjects, proxy: FaultyProxy, fault: faulty_proxy.Fault, is_done: bool
) -> None:
    proxy.upset(fault)
    unknown = await refused(client.create(CONFIG_MAPS, config_map("a"), "default"))
    assert unknown.may_have_happened
    assert len(proxy.seen) == 1
    assert await names(client) == (["a"] if is_done else [])


@pytest.mark.parametrize("method", ["update", "delete"])
async def test_also_what_could_be_repeated_is_not_repeated_behind_our_back(
    client: KubeObjects, proxy: FaultyProxy, method: str
) -> None:
    made = (await client.create(CONFIG_MAPS, config_map("a"), "default")).manifest()
    proxy.upset(drop_the_answer)
    if method == "update":
        unknown = await refused(client.update(CONFIG_MAPS, "a", made | {"data": {"k": "v"}}, "default"))
    else:
        unknown = await refused(client.delete(CONFIG_MAPS, "a", "default"))
    assert unknown.may_have_happened
    assert len(proxy.seen) == 2


async def test_a_write_that_could_not_be_sent_is_known_not_to_have_happened(upstream: Access) -> None:
    async with FaultyProxy(upstream) as proxy:
        nowhere = proxy.access
    async with KubeObjects(nowhere, settings=QUICK) as client:
        error = await refused(client.create(CONFIG_MAPS, config_map("a"), "default"))
    assert (error.code, error.reason, error.may_have_happened) == (503, "ServiceUnavailable", False)
    assert error.message == f"{nowhere.server} cannot be reached: Connection refused"


async def test_a_server_that_is_not_there_yet_is_waited_for(upstream: Access) -> None:
    async with FaultyProxy(upstream) as proxy:
        access = proxy.access
    port = int(access.server.rpartition(":")[2])
    patience = Patience(attempts=1000, first_seconds=0.01, most_seconds=0.05)
    async with KubeObjects(access, settings=Settings(patience=patience)) as client, asyncio.timeout(IN_TIME):
        asking = asyncio.ensure_future(client.create(CONFIG_MAPS, config_map("a"), "default"))
        await asyncio.sleep(0)
        async with FaultyProxy(upstream, port) as proxy:
            await asking
            assert len(proxy.seen) == 1


async def test_as_long_is_waited_as_the_server_asks_for(client: KubeObjects, proxy: FaultyProxy) -> None:
    loop = asyncio.get_running_loop()
    proxy.upset(busy(429, retry_after="1"))
    began = loop.time()
    await client.create(CONFIG_MAPS, config_map("a"), "default")
    assert loop.time() - began >= 1


async def test_who_is_asked_to_wait_too_long_is_told_at_once(client: KubeObjects, proxy: FaultyProxy) -> None:
    proxy.upset(busy(429, retry_after="3600"))
    error = await refused(client.create(CONFIG_MAPS, config_map("a"), "default"))
    assert (error.code, error.retry_after_seconds, error.may_have_happened) == (429, 3600, False)


async def test_a_refused_eviction_is_an_answer_and_not_a_busy_server(client: KubeObjects, proxy: FaultyProxy) -> None:
    causes = [{"reason": "DisruptionBudget", "message": "needs 1"}]
    proxy.upset(faulty_proxy.status(429, "TooManyRequests", retryAfterSeconds=10, causes=causes))
    error = await refused(client.evict("default", "a", {}))
    assert (error.code, len(proxy.seen)) == (429, 1)


async def test_a_login_page_is_not_taken_for_the_api(client: KubeObjects, proxy: FaultyProxy) -> None:
    proxy.upset(page(200))
    error = await refused(names(client))
    assert (error.code, len(proxy.seen)) == (502, 1)
    assert "does not speak the Kubernetes API: it answered with text/html" in error.message
    assert error.message.endswith(": Log in")
    proxy.upset(page(200))
    assert (await refused(client.watch(CONFIG_MAPS))).code == 502


async def test_a_refusal_without_a_status_is_shown_in_words(client: KubeObjects, proxy: FaultyProxy) -> None:
    proxy.upset(page(403, "<html><style>b{}</style><h1>Access\n denied</h1></html>"))
    error = await refused(client.get(CONFIG_MAPS, "a", "default"))
    assert (error.code, error.message) == (
        403,
        'get configmaps "a" in namespace "default" is not allowed: Access denied',
    )


async def test_nobody_is_followed_elsewhere_with_our_credentials(client: KubeObjects, proxy: FaultyProxy) -> None:
    async def elsewhere(exchange: faulty_proxy.Exchange) -> None:
        await exchange.reply(302, b"", Location="http://127.0.0.1:1/elsewhere")

    proxy.upset(elsewhere)
    assert "sends us elsewhere (http://127.0.0.1:1/elsewhere)" in (await refused(names(client))).message


@pytest.mark.parametrize("fault", [never_end])
async def test_an_endless_answer_is_given_up(
    client: KubeObjects, proxy: FaultyProxy, fault: faulty_proxy.Fault
) -> None:
    proxy.upset(fault)
    error = await refused(names(client))
    assert "larger than 4,194,304 bytes" in error.message
    assert await names(client) == []


async def test_an_endless_event_is_given_up(client: KubeObjects, proxy: FaultyProxy) -> None:
    proxy.upset(never_end)
    watch = await client.watch(CONFIG_MAPS)
    error = await refused(watch.__anext__())
    assert "an event is larger than 1,048,576 bytes" in error.message
    await watch.close()


async def test_an_answer_that_does_not_come_is_waited_for_only_so_long(upstream: Access) -> None:
    async with FaultyProxy(upstream) as proxy:
        settings = Settings(patience=Patience(total_seconds=0.2))
        async with KubeObjects(proxy.access, settings=settings) as client, asyncio.timeout(IN_TIME):
            proxy.upset(say_nothing, say_nothing, say_nothing)
            late = await refused(client.create(CONFIG_MAPS, config_map("a"), "default"))
            assert (late.code, late.reason, late.may_have_happened) == (504, "Timeout", True)
            late = await refused(names(client))
            assert (late.code, late.may_have_happened) == (504, False)
            assert (await refused(client.watch(CONFIG_MAPS))).code == 504


async def test_a_slow_answer_delays_nobody_else(client: KubeObjects, proxy: FaultyProxy) -> None:
    go_on, arrived = asyncio.Event(), asyncio.Event()
    proxy.upset(delay(go_on, arrived))
    slow = asyncio.ensure_future(client.create(CONFIG_MAPS, config_map("slow"), "default"))
    await arrived.wait()
    await client.create(CONFIG_MAPS, config_map("fast"), "default")
    assert not slow.done()
    go_on.set()
    await slow


async def test_a_watch_that_breaks_ends_and_goes_on_from_where_it_was(client: KubeObjects, proxy: FaultyProxy) -> None:
    await client.create(CONFIG_MAPS, config_map("a"), "default")

    async def break_in_the_middle(exchange: faulty_proxy.Exchange) -> None:
        _, _, body = await _first_lines(proxy, exchange, 1)
        await exchange.begin(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        await exchange.write(faulty_proxy.chunk(body + body[: len(body) // 2]))
        exchange.reset()

    proxy.upset(break_in_the_middle)
    watch = await client.watch(CONFIG_MAPS, Query(namespace="default"))
    seen = [event async for event in watch]
    assert [event.type for event in seen] == ["ADDED"]
    version = seen[0].manifest()["metadata"]["resourceVersion"]
    again = await client.watch(CONFIG_MAPS, Query(namespace="default", resource_version=version))
    await client.create(CONFIG_MAPS, config_map("b"), "default")
    event = await again.__anext__()
    assert (event.type, event.manifest()["metadata"]["name"]) == ("ADDED", "b")
    await again.close()


async def test_a_watch_that_has_gone_silent_is_given_up(client: KubeObjects, proxy: FaultyProxy) -> None:
    async def fall_silent(exchange: faulty_proxy.Exchange) -> None:
        await exchange.begin(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        await exchange.write(faulty_proxy.chunk(b'{"type":"BOOKMARK","object":{}}\n'))
        await say_nothing(exchange)

    proxy.upset(fall_silent)
    what = asked("watch", CONFIG_MAPS)
    answer = await client.transport.stream(what, path_to(CONFIG_MAPS), {"watch": "true"}, lasts_seconds=0.2)
    watch = KubeWatch(answer, 1000)
    assert [event.type async for event in watch] == ["BOOKMARK"]
    await watch.close()


async def test_a_vanished_peer_is_noticed_by_the_kernel(upstream: Access) -> None:
    async with KubeObjects(upstream) as client:
        watch = await client.watch(CONFIG_MAPS)
        body = watch._body
        assert isinstance(body, WireStream)
        made = body._stream._socket
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        await watch.close()


async def _first_lines(proxy: FaultyProxy, exchange: faulty_proxy.Exchange, count: int) -> tuple[int, int, bytes]:
    async with proxy.ask(exchange.request) as answer:
        lines = [await answer.content.readline() for _ in range(count)]
        return answer.status, count, b"".join(lines)


async def test_connections_are_kept_and_bounded(upstream: Access) -> None:
    async with FaultyProxy(upstream) as proxy:
        settings = Settings(in_flight=3, patience=IMPATIENT)
        async with KubeObjects(proxy.access, settings=settings) as client, asyncio.timeout(IN_TIME):
            await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(f"c{it}"), "default") for it in range(60)))
            assert len(await names(client)) == 60
        assert proxy.connections == 3


async def test_the_server_learns_who_asks(upstream: Access) -> None:
    async with FaultyProxy(upstream) as proxy:
        async with KubeObjects(proxy.access, settings=Settings(component="scheduler")) as client:
            await names(client)
            watch = await client.watch(CONFIG_MAPS)
            await watch.close()
        for request in proxy.seen:
            assert request.headers["user-agent"].startswith("allhands/")
            assert request.headers["user-agent"].endswith(" (scheduler)")
        assert [request.headers["accept-encoding"] for request in proxy.seen] == ["gzip", "identity"]
        assert 300 <= int(proxy.seen[1].path.partition("timeoutSeconds=")[2].partition("&")[0]) <= 600
