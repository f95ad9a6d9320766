"""Probes say whether it is well, and why not; metrics need the token; the small server has just these paths."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from typing import TYPE_CHECKING

import pytest

from allhands.runtime.metrics import CONTENT_TYPE, MetricsRegistry
from allhands.server.app import App, build_app
from allhands.server.health_server import HealthApp, serving_health
from allhands.server.listening import listener
from allhands.server.process_metrics import measure_process
from allhands.server.when_asked import serving_when_asked
from tests.doubles import ManualClock
from tests.unit.server.asgi_client import TOKEN, Client, ScriptedObjects, registry

if TYPE_CHECKING:
    from allhands.server.listening import Address
    from allhands.server.when_asked import Serve


def app_with(metrics: MetricsRegistry, ready: list[bool]) -> App:
    return build_app(
        ScriptedObjects(),
        registry(),
        token=TOKEN,
        clock=ManualClock(),
        metrics=metrics.text,
        ready={"scheduler": lambda: ready[0]},
    )


async def test_it_is_ready_when_the_scheduler_is_and_lives_meanwhile() -> None:
    ready = [False]
    client = Client(app_with(MetricsRegistry(), ready))
    refused = await client.get("/readyz")
    assert refused.code == 500
    assert "[-]scheduler failed: reason withheld" in refused.body.decode()
    assert (await client.get("/livez")).code == (await client.get("/healthz")).code == 200
    assert (await client.get("/readyz?exclude=scheduler")).code == 200
    assert (await client.get("/readyz/ping")).body == b"ok"
    ready[0] = True
    assert (await client.get("/readyz")).body == b"ok"
    assert (await client.get("/readyz/scheduler")).body == b"ok"
    assert "[+]scheduler ok" in (await client.get("/readyz?verbose")).body.decode()


async def test_metrics_come_with_the_token_and_only_by_reading() -> None:
    metrics = MetricsRegistry()
    metrics.count("allhands_binds_total", 7, result="bound")
    client = Client(app_with(metrics, [True]))
    answer = await client.get("/metrics")
    assert (answer.code, answer.header("content-type")) == (200, CONTENT_TYPE)
    assert 'allhands_binds_total{result="bound"} 7' in answer.body.decode()
    assert (await client.ask("POST", "/metrics")).code == 405
    for token in ("", "Bearer wrong"):
        assert (await client.get("/metrics", authorization=token)).code == 401
    assert (await client.get("/metrics/else")).code == 404


async def test_without_a_registry_there_are_no_metrics(client: Client) -> None:
    assert (await client.get("/metrics")).code == 404


def served(app: HealthApp, host: str = "127.0.0.1") -> contextlib.AbstractAsyncContextManager[Address]:
    return serving_when_asked(lambda: functools.partial(serving_health, app), host, 0)


def never() -> Serve:
    raise AssertionError("nobody has asked")


async def asked(port: int, path: str, *lines: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "\r\n".join([f"GET {path} HTTP/1.1", "host: x", "connection: close", *lines, "", ""])
    writer.write(head.encode())
    async with asyncio.timeout(10):
        text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(text.split(" ", 2)[1]), text.partition("\r\n\r\n")[2]


async def test_the_small_server_answers_probes_and_metrics_and_nothing_else() -> None:
    metrics, live, ready = MetricsRegistry(), [True], [False]
    measure_process(metrics)
    app = HealthApp(metrics.text, live={"lease": lambda: live[0]}, ready={"synced": lambda: ready[0]})
    async with served(app) as address:
        assert address.host == "127.0.0.1"
        assert await asked(address.port, "/livez") == (200, "ok")
        assert (await asked(address.port, "/readyz"))[0] == 500
        ready[0], live[0] = True, False
        assert await asked(address.port, "/readyz") == (200, "ok")
        assert (await asked(address.port, "/healthz"))[0] == 500
        code, text = await asked(address.port, "/metrics")
        assert code == 200
        assert "process_cpu_seconds_total" in text
        assert (await asked(address.port, "/api"))[0] == 404
        assert (await asked(address.port, "/"))[0] == 404
        assert (await asked(address.port, "/livez/nope"))[0] == 404
        assert await asked(address.port, "/readyz", "content-length: 3", "", "abc") == (200, "ok")
        app.stop()
        assert (await asked(address.port, "/readyz"))[0] == 500


async def test_with_a_token_metrics_need_it_and_probes_do_not() -> None:
    app = HealthApp(MetricsRegistry().text, token="secret")
    async with served(app) as address:
        assert (await asked(address.port, "/metrics"))[0] == 401
        assert (await asked(address.port, "/metrics", "authorization: Bearer wrong"))[0] == 401
        assert (await asked(address.port, "/metrics", "authorization: Bearer secret"))[0] == 200
        assert (await asked(address.port, "/livez"))[0] == 200


async def test_beyond_loopback_metrics_are_not_for_everyone() -> None:
    with (
        contextlib.closing(listener("0.0.0.0", 0, beyond_loopback=True)) as listening,
        pytest.raises(ValueError, match=r"on 0\.0\.0\.0, which is not a loopback address, /metrics needs a token"),
    ):
        async with serving_health(HealthApp(str), listening):
            raise AssertionError("it must not listen")
    async with served(HealthApp(str, token="secret"), "0.0.0.0") as address:
        assert (await asked(address.port, "/livez"))[0] == 200
    with pytest.raises(ValueError, match="listens on an address of this machine, not on 'nowhere'"):
        async with served(HealthApp(str, token="secret"), "nowhere"):
            raise AssertionError("it must not listen")


async def test_the_server_is_loaded_when_somebody_knocks_and_who_comes_early_is_answered() -> None:
    loads, held = list[int](), threading.Event()

    def load() -> Serve:
        loads.append(1)
        assert held.wait(10)
        return functools.partial(serving_health, HealthApp(str))

    async with serving_when_asked(load, "127.0.0.1", 0) as address:
        await asyncio.sleep(0)
        assert not loads
        early = [asyncio.create_task(asked(address.port, "/livez")) for _ in range(3)]
        while not loads:  # noqa: ASYNC110 (it is set in a thread)
            await asyncio.sleep(0.001)
        held.set()
        assert await asyncio.gather(*early) == [(200, "ok")] * 3
        assert await asked(address.port, "/livez") == (200, "ok")
        assert loads == [1]
    with pytest.raises(ConnectionRefusedError):
        await asked(address.port, "/livez")


async def test_a_port_that_is_taken_is_told_before_anything_is_loaded() -> None:
    async with served(HealthApp(str)) as address:
        with pytest.raises(OSError, match="in use"):
            async with serving_when_asked(never, "127.0.0.1", address.port):
                raise AssertionError("it must not listen")


async def test_who_is_never_asked_loads_nothing_and_ends_at_once() -> None:
    async with serving_when_asked(never, "127.0.0.1", 0):
        await asyncio.sleep(0)


async def test_a_server_that_cannot_be_loaded_is_told_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Serve:
        raise ImportError("no such thing")

    async with serving_when_asked(load, "127.0.0.1", 0) as address:
        _, writer = await asyncio.open_connection("127.0.0.1", address.port)
        while "not served" not in caplog.text:  # noqa: ASYNC110 (it is told after a thread has ended)
            await asyncio.sleep(0.001)
        writer.close()
    assert "no such thing" in caplog.text


def test_a_process_tells_its_time_memory_files_and_age() -> None:
    metrics = MetricsRegistry()
    measure_process(metrics)
    metrics.refresh()
    first = metrics.value("process_cpu_seconds_total")
    metrics.refresh()
    assert metrics.value("process_cpu_seconds_total") >= first > 0
    assert metrics.value("process_resident_memory_bytes") > 1_000_000
    assert metrics.value("process_start_time_seconds") > 1_600_000_000
    assert metrics.value("process_open_fds") > 2
