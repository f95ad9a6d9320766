"""Only what shows a bind of ours and nothing else is put off, only while many are bound, and not for long."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from allhands.core.world import World
from allhands.dialects.pods import read_pod
from allhands.kube.messages import Messages
from allhands.ports import Event, Head, PackedEvent
from allhands.runtime.scheduling.late_looks import AT_A_TIME, LATER_SECONDS, MOST_LATER_SECONDS, LateLooks
from allhands.runtime.scheduling.watched_pods import watched_pods
from tests.unit.runtime.test_informer_reading import Shown
from tests.virtual import on_virtual_time
from tests.wire_messages import message


def pod(number: int, version: int, node: str = "", phase: str = "Pending", **metadata: Any) -> bytes:
    names = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": str(version)}
    spec = {"containers": [{"name": "main"}]} | ({"nodeName": node} if node else {})
    return msgspec.json.encode({"metadata": names | metadata, "spec": spec, "status": {"phase": phase}})


def packed(raw: bytes) -> PackedEvent:
    """The same change, in protobuf."""
    document = msgspec.json.decode(raw)
    metadata, spec = document["metadata"], document["spec"]
    names = [(1, metadata["name"]), (3, metadata["namespace"]), (5, metadata["uid"]), (6, metadata["resourceVersion"])]
    deletion = [(9, message((1, 1767225600), (2, 0)))] if "deletionTimestamp" in metadata else []
    node = [(10, spec["nodeName"])] if "nodeName" in spec else []
    parts = ((1, message(*names, *deletion)), (2, message((2, message((1, "main"))), *node)))
    data = message(*parts, (3, message((1, document["status"]["phase"]))))
    kind = message((1, "v1"), (2, "Pod"))
    envelope = b"k8s\0" + message((1, kind), (2, data), (3, ""), (4, ""))
    return PackedEvent("MODIFIED", b"", envelope=envelope, unpacked=Messages().object)


class Watched:
    """So many pods that wait, and binds of all of them to "there" that have been sent."""

    packs = False

    def __init__(self, count: int = 1) -> None:
        self.busy = True
        self.thronged = True
        self.changes = 0
        self.world = World()
        self.pods = watched_pods(Shown([]))  # type: ignore[arg-type]
        self.looks = LateLooks(
            self.pods,
            self.world,
            is_busy=lambda: self.busy,
            is_thronged=lambda: self.thronged,
            changed=self._changed,
        )
        for number in range(count):
            self.show(pod(number, 1), "ADDED")
            self.world.set_pod(read_pod(pod(number, 1)).pod)
            self.world.assume_bound(f"u{number}", "there", 0)

    def _changed(self) -> None:
        self.changes += 1

    def show(self, raw: bytes, kind: str = "MODIFIED") -> None:
        is_packed = self.packs and kind == "MODIFIED"
        self.pods._take(packed(raw) if is_packed else Event(kind, raw))  # type: ignore[arg-type]

    def is_put_off(self, raw: bytes) -> bool:
        before = self.pods.count_put_off
        self.show(raw)
        return self.pods.count_put_off > before

    def node(self, number: int = 0) -> str:
        record = self.pods.get(f"default/p{number}")
        return "" if record is None else record.pod.node_name


@pytest.fixture(params=[False, True], ids=["as text", "packed"], autouse=True)
def _packs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "packs", request.param)


@on_virtual_time
async def test_a_bind_of_ours_is_put_off_while_many_are_bound() -> None:
    watched = Watched()
    assert watched.looks._own_bind(Event("MODIFIED", pod(0, 2, "there"))) == Head("default/p0", "u0", 2)
    assert watched.looks._own_bind(packed(pod(0, 2, "there"))) == Head("default/p0", "u0", 2)
    assert watched.is_put_off(pod(0, 2, "there"))
    assert watched.node() == ""
    watched = Watched()
    watched.thronged = False
    assert not watched.is_put_off(pod(0, 2, "there"))
    assert watched.node() == "there"


@on_virtual_time
async def test_nothing_else_is_put_off() -> None:
    assert not Watched().is_put_off(pod(0, 2))
    assert not Watched().is_put_off(pod(0, 2, "elsewhere"))
    assert not Watched().is_put_off(pod(0, 2, "there", "Running"))
    assert not Watched().is_put_off(pod(0, 2, "there", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not Watched().is_put_off(pod(7, 2, "there"))
    watched = Watched()
    watched.world.assume_bound("u0", "")
    assert not watched.is_put_off(pod(0, 2, "there"))


@on_virtual_time
async def test_what_comes_after_a_bind_that_was_put_off_is_seen_at_once() -> None:
    watched = Watched()
    watched.show(pod(0, 2, "there"))
    watched.show(pod(0, 3, "there", "Running"))
    record = watched.pods.get("default/p0")
    assert record is not None
    assert (record.pod.node_name, record.pod.phase.value) == ("there", "Running")
    assert watched.pods.count_put_off == 0


@on_virtual_time
async def test_all_is_looked_at_when_nobody_is_busy_any_more() -> None:
    watched = Watched(2 * AT_A_TIME + 1)
    for number in range(2 * AT_A_TIME + 1):
        watched.show(pod(number, 2, "there"))
    await asyncio.sleep(3.5 * LATER_SECONDS)
    assert (watched.node(), watched.changes) == ("", 0)
    watched.busy = False
    await asyncio.sleep(LATER_SECONDS)
    assert {watched.node(number) for number in range(2 * AT_A_TIME + 1)} == {"there"}
    assert (watched.changes, watched.pods.count_put_off) == (1, 0)


@on_virtual_time
async def test_who_is_busy_for_long_looks_after_some_seconds() -> None:
    watched = Watched()
    watched.show(pod(0, 2, "there"))
    await asyncio.sleep(MOST_LATER_SECONDS + LATER_SECONDS)
    assert (watched.node(), watched.changes) == ("there", 1)
