"""Lists, events and refusals in protobuf, cut anywhere and broken anywhere."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.api.schema.wire import WireError
from allhands.kube.messages import Frames, Messages
from allhands.kube.refusals import refusal
from allhands.kube.watching import KubeWatch
from allhands.ports import LateWatch, PackedEvent
from allhands.runtime.informer import Informer
from tests.depth import examples
from tests.manifests import CONFIG_MAPS, PODS
from tests.unit.kube.scripted_client import QUICK, opened
from tests.unit.kube.scripted_server import ScriptedServer, saying
from tests.wire_messages import message

PACKED = msgspec.structs.replace(QUICK, packed=frozenset({PODS}))
PLAIN_LIST = (
    b'{"metadata":{"resourceVersion":"8"},"items":[{"metadata":{"name":"plain","uid":"u","resourceVersion":"8"}}]}'
)


pytestmark = pytest.mark.usefixtures("in_time")


def envelope(kind: str, data: bytes) -> bytes:
    return b"k8s\0" + message((1, message((1, "v1"), (2, kind))), (2, data), (3, ""), (4, ""))


def pod(name: str, version: int = 1) -> bytes:
    return message((1, message((1, name), (3, "default"), (5, f"uid-{name}"), (6, str(version)))))


def frame(kind: str, name: str, version: int = 1) -> bytes:
    event = message((1, kind), (2, message((1, envelope("Pod", pod(name, version))))))
    return len(event).to_bytes(4, "big") + event


def listed(*names: str, version: int = 5) -> bytes:
    items = [(2, pod(name)) for name in names]
    return envelope("PodList", message((1, message((1, ""), (2, str(version)), (3, "next"), (4, 7))), *items))


class Chunks:
    is_packed = True

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def readany(self) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""

    def close(self) -> None:
        self._chunks.clear()


def no_refusal(error: Exception) -> None:
    raise AssertionError(error)


def names(raw: bytes) -> str:
    return str(msgspec.json.decode(raw)["metadata"]["name"])


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.text(min_size=1, max_size=300)), max_size=8
    ),
    st.lists(st.integers(0, 3000), max_size=12),
)
async def test_any_cut_gives_the_same_events(events: list[tuple[str, str]], cuts: list[int]) -> None:
    whole = b"".join(frame(kind, name) for kind, name in events)
    places = sorted({0, len(whole), *(it % (len(whole) + 1) for it in cuts)})
    chunks = [whole[begin:end] for begin, end in pairwise(places)]
    watch = KubeWatch(Chunks([it for it in chunks if it]), 100_000, Frames(Messages(), no_refusal))
    seen = [(event.type, names(event.raw)) async for event in watch]
    assert seen == events
    late = KubeWatch(Chunks([it for it in chunks if it]), 100_000, Frames(Messages(), no_refusal))
    assert isinstance(late, LateWatch)
    seen = []
    while await late.more():
        while (event := late.poll_late()) is not None:
            assert isinstance(event, PackedEvent) == (event.type == "MODIFIED")
            seen.append((event.type, names(event.raw)))
    assert seen == events


async def test_an_event_that_is_announced_as_endless_is_not_waited_for() -> None:
    watch = KubeWatch(Chunks([b"\x7f\xff\xff\xff" + b"x" * 10]), 1000, Frames(Messages(), no_refusal))
    with pytest.raises(StatusError, match="larger than 1,000 bytes"):
        await watch.more()


def test_a_page() -> None:
    page = Messages().page(listed("a", "b"))
    assert [names(it) for it in page.items] == ["a", "b"]
    assert (page.version, page.continue_token, page.remaining) == ("5", "next", 7)
    assert Messages().page(envelope("PodList", message((1, message((2, "9")))))).items == []


def test_an_object_says_of_which_kind_it_is() -> None:
    read = msgspec.json.decode(Messages().object(envelope("Pod", pod("a"))))
    assert (read["apiVersion"], read["kind"], read["metadata"]["name"]) == ("v1", "Pod", "a")
    assert msgspec.json.decode(Messages().object(envelope("Pod", b""))) == {"apiVersion": "v1", "kind": "Pod"}


@pytest.mark.parametrize(
    "event",
    [
        b"",
        b"{}",
        message((1, "ADDED")),
        message((1, "NEW"), (2, message((1, envelope("Pod", pod("a")))))),
        message((1, "ADDED"), (2, message((1, b"k8s")))),
        message((1, "ADDED"), (2, message((1, envelope("Unheard", pod("a")))))),
        message((1, "ADDED"), (2, message((1, envelope("Pod", b"\x0a\x05a"))))),
        message((1, "ADDED"), (2, message((1, envelope("Pod", pod("a")) + message((3, "gzip")))))),
    ],
)
def test_what_is_no_event_is_told(event: bytes) -> None:
    with pytest.raises(WireError):
        Messages().event(event)
    refused: list[Exception] = []
    frames = Frames(Messages(), refused.append)
    for read in (frames.event_of, lambda cut: frames.late_event_of(cut).raw):
        with pytest.raises(msgspec.ValidationError):
            read(event.replace(b"\x05ADDED", b"\x08MODIFIED"))
    assert len(refused) == 2


def test_a_refusal_in_protobuf_is_read() -> None:
    details = message((1, "a"), (2, ""), (3, "pods"), (5, 3))
    status = message(
        (1, message((1, ""))), (2, "Failure"), (3, "wait a little"), (4, "TooManyRequests"), (5, details), (6, 429)
    )
    refused = refusal(429, envelope("Status", status))
    assert (refused.code, refused.reason, refused.message) == (429, "TooManyRequests", "wait a little")
    assert (refused.details or {})["retryAfterSeconds"] == 3
    for broken in (b"k8s\0", b"k8s\0\xff", envelope("Status", b"\x0a\x7f")):
        assert refusal(500, broken).code == 500


def said(body: bytes, content_type: str = "application/vnd.kubernetes.protobuf", *, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def wishes(server: ScriptedServer) -> list[bool]:
    """Of each request, whether it wanted protobuf."""
    return ["Accept: application/vnd.kubernetes.protobuf, application/json" in it for it in server.heads]


async def test_only_what_is_said_to_be_packed_is_asked_for_so(server: ScriptedServer) -> None:
    server.script += [saying(said(listed("a"))), saying(said(PLAIN_LIST, "application/json"))]
    async with opened(server.url, PACKED) as client:
        assert [names(it) for it in (await client.list(PODS)).items] == ["a"]
        assert [names(it) for it in (await client.list(CONFIG_MAPS)).items] == ["plain"]
    assert wishes(server) == [True, False]


async def test_a_server_that_knows_only_json_sends_that(server: ScriptedServer) -> None:
    server.script += [
        saying(said(PLAIN_LIST, "application/json")),
        saying(said(b'{"type":"ADDED","object":{"metadata":{"name":"plain"}}}\n', "application/json")),
    ]
    async with opened(server.url, PACKED) as client:
        assert [names(it) for it in (await client.list(PODS)).items] == ["plain"]
        watch = await client.watch(PODS)
        assert [names(it.raw) async for it in watch] == ["plain"]
    assert wishes(server) == [True, True]


@pytest.mark.parametrize(
    "broken", [b"k8s\0\xff", b"k8s\0", envelope("Pod", pod("a")), envelope("PodList", b"\x12\x09a")]
)
async def test_a_list_that_cannot_be_read_is_asked_for_in_json_from_then_on(
    server: ScriptedServer, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    plain = saying(said(PLAIN_LIST, "application/json"))
    server.script += [saying(said(broken)), plain, plain]
    async with opened(server.url, PACKED) as client:
        for _ in range(2):
            assert [names(it) for it in (await client.list(PODS)).items] == ["plain"]
    assert wishes(server) == [True, False, False]
    assert "JSON is asked for instead" in caplog.text


async def test_who_watches_what_cannot_be_read_lists_anew_in_json(server: ScriptedServer) -> None:
    broken = message((1, "MODIFIED"), (2, message((1, b"nothing of the kind"))))
    server.script += [
        saying(said(envelope("PodList", message((1, message((2, "5"))), (2, pod("a")))))),
        saying(said(frame("ADDED", "b", 6) + len(broken).to_bytes(4, "big") + broken)),
        saying(said(PLAIN_LIST, "application/json")),
    ]
    seen: asyncio.Queue[str] = asyncio.Queue()
    async with opened(server.url, PACKED) as client:
        informer: Informer[str] = Informer(client, PODS, names, in_pages=True)
        informer.on_change(lambda key, _, after: seen.put_nowait(f"{'-' if after is None else '+'} {key}"))
        running = asyncio.create_task(informer.run())
        assert [await seen.get() for _ in range(5)] == [
            "+ default/a", "+ default/b", "+ plain", "- default/a", "- default/b",
        ]  # fmt: skip
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert wishes(server)[:3] == [True, True, False]


async def test_a_refusal_of_a_packed_list_is_read(server: ScriptedServer) -> None:
    status = message((2, "Failure"), (3, "pods is forbidden: you cannot list pods"), (4, "Forbidden"), (6, 403))
    server.script.append(saying(said(envelope("Status", status), status="403 Forbidden")))
    async with opened(server.url, PACKED) as client:
        with pytest.raises(StatusError, match="you cannot list pods") as refused:
            await client.list(PODS)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
