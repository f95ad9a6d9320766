"""The API server dies, forgets and is crowded under our scheduler: nothing is lost or half-started, nobody starves.

Each test has a control plane of its own, since it breaks it.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import DeleteOptions, Query
from tests.cluster.accounts import overfull
from tests.controlplane import ControlPlane
from tests.depth import examples, ten_times_in_soak
from tests.gang_cluster import Gangs
from tests.manifests import PODS
from tests.scheduler_process import SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

OPTIONS = ("--no-leader-elect",)
SIZE = 5


@pytest.fixture
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def shared_plane(real_tools: Path) -> Iterator[ControlPlane]:
    """With the real kube-scheduler beside."""
    with ControlPlane(scheduler=True) as plane:
        yield plane


async def how_full(gangs: Gangs, *names: str) -> list[int]:
    """How many pods of each gang have a node."""
    return [sum(map(bool, await gangs.nodes_of(name))) for name in names]


def _whole(pods: Iterable[dict[str, Any]]) -> int:
    """How many gangs have all their pods on nodes."""
    bound = Counter(it["metadata"]["labels"]["gang"] for it in pods if it["spec"].get("nodeName"))
    return sum(count == SIZE for name, count in bound.items() if name.startswith("gang-"))


@ten_times_in_soak
async def test_an_api_server_that_is_killed_while_gangs_are_bound_loses_none_of_them(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    del round_
    names = [f"gang-{number}" for number in range(20)]
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        gangs = Gangs(objects, "outage", "native")
        await gangs.prepare(nodes=27)
        for name in names:
            await gangs.gang(name, SIZE)
        with SchedulerProcess(tmp_path, plane.kubeconfig, *OPTIONS) as process:
            await gangs.bound(names[0], SIZE)
            await asyncio.to_thread(plane.kill_apiserver)
            await asyncio.to_thread(plane.revive_apiserver)
            for name in names:
                await gangs.bound(name, SIZE)
            # What comes afterwards is seen and placed too.
            await gangs.gang("late", SIZE)
            await gangs.bound("late", SIZE)
            assert await overfull(objects) == []
            assert await asyncio.to_thread(process.ends, signal.SIGTERM) == 0


@ten_times_in_soak
async def test_a_history_that_was_forgotten_meanwhile_is_read_anew(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    """The scheduler sleeps; pods go and come, etcd is compacted, the server starts with an empty watch cache: 410."""
    del round_
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        gangs = Gangs(objects, "forgotten", "native")
        await gangs.prepare(nodes=2)
        with SchedulerProcess(tmp_path, plane.kubeconfig, *OPTIONS) as process:
            await gangs.gang("old", 8)
            await gangs.bound("old", 8)
            process.child.send_signal(signal.SIGSTOP)
            for number in range(8):
                await objects.delete(PODS, f"old-{number}", "forgotten", DeleteOptions(grace_seconds=0))
            await gangs.gang("new", 7)
            await asyncio.to_thread(plane.compact_etcd)
            await asyncio.to_thread(plane.kill_apiserver)
            await asyncio.to_thread(plane.revive_apiserver)
            process.child.send_signal(signal.SIGCONT)
            # Phantoms of the old pods would leave no room.
            await gangs.bound("new", 7)
            await gangs.gang("large", 2)
            assert await gangs.told("large")
            assert await how_full(gangs, "large") == [0]


@ten_times_in_soak
async def test_beside_a_rival_no_gang_is_half_and_overlap_is_repaired(
    round_: int, shared_plane: ControlPlane, tmp_path: Path
) -> None:
    """kube-scheduler fills the same nodes with single pods as fast as it can, while we place gangs."""
    del round_
    async with KubeObjects(kubeconfig.load(shared_plane.kubeconfig)) as objects:
        ours = Gangs(objects, "rival", "native")
        await ours.prepare(nodes=10)
        theirs = Gangs(objects, "rival", "coscheduling", scheduler="default-scheduler")
        names = [f"gang-{number}" for number in range(6)]
        with SchedulerProcess(tmp_path, shared_plane.kubeconfig, *OPTIONS) as process:
            await asyncio.gather(theirs.pods("single", 20), *(ours.gang(name, SIZE) for name in names))
            # Whoever came first: as many of theirs as have room, and gangs whole in what they left.
            await theirs.bound("single", 20)
            gangs_with_room = 4
            await ours.seen(PODS, "gang", lambda pods: _whole(pods.values()) == gangs_with_room)
            assert sorted(await how_full(ours, *names)) == [0, 0, *[SIZE] * gangs_with_room]
            await asyncio.to_thread(process.wait_until_ready)
            assert await overfull(objects) == []


@ten_times_in_soak
async def test_those_who_fit_are_not_kept_by_the_many_who_do_not(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    del round_
    many, few = examples(600, soak_factor=16), examples(40, soak_factor=12)
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        gangs = Gangs(objects, "crowd", "native")
        await gangs.prepare(nodes=few // 4)
        await gangs.group("hopeless", many // 2)
        await asyncio.gather(gangs.pods("hopeless", many // 2), gangs.singles("clogger", many // 2, cpu="5"))
        with SchedulerProcess(tmp_path, plane.kubeconfig, *OPTIONS) as process:
            await gangs.singles("victim", few, cpu="500m")
            await gangs.bound("victim", few)
            page = await objects.list(PODS, Query(namespace="crowd", labels="gang=clogger"))
            assert not [raw for raw in page.items if msgspec.json.decode(raw)["spec"].get("nodeName")]
            assert await asyncio.to_thread(process.ends, signal.SIGTERM) == 0
