"""The server on a real socket: TLS, limits of the wire, and an end without remains."""

from __future__ import annotations

import asyncio
import datetime
import logging
import signal
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from allhands.ports import Document, Event
from allhands.server.app import App, build_app
from allhands.server.limits import Limits
from allhands.server.serve import serving
from allhands.server.tls import ServerTls, server_tls
from tests.unit.server.asgi_client import TOKEN, ListedWatch, ScriptedObjects, raw, registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from allhands.ports import Clock
    from allhands.server.listening import Address


class WallClock:
    """TLS handshakes look at the real time."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


@pytest.fixture
def tls(tmp_path: Path) -> ServerTls:
    clock: Clock = WallClock()
    return server_tls(tmp_path / "tls", clock)


@asynccontextmanager
async def connected(
    address: Address, tls: ServerTls | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = None if tls is None else ssl.create_default_context(cafile=str(tls.authority))
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


def head(method: str, path: str, *fields: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {TOKEN}", *fields, "", ""]
    return "\r\n".join(lines).encode()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The code and body of an answer with a length."""
    async with asyncio.timeout(20):
        text = await reader.readuntil(b"\r\n\r\n")
        code = int(text.split(b" ", 2)[1])
        lengths = [line.split(b":")[1] for line in text.lower().split(b"\r\n") if line.startswith(b"content-length")]
        return code, await reader.readexactly(int(lengths[0])) if lengths else b""


async def test_requests_over_tls_share_a_connection(app: App, port: ScriptedObjects, tls: ServerTls) -> None:
    port.answer = Document(raw("ConfigMap", "c"))
    async with serving(app, "127.0.0.1", 0, tls) as address:
        assert address.url == f"https://127.0.0.1:{address.port}"
        async with connected(address, tls) as (reader, writer):
            for _ in range(3):
                writer.write(head("GET", "/api/v1/namespaces/default/configmaps/c"))
                assert await read_answer(reader) == (200, port.answer.raw)


async def test_old_tls_is_refused(app: App, tls: ServerTls) -> None:
    context = ssl.create_default_context(cafile=str(tls.authority))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(app, "127.0.0.1", 0, tls) as address:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(address.host, address.port, ssl=context)


async def test_ipv6(app: App) -> None:
    async with serving(app, "::1", 0, None) as address, connected(address, None) as (reader, writer):
        assert address.url == f"http://[::1]:{address.port}"
        writer.write(head("GET", "/livez"))
        assert await read_answer(reader) == (200, b"ok")


@pytest.mark.parametrize("host", ["0.0.0.0", "example.com", "192.0.2.1", "::"])
async def test_only_loopback_addresses_are_served(app: App, host: str) -> None:
    with pytest.raises(ValueError, match="loopback"):
        async with serving(app, host, 0, None):
            pass


async def test_a_port_that_is_taken_is_an_error_and_not_an_exit(app: App) -> None:
    async with serving(app, "127.0.0.1", 0, None) as address:
        with pytest.raises(OSError, match="in use"):
            async with serving(app, "127.0.0.1", address.port, None):
                pass


NONSENSE = {
    "no HTTP at all": b"\x00\xff\x16\x03nonsense\r\n\r\n",
    "a head without end": b"GET / HTTP/1.1\r\nx: " + b"a" * 400_000,
    "a head that is too large": head("GET", "/livez", "x: " + "a" * 70_000),
    "a length that is no number": head("POST", "/api/v1/namespaces", "content-length: x"),
    "a length of many digits": head("POST", "/api/v1/nope", "content-length: " + "0" * 5000 + "2") + b"{}",
    "a path with bad escapes": head("GET", "/%zz/%ff"),
    "an absolute URL": head("GET", "http://[::1/"),
}


@pytest.mark.parametrize("text", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_harms_nobody_else(app: App, tls: ServerTls, text: bytes) -> None:
    async with serving(app, "127.0.0.1", 0, tls) as address:
        async with connected(address, tls) as (reader, writer):
            writer.write(text)
            async with asyncio.timeout(20):
                answer = await reader.read(65536)
            assert answer == b"" or b" 4" in answer.partition(b"\r\n")[0]
        async with connected(address, tls) as (reader, writer):
            writer.write(head("GET", "/livez"))
            assert await read_answer(reader) == (200, b"ok")


async def test_a_silent_connection_is_closed(port: ScriptedObjects, tls: ServerTls) -> None:
    limits = Limits(header_seconds=0.05)
    app = build_app(port, registry(), token=TOKEN, clock=WallClock(), limits=limits)
    async with serving(app, "127.0.0.1", 0, tls, limits=limits) as address, connected(address, tls) as (reader, writer):
        writer.write(b"GET /livez HTTP/1.1\r\n")
        async with asyncio.timeout(20):
            assert await reader.read() == b""


async def test_a_refused_body_ends_the_connection_after_the_answer(app: App, tls: ServerTls) -> None:
    async with serving(app, "127.0.0.1", 0, tls) as address, connected(address, tls) as (reader, writer):
        writer.write(head("POST", "/api/v1/namespaces", "content-type: application/json", "content-length: 9000000"))
        writer.write(b"x" * 100_000)
        code, body = await read_answer(reader)
        assert (code, b"Request entity too large" in body) == (413, True)
        async with asyncio.timeout(20):
            assert await reader.read() == b""


async def test_a_refusal_of_a_small_body_keeps_the_connection(app: App, tls: ServerTls) -> None:
    async with serving(app, "127.0.0.1", 0, tls) as address, connected(address, tls) as (reader, writer):
        for _ in range(2):
            writer.write(head("POST", "/api/v1/nope", "content-length: 5") + b"hello")
            assert (await read_answer(reader))[0] == 404


async def test_an_answer_on_its_way_arrives_although_the_server_ends(app: App, port: ScriptedObjects) -> None:
    port.answer = Document(raw("ConfigMap", "c", data={"k": "v" * 8_000_000}))
    async with serving(app, "127.0.0.1", 0, None) as address:
        reader, writer = await asyncio.open_connection(address.host, address.port, limit=1000)
        writer.write(head("GET", "/api/v1/namespaces/default/configmaps/c"))
        async with asyncio.timeout(20):
            await reader.readuntil(b"\r\n\r\n")
        reading = asyncio.create_task(reader.readexactly(len(port.answer.raw)))
    async with asyncio.timeout(20):
        assert await reading == port.answer.raw
    writer.transport.abort()


async def test_the_end_of_the_server(
    app: App, port: ScriptedObjects, tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    """A watch ends with its last chunk, an idle connection is closed, and nobody complains."""
    caplog.set_level(logging.WARNING)
    watch = port.answer = ListedWatch(Event("ADDED", raw("Pod", "a")))
    handler = signal.getsignal(signal.SIGINT)
    async with serving(app, "127.0.0.1", 0, tls) as address:
        assert signal.getsignal(signal.SIGINT) is handler
        async with connected(address, tls) as (reader, writer), connected(address, tls) as (idle_reader, idle_writer):
            idle_writer.write(head("GET", "/livez"))
            await read_answer(idle_reader)
            writer.write(head("GET", "/api/v1/pods?watch=1"))
            async with asyncio.timeout(20):
                await reader.readuntil(b"ADDED")
            closing = asyncio.create_task(_stop_soon(app))
            async with asyncio.timeout(20):
                rest = await reader.readuntil(b"0\r\n\r\n")
            assert rest.endswith(b"0\r\n\r\n")
            await closing
    assert watch.closed.is_set()
    assert caplog.records == []
    assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


async def _stop_soon(app: App) -> None:
    app.stop()


async def test_a_request_that_does_not_end_is_cut(port: ScriptedObjects, caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(shutdown_seconds=0.05)
    asked = asyncio.Event()

    class Stuck(ScriptedObjects):
        async def get(self, *_arguments: object, **_named: object) -> Document:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    app = build_app(Stuck(), registry(), token=TOKEN, clock=WallClock(), limits=limits)
    async with (
        serving(app, "127.0.0.1", 0, None, limits=limits) as address,
        connected(address, None) as (_reader, writer),
    ):
        writer.write(head("GET", "/api/v1/namespaces/default/configmaps/c"))
        async with asyncio.timeout(20):
            await asked.wait()
    assert "Traceback" not in caplog.text
    assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


async def test_a_slow_reader_on_a_real_connection_is_cut_off(port: ScriptedObjects) -> None:
    big = Event("ADDED", raw("Pod", "a", spec={"x": "y" * 100_000}))
    watch = port.answer = ListedWatch(*[big] * 2000)
    limits = Limits(write_seconds=0.2)
    app = build_app(port, registry(), token=TOKEN, clock=WallClock(), limits=limits)
    async with (
        serving(app, "127.0.0.1", 0, None, limits=limits) as address,
        connected(address, None) as (_reader, writer),
    ):
        writer.write(head("GET", "/api/v1/pods?watch=1"))
        async with asyncio.timeout(20):
            await watch.closed.wait()
        assert watch.events, "most of it was never taken from the watch"
