"""Short requests: connections are kept and bounded, answers whole or told as lost, and no request is sent twice."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import random
import socket
import struct
import threading
import warnings
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.kube.access import Access
from allhands.kube.connections import tls_context
from allhands.kube.retrying import IMPATIENT, Patience
from allhands.kube.settings import Limits, Settings
from allhands.kube.wire import Wire
from tests.certificates import server_tls
from tests.manifests import CONFIG_MAPS, config_map
from tests.unit.kube.scripted_client import AUTHORITY, IN_TIME, QUICK, opened
from tests.unit.kube.scripted_server import (
    BODY,
    ScriptedServer,
    Turn,
    answer,
    saying,
    saying_and_leaving,
    well,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from allhands.kube.objects import KubeObjects

pytestmark = pytest.mark.usefixtures("in_time")
EMPTY = answer(b'{"metadata":{"resourceVersion":"1"},"items":[]}', "HTTP/1.1 200 OK")


def bind(client: KubeObjects, name: str = "a") -> Awaitable[None]:
    return client.bind("default", name, {"target": {"name": "n"}})


async def refused(awaitable: Awaitable[Any]) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


# -- what is sent


async def test_a_bind_is_one_request_with_all_that_it_needs(server: ScriptedServer) -> None:
    bodies: list[bytes] = []

    async def kept(turn: Turn) -> None:
        bodies.append(await turn.read_body())
        await turn.say(answer())

    server.script.append(kept)
    async with opened(server.url, token="secret") as client:
        await client.bind("default", "a", {"metadata": {"uid": "u"}, "target": {"kind": "Node", "name": "n"}})
    (head,), (body,) = server.heads, bodies
    first, *lines = head.strip().split("\r\n")
    assert first == "POST /api/v1/namespaces/default/pods/a/binding?fieldValidation=Warn HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers.pop("User-Agent").startswith("allhands/")
    assert headers == {
        "Host": server.address,
        "Accept-Encoding": "gzip",
        "Authorization": "Bearer secret",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    assert msgspec.json.decode(body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "target": {"kind": "Node", "name": "n"},
    }


async def test_what_has_no_body_says_so_where_one_is_expected(client: KubeObjects, server: ScriptedServer) -> None:
    for method in ("GET", "DELETE", "POST", "PUT"):
        await client.request(method, "/x")
    assert ["Content-Length: 0" in head for head in server.heads] == [False, False, True, True]


async def test_names_are_quoted_and_a_broken_path_is_not_sent(client: KubeObjects, server: ScriptedServer) -> None:
    await bind(client, "a b/ä?c")
    assert "/pods/a%20b%2F%C3%A4%3Fc/binding?" in server.heads[0]
    for path in ("/x y", "/x\r\nEvil: 1", "/ä"):
        error = await refused(client.request("GET", path))
        assert (error.code, error.may_have_happened) == (400, False)
    error = await refused(client.request("GET", "/x", accept="a\r\nEvil: 1"))
    assert error.code == 400
    assert len(server.heads) == 1


async def test_the_servers_own_path_comes_first(server: ScriptedServer) -> None:
    async with opened(f"{server.url}/behind/it") as client:
        await bind(client)
    assert server.heads[0].startswith("POST /behind/it/api/v1/")


async def test_a_user_in_the_servers_address_is_shown_to_it() -> None:
    async with ScriptedServer() as server, opened(f"http://me:it@{server.address}") as client:
        await bind(client)
    assert "Authorization: Basic bWU6aXQ=" in server.heads[0]


async def test_an_unusual_method_is_asked_as_well(client: KubeObjects, server: ScriptedServer) -> None:
    server.script.append(saying(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n"))
    assert (await client.request("HEAD", "/x")).raw == b""
    assert server.heads[0].startswith("HEAD /x ")


# -- connections


async def test_one_connection_is_used_for_one_after_the_other(client: KubeObjects, server: ScriptedServer) -> None:
    for _ in range(20):
        await bind(client)
    assert server.used == [1] * 20


async def test_there_are_never_more_connections_than_requests_at_a_time(
    client: KubeObjects, server: ScriptedServer
) -> None:
    await asyncio.gather(*(bind(client, f"p{number}") for number in range(100)))
    assert len(server.heads) == 100
    assert server.connections == 8


@pytest.mark.parametrize(
    "last",
    [
        answer(BODY, "HTTP/1.1 201 Created", "Connection: close"),
        answer(BODY, "HTTP/1.0 201 Created"),
        answer() + answer(b'{"for":"nobody"}'),
        answer() + b"\x00\x01",
    ],
)
async def test_after_some_answers_a_new_connection_is_used(
    client: KubeObjects, server: ScriptedServer, last: bytes
) -> None:
    server.script.extend([saying(last), well])
    await bind(client)
    assert (await client.request("POST", "/x")).raw == BODY
    assert server.used == [1, 2]


async def test_a_connection_that_the_server_closed_is_not_used_again(
    client: KubeObjects, server: ScriptedServer
) -> None:
    for resets in (False, True):
        server.script.append(saying_and_leaving(answer(), resets=resets))
        await bind(client)
        await server.left.acquire()
        await _turns()
        await bind(client)
    assert len(server.heads) == 4


async def test_what_comes_without_being_asked_for_is_no_answer(client: KubeObjects, server: ScriptedServer) -> None:
    said = asyncio.Event()

    async def talk_on(turn: Turn) -> None:
        await well(turn)
        said.set()
        await asyncio.sleep(0)
        await turn.say(answer(b'{"for":"nobody"}'))
        await turn.until_left()

    server.script.append(talk_on)
    await bind(client)
    await server.left.acquire()
    assert (await client.request("POST", "/x")).raw == BODY


@pytest.mark.parametrize("resets", [False, True])
async def test_what_ended_while_the_loop_did_not_look_is_found_out_before_anything_is_sent(resets: bool) -> None:
    """A reset is told by the system as soon as something is written, and nothing of it was taken; for an end without
    one a connection that has rested is asked."""
    with _leaving(resets=resets) as (url, leave):
        async with opened(url) as client:
            await bind(client)
            leave()
            if not resets:
                assert client.transport._wire is not None
                (rested,) = client.transport._wire._open
                rested.idle_since -= 2
            await bind(client)
            leave()


@contextlib.contextmanager
def _leaving(*, resets: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """A server in another thread that answers one request of each of two connections; the second part of what it
    yields ends the connection, and returns when that has been done."""
    may_leave, has_left = threading.Semaphore(0), threading.Semaphore(0)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            made, _ = listening.accept()
            request = b""
            while b"}" not in request.partition(b"\r\n\r\n")[2]:
                request += made.recv(65536)
            made.sendall(answer())
            may_leave.acquire()
            if resets:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
            has_left.release()

    def leave() -> None:
        may_leave.release()
        assert has_left.acquire(timeout=IN_TIME)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", leave
        thread.join(IN_TIME)


async def test_a_connection_that_nobody_needs_is_closed_after_a_while(server: ScriptedServer) -> None:
    access = Access(server=server.url, ca_pem=AUTHORITY.pem)
    wire = Wire(access, QUICK, keep_alive_seconds=0.05)
    tls = tls_context(access) if server.url.startswith("https") else None
    await wire.ask(b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", tls, wire.now(), wire.now() + IN_TIME)
    await server.left.acquire()
    wire.close()


async def test_other_credentials_get_other_connections() -> None:
    async with ScriptedServer(tls=server_tls(AUTHORITY, "127.0.0.1")) as server:
        access = Access(server=server.url, ca_pem=AUTHORITY.pem)
        wire, ours, theirs = Wire(access, QUICK), tls_context(access), tls_context(access)
        for tls in (ours, ours, theirs, theirs, ours):
            await wire.ask(b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", tls, wire.now(), wire.now() + IN_TIME)
        wire.close()
        assert server.used == [1, 1, 2, 2, 3]


# -- answers that are lost


@pytest.mark.parametrize("resets", [False, True])
async def test_an_answer_that_is_cut_anywhere_is_lost_and_not_asked_for_again(
    client: KubeObjects, server: ScriptedServer, resets: bool
) -> None:
    whole = answer()
    for at in range(0, len(whole), 1 if not resets else 9):
        server.script.append(saying_and_leaving(whole[:at], resets=resets))
        lost = await refused(bind(client))
        assert (lost.code, lost.may_have_happened) == (503, True), at
        assert "the connection broke before the answer was complete" in lost.message
        assert not server.script
        await bind(client)
    assert len(server.heads) == 2 * len(range(0, len(whole), 1 if not resets else 9))


async def test_a_read_that_is_cut_is_asked_for_again(client: KubeObjects, server: ScriptedServer) -> None:
    for at in range(0, len(EMPTY), 5):
        server.script.extend([saying_and_leaving(EMPTY[:at]), saying(EMPTY)])
        assert (await client.list(CONFIG_MAPS)).items == []


async def test_an_answer_in_single_bytes_is_one_answer(client: KubeObjects, server: ScriptedServer) -> None:
    async def stammer(turn: Turn) -> None:
        await turn.read_body()
        for byte in answer():
            await turn.say(bytes((byte,)))
            await asyncio.sleep(0)

    server.script.extend([stammer, stammer])
    await bind(client)
    await bind(client)
    assert server.used == [1, 1]


async def test_the_server_may_close_in_the_moment_in_which_we_ask(client: KubeObjects, server: ScriptedServer) -> None:
    """Nobody can tell whether it was read: a write is told apart, a read is repeated."""

    async def leave_without_a_word(turn: Turn) -> None:
        turn.hang_up()

    await bind(client)
    server.script.append(leave_without_a_word)
    lost = await refused(bind(client))
    assert (lost.may_have_happened, len(server.heads)) == (True, 2)
    await bind(client)
    server.script.extend([leave_without_a_word, saying(EMPTY)])
    await client.list(CONFIG_MAPS)
    assert len(server.heads) == 5


@pytest.mark.parametrize(
    "noise",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        answer(BODY, "HTTP/1.1 201 Created", "Content-Length: 1"),
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    ],
)
async def test_what_is_no_answer_ends_the_connection(client: KubeObjects, server: ScriptedServer, noise: bytes) -> None:
    server.script.append(saying(noise))
    lost = await refused(bind(client))
    assert (lost.code, lost.may_have_happened) == (503, True)
    await bind(client)
    assert server.used == [1, 2]


async def test_an_answer_without_a_length_ends_with_the_connection(client: KubeObjects, server: ScriptedServer) -> None:
    server.script.append(saying_and_leaving(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + BODY))
    assert (await client.request("GET", "/x")).raw == BODY


async def test_continue_is_not_the_answer(client: KubeObjects, server: ScriptedServer) -> None:
    server.script.append(saying(b"HTTP/1.1 100 Continue\r\n\r\n" + answer()))
    await bind(client)
    await bind(client)
    assert server.used == [1, 1]


# -- requests that are not sent whole


@pytest.mark.parametrize("code", [413, 429])
async def test_an_answer_may_come_before_all_is_sent(server: ScriptedServer, code: int) -> None:
    async def refuse_unread(turn: Turn) -> None:
        await turn.say(answer(b"no", f"HTTP/1.1 {code} X"))
        await asyncio.Event().wait()

    server.script.append(refuse_unread)
    async with opened(server.url, Settings(patience=IMPATIENT)) as client:
        big = config_map("a") | {"data": {"x": "y" * 30_000_000}}
        error = await refused(client.create(CONFIG_MAPS, big, "default"))
        assert (error.code, error.may_have_happened) == (code, False)
        await bind(client)
        assert server.used == [1, 2]


async def test_a_large_request_arrives_whole(client: KubeObjects, server: ScriptedServer) -> None:
    sizes: list[int] = []

    async def measure(turn: Turn) -> None:
        sizes.append(len(await turn.read_body()))
        await turn.say(answer())

    server.script.extend([measure, well])
    body = b'{"x":"' + b"y" * 5_000_000 + b'"}'
    await client.create(CONFIG_MAPS, body, "default")
    await bind(client)
    assert (sizes, server.used) == ([len(body)], [1, 1])


async def test_a_large_answer_arrives_whole(client: KubeObjects, server: ScriptedServer) -> None:
    body = b'{"x":"' + random.Random(1).randbytes(3_000_000).hex().encode() + b'"}'
    server.script.append(saying(answer(body, "HTTP/1.1 200 OK")))
    assert (await client.request("GET", "/x")).raw == body


async def test_too_large_an_answer_is_refused_and_the_next_one_read(server: ScriptedServer) -> None:
    server.script.extend([saying(answer(b" " * 2000)), saying(answer(b"x" * 2000, "HTTP/1.1 500 X"))])
    async with opened(server.url, Settings(limits=Limits(answer_bytes=1000, refusal_bytes=10))) as client:
        error = await refused(bind(client))
        assert "larger than 1,000 bytes" in error.message
        assert error.may_have_happened
        assert (await refused(bind(client))).message == "x" * 10
        await bind(client)


# -- time


async def test_who_waits_too_long_is_told_and_the_connection_is_left(server: ScriptedServer) -> None:
    async def say_half(turn: Turn) -> None:
        await turn.say(answer()[:-5])
        await turn.until_left()

    async def say_nothing(turn: Turn) -> None:
        await turn.until_left()

    server.script.extend([say_nothing, say_half])
    async with opened(server.url, Settings(patience=Patience(total_seconds=0.2))) as client:
        for _ in range(2):
            late = await refused(bind(client))
            assert (late.code, late.reason, late.may_have_happened) == (504, "Timeout", True)
            await server.left.acquire()


async def test_each_has_a_time_limit_of_its_own(server: ScriptedServer) -> None:
    """The one timer for all of them is set to whoever is first."""
    go_on = asyncio.Event()

    async def say_late(turn: Turn) -> None:
        await turn.read_body()
        await go_on.wait()
        await turn.say(answer())

    server.script.extend([say_late] * 3)
    access = Access(server=server.url, ca_pem=AUTHORITY.pem)
    wire = Wire(access, QUICK)
    tls = tls_context(access) if server.url.startswith("https") else None
    text, now = b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", wire.now()
    asked = [asyncio.ensure_future(wire.ask(text, tls, now, now + seconds)) for seconds in (IN_TIME, 0.3, IN_TIME)]
    error = await refused(asked[1])
    assert error.code == 504
    assert not asked[0].done()
    go_on.set()
    assert [(await asked[it]).status for it in (0, 2)] == [201, 201]
    wire.close()


async def test_a_handshake_that_does_not_end_has_sent_nothing() -> None:
    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()

    listening = await asyncio.start_server(listen_only, "127.0.0.1", 0)
    async with listening:
        url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with opened(url, Settings(patience=Patience(total_seconds=0.2))) as client:
            late = await refused(bind(client))
            assert (late.code, late.may_have_happened) == (504, False)


# -- addresses


async def test_a_name_is_looked_up_and_each_of_its_addresses_tried() -> None:
    async with ScriptedServer(tls=server_tls(AUTHORITY, "localhost")) as server:
        async with opened(server.url.replace("127.0.0.1", "localhost")) as client:
            await bind(client)
        assert f"Host: localhost:{server.url.rpartition(':')[2]}" in server.heads[0]


async def test_a_name_that_nobody_can_have_is_not_reached() -> None:
    name = "a" * 70 + ".invalid"
    async with opened(f"http://{name}:1", Settings(patience=IMPATIENT)) as client:
        error = await refused(bind(client))
        assert (error.code, error.may_have_happened) == (503, False)
        assert error.message.startswith(f"http://{name}:1 cannot be reached: ")


# -- TLS


@pytest.mark.parametrize("resets", [False, True])
async def test_a_server_that_leaves_during_the_handshake_was_sent_nothing(resets: bool) -> None:
    connections: list[asyncio.StreamWriter] = []

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.read(10)
        turn = Turn(reader, writer, "", 0)
        turn.reset() if resets else turn.hang_up()

    async with await asyncio.start_server(leave, "127.0.0.1", 0) as listening:
        url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with opened(url) as client:
            error = await refused(bind(client))
            assert (error.code, error.may_have_happened) == (503, False)
            assert "TLS" not in error.message
    assert len(connections) == QUICK.patience.attempts


async def test_a_server_without_tls_is_not_trusted_with_anything() -> None:
    async def answer_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_plainly, "127.0.0.1", 0) as listening:
        url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with opened(url) as client:
            error = await refused(bind(client))
            assert "TLS does not come about" in error.message
            assert not error.may_have_happened


async def test_a_server_that_wants_a_certificate_and_gets_none_refuses() -> None:
    async with ScriptedServer(tls=server_tls(AUTHORITY, "127.0.0.1", clients=True)) as server:
        async with opened(server.url) as client:
            error = await refused(bind(client))
        assert error.code == 503
        assert not server.heads


# -- giving up


async def test_an_answer_that_nobody_waits_for_is_nobody_elses(client: KubeObjects, server: ScriptedServer) -> None:
    arrived = asyncio.Event()

    async def say_late(turn: Turn) -> None:
        await turn.say(answer(b'{"for":"the one who left"}')[:-5])
        arrived.set()
        await turn.until_left()

    server.script.append(say_late)
    asked = asyncio.ensure_future(bind(client))
    await arrived.wait()
    asked.cancel()
    assert (await client.request("POST", "/x")).raw == BODY
    await server.left.acquire()
    assert asked.cancelled()
    assert server.used == [1, 2]


async def test_whenever_a_request_is_cancelled_the_next_gets_its_own_answer(server: ScriptedServer) -> None:
    async def echo(turn: Turn) -> None:
        await turn.read_body()
        await turn.say(answer(b'{"path":"%b"}' % turn.head.split(" ")[1].encode()))

    server.script.extend([echo] * 500)
    async with opened(server.url) as client:
        for turns in range(60):
            cancelled = asyncio.ensure_future(client.request("GET", f"/cancelled{turns}"))
            await _turns(turns % 30)
            cancelled.cancel()
            assert (await client.request("GET", f"/asked{turns}")).raw == b'{"path":"/asked%d"}' % turns


async def test_who_waits_when_the_client_is_left_is_told(server: ScriptedServer) -> None:
    arrived = asyncio.Event()

    async def say_nothing(turn: Turn) -> None:
        arrived.set()
        await turn.until_left()

    server.script.append(say_nothing)
    async with opened(server.url) as client:
        asked = asyncio.ensure_future(bind(client))
        await arrived.wait()
    assert (await refused(asked)).may_have_happened
    with pytest.raises(RuntimeError, match="closed"):
        await bind(client)


@pytest.mark.parametrize("turns", range(0, 30, 3))
def test_no_socket_outlives_a_client_that_is_left_in_the_middle_of_something(turns: int) -> None:
    async def main() -> None:
        async with ScriptedServer(tls=server_tls(AUTHORITY, "127.0.0.1")) as server, opened(server.url) as client:
            asked = [asyncio.ensure_future(bind(client)) for _ in range(5)]
            await _turns(turns)
            for it in asked[:3]:
                it.cancel()
            await _turns(turns % 2)
            for it in asked:
                it.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(main())
        gc.collect()
    assert [str(it.message) for it in seen if issubclass(it.category, ResourceWarning)] == []


# -- in between


async def test_warnings_and_packed_lists_come_through(client: KubeObjects, server: ScriptedServer) -> None:
    server.script.append(saying(answer(BODY, "HTTP/1.1 201 Created", 'Warning: 299 - "unknown field"')))
    made = await client.create(CONFIG_MAPS, config_map("a"), "default")
    assert made.warnings == ("unknown field",)
    packed = gzip.compress(b'{"metadata":{"resourceVersion":"7"},"items":[{"a":1}]}')
    server.script.append(saying(answer(packed, "HTTP/1.1 200 OK", "Content-Encoding: gzip")))
    page = await client.list(CONFIG_MAPS)
    assert (page.items, page.version) == ([b'{"a":1}'], "7")


async def _turns(count: int = 20) -> None:
    """Lets the loop look around so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
