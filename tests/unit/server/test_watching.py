"""Watches: what is streamed, and every way in which a stream ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError, expired
from allhands.ports import Event
from allhands.server.app import App, build_app
from allhands.server.limits import Limits
from tests.doubles import ManualClock
from tests.unit.server.asgi_client import TOKEN, Client, ListedWatch, ScriptedObjects, raw, registry, request_scope

if TYPE_CHECKING:
    from collections.abc import Callable

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ADDED = Event("ADDED", raw("Pod", "a", spec={}))
CHANGED = Event("MODIFIED", raw("Pod", "a", spec={}))


class Viewer:
    """A client of one watch that reads as it is told."""

    def __init__(self, app: App, url: str, **headers: str) -> None:
        self.code = 0
        self.text = b""
        self.ended = False
        self.aborted = False
        self.reads = asyncio.Event()
        self.reads.set()
        self._left = asyncio.Event()
        self._wrote = asyncio.Event()
        self._app = app
        self._scope, self._incoming = request_scope("GET", url, headers=headers)
        self._scope["extensions"] = {"allhands.abort": {"abort": self._abort}}
        self.task: asyncio.Task[None] | None = None

    def start(self) -> Viewer:
        self.task = asyncio.create_task(self._app(self._scope, self._receive, self._send))
        return self

    def leave(self) -> None:
        self._left.set()

    def _abort(self) -> None:
        self.aborted = True
        self._left.set()
        self.reads.set()

    async def finish(self) -> list[dict[str, Any]]:
        assert self.task is not None
        async with asyncio.timeout(10):
            await self.task
        return [msgspec.json.decode(line) for line in self.text.splitlines()]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await self._wrote.wait()
                self._wrote.clear()

    async def _receive(self) -> dict[str, Any]:
        if self._incoming:
            return self._incoming.pop(0)
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.code = message["status"]
        else:
            self.text += message["body"]
            self.ended = not message.get("more_body", False)
        self._wrote.set()


def app_with(port: ScriptedObjects, **limits: Any) -> App:
    return build_app(port, registry(), token=TOKEN, clock=ManualClock(), limits=Limits(**limits))


async def test_events_are_lines_in_their_order_and_in_few_pieces(app: App, port: ScriptedObjects) -> None:
    watch = port.answer = ListedWatch(ADDED, CHANGED, Event("DELETED", raw("Pod", "a")))
    viewer = Viewer(app, f"{PODS}?watch=1&resourceVersion=5&allowWatchBookmarks=true").start()
    await viewer.until(lambda: viewer.text.count(b"\n") == 3)
    viewer.leave()
    events = await viewer.finish()
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0]["object"]["kind"] == "Pod"
    assert watch.polls > 0
    verb, (_resource, query), named = port.calls[0]
    assert (verb, query.resource_version, query.namespace) == ("watch", "5", "default")
    assert named == {"bookmarks": True, "initial_events": None}


async def test_a_client_that_leaves_releases_the_watch(app: App, port: ScriptedObjects) -> None:
    watch = port.answer = ListedWatch(ADDED)
    viewer = Viewer(app, f"{PODS}?watch=1").start()
    await viewer.until(lambda: bool(viewer.text))
    assert len(app.face.watches) == 1
    viewer.leave()
    await viewer.finish()
    assert watch.closed.is_set()
    assert not app.face.watches


async def test_a_watch_ends_cleanly_after_its_time(app: App, port: ScriptedObjects) -> None:
    watch = port.answer = ListedWatch(ADDED)
    viewer = Viewer(app, f"{PODS}?watch=1&timeoutSeconds=1").start()
    await viewer.finish()
    assert (viewer.code, viewer.ended, watch.closed.is_set()) == (200, True, True)


async def test_without_a_time_of_its_own_a_watch_has_the_servers(port: ScriptedObjects) -> None:
    port.answer = ListedWatch()
    viewer = Viewer(app_with(port, watch_seconds=0.01), f"{PODS}?watch=1").start()
    await viewer.finish()
    assert viewer.ended


async def test_the_end_of_the_server_ends_its_watches(app: App, port: ScriptedObjects) -> None:
    port.answer = ListedWatch(ADDED)
    viewer = Viewer(app, f"{PODS}?watch=1").start()
    await viewer.until(lambda: bool(viewer.text))
    app.stop()
    await viewer.finish()
    assert viewer.ended
    readiness = await Client(app).get("/readyz")
    assert (readiness.code, b"[-]shutdown failed" in readiness.body) == (500, True)
    late = Viewer(app, f"{PODS}?watch=1").start()
    await late.finish()
    assert late.ended


async def test_bookmarks_come_when_nothing_else_does(port: ScriptedObjects) -> None:
    port.answer = ListedWatch(ADDED)
    viewer = Viewer(app_with(port, bookmark_seconds=0.01), f"{PODS}?watch=1&allowWatchBookmarks=true").start()
    await viewer.until(lambda: viewer.text.count(b"BOOKMARK") >= 2)
    viewer.leave()
    events = await viewer.finish()
    assert events[1]["object"]["metadata"] == {"resourceVersion": "99"}


async def test_nobody_gets_bookmarks_who_did_not_ask(port: ScriptedObjects) -> None:
    port.answer = ListedWatch(ADDED)
    app = app_with(port, bookmark_seconds=0.001, watch_seconds=0.1)
    events = await Viewer(app, f"{PODS}?watch=1").start().finish()
    assert [event["type"] for event in events] == ["ADDED"]


async def test_a_client_that_does_not_read_is_cut_off(port: ScriptedObjects) -> None:
    watch = port.answer = ListedWatch(ADDED, CHANGED)
    viewer = Viewer(app_with(port, write_seconds=0.05, watch_batch_bytes=1), f"{PODS}?watch=1").start()
    await viewer.until(lambda: viewer.code == 200)
    viewer.reads.clear()
    await viewer.finish()
    assert viewer.aborted
    assert watch.closed.is_set()


async def test_a_client_that_does_not_read_the_end_is_cut_off_too(port: ScriptedObjects) -> None:
    watch = port.answer = ListedWatch(ADDED)
    app = app_with(port, write_seconds=0.05)
    viewer = Viewer(app, f"{PODS}?watch=1").start()
    await viewer.until(lambda: bool(viewer.text))
    viewer.reads.clear()
    app.stop()
    await viewer.finish()
    assert viewer.aborted
    assert watch.closed.is_set()


async def test_too_many_watches(port: ScriptedObjects) -> None:
    port.answer = ListedWatch(ADDED)
    app = app_with(port, watches=1)
    viewer = Viewer(app, f"{PODS}?watch=1").start()
    await viewer.until(lambda: bool(viewer.text))
    reply = await Client(app).get(f"{PODS}?watch=1")
    assert (reply.code, reply.json()["reason"], len(port.calls)) == (429, "TooManyRequests", 1)
    viewer.leave()
    await viewer.finish()


async def test_a_version_that_is_too_old_is_said_inside_the_stream(client: Client, port: ScriptedObjects) -> None:
    port.answer = expired("too old resource version: 1 (5)")
    reply = await client.get(f"{PODS}?watch=1&resourceVersion=1")
    event = reply.json()
    assert (reply.code, event["type"], event["object"]["code"], event["object"]["reason"]) == (
        200,
        "ERROR",
        410,
        "Expired",
    )


async def test_any_other_refusal_is_an_answer(client: Client, port: ScriptedObjects) -> None:
    port.answer = StatusError(400, "BadRequest", "no")
    assert (await client.get(f"{PODS}?watch=1")).code == 400


@pytest.mark.parametrize(
    ("accident", "code"), [(expired("gone"), 410), (RuntimeError("secret"), 500)], ids=["a refusal", "an accident"]
)
async def test_a_watch_that_fails_midway_says_so_and_ends(
    app: App, port: ScriptedObjects, accident: Exception, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    port.answer = ListedWatch(ADDED, accident)
    viewer = Viewer(app, f"{PODS}?watch=1").start()
    events = await viewer.finish()
    assert [event["type"] for event in events] == ["ADDED", "ERROR"]
    assert events[1]["object"]["code"] == code
    assert b"secret" not in viewer.text
    assert ("secret" in caplog.text) == (code == 500)


async def test_a_watch_of_tables_names_its_columns_once(app: App, port: ScriptedObjects) -> None:
    port.answer = ListedWatch(ADDED, CHANGED, expired("gone"))
    events = await Viewer(app, f"{PODS}?watch=1", accept=TABLE).start().finish()
    first, second, error = (event["object"] for event in events)
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert second["columnDefinitions"] is None
    assert (second["kind"], second["metadata"], second["rows"][0]["cells"][0]) == (
        "Table",
        {"resourceVersion": "7"},
        "a",
    )
    assert error["kind"] == "Status"


async def test_a_watch_of_metadata(app: App, port: ScriptedObjects) -> None:
    port.answer = ListedWatch(ADDED, expired("gone"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    events = await Viewer(app, f"{PODS}?watch=1", accept=accept).start().finish()
    assert (events[0]["object"]["kind"], "spec" in events[0]["object"]) == ("PartialObjectMetadata", False)


async def test_initial_events_are_asked_of_the_port(app: App, port: ScriptedObjects) -> None:
    port.answer = ListedWatch(expired("gone"))
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await Viewer(app, f"{PODS}?{query}").start().finish()
    assert port.calls[0][2] == {"bookmarks": True, "initial_events": True}


async def test_the_old_way_to_watch_one_object(app: App, port: ScriptedObjects) -> None:
    port.answer = ListedWatch(expired("gone"))
    await Viewer(app, "/api/v1/watch/namespaces/default/pods/a").start().finish()
    assert port.calls[0][1][1].fields == "metadata.name=a"


async def test_a_long_backlog_lets_others_work(app: App, port: ScriptedObjects) -> None:
    port.answer = ListedWatch(*[ADDED] * 20_000)
    viewer = Viewer(app, f"{PODS}?watch=1").start()
    turns = 0
    async with asyncio.timeout(10):
        while viewer.text.count(b"\n") < 20_000:
            turns += 1
            await asyncio.sleep(0)
    viewer.leave()
    await viewer.finish()
    assert turns > 20
