"""The scheduler killed, stopped and cut off at the worst moments, on the real API server: gangs end whole, pods once.

A proxy between the scheduler and the server counts its binds and acts in the middle of a gang; what has become of the
gang is then asked of the server itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import DeleteOptions
from tests.cluster.accounts import overfull
from tests.controlplane import ControlPlane
from tests.depth import ten_times_in_soak
from tests.faulty_proxy import Exchange, FaultyProxy, Request, drop_the_answer
from tests.gang_cluster import Gangs
from tests.manifests import NODES, PODS
from tests.scheduler_process import SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 5


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


def is_bind(request: Request) -> bool:
    return request.method == "POST" and request.path.split("?")[0].endswith("/binding")


def through(proxy: FaultyProxy, folder: Path) -> Path:
    """A kubeconfig that leads through the proxy."""
    path = folder / f"proxy-{os.urandom(4).hex()}.kubeconfig"
    config: dict[str, Any] = {
        "current-context": "proxy",
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "admin"}}],
        "clusters": [{"name": "proxy", "cluster": {"server": proxy.access.server}}],
        "users": [{"name": "admin", "user": {"token": proxy.access.token}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def kill_after(binds: int, process: SchedulerProcess, proxy: FaultyProxy) -> asyncio.Event:
    """Lets so many binds of the process through and kills it at the next; set when it is dead."""
    dead = asyncio.Event()

    async def kill(exchange: Exchange) -> None:
        process.child.kill()
        dead.set()
        exchange.reset()

    proxy.upset(*[Exchange.pass_on] * binds, *[kill] * SIZE, when=is_bind)
    return dead


@ten_times_in_soak
@pytest.mark.parametrize("bound", range(SIZE))
async def test_killed_after_some_binds_the_next_one_finishes_the_gang(
    bound: int, round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    name = f"killed-{bound}-{round_}"
    access = kubeconfig.load(plane.kubeconfig)
    async with KubeObjects(access) as objects, FaultyProxy(access) as proxy:
        gangs = Gangs(objects, name, "native", scheduler=name)
        await gangs.prepare(nodes=2)
        options = (f"--scheduler-name={name}", "--no-leader-elect")
        with SchedulerProcess(tmp_path, through(proxy, tmp_path), *options) as first:
            dead = kill_after(bound, first, proxy)
            await gangs.gang("gang", SIZE)
            async with asyncio.timeout(120):
                await dead.wait()
            await gangs.bound("gang", bound)
        # A rival for the same room, which would fit beside the half gang but not beside the whole one.
        await gangs.gang("rival", 4)
        with SchedulerProcess(tmp_path, plane.kubeconfig, *options):
            await gangs.bound("gang", SIZE)
            assert await gangs.told("rival")
        assert await gangs.nodes_of("rival") == [""] * 4
        assert await overfull(objects) == []


@ten_times_in_soak
async def test_a_half_gang_that_cannot_be_finished_is_released(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    """Its room went to somebody else while nobody was there; its members have a controller that makes them anew."""
    name = f"released-{round_}"
    access = kubeconfig.load(plane.kubeconfig)
    async with KubeObjects(access) as objects, FaultyProxy(access) as proxy:
        gangs = Gangs(objects, name, "native", scheduler=name)
        await gangs.prepare(nodes=2)
        options = (f"--scheduler-name={name}", "--no-leader-elect")
        owner = {"apiVersion": "example.com/v1", "kind": "Trainer", "name": "t", "uid": "t", "controller": True}
        with SchedulerProcess(tmp_path, through(proxy, tmp_path), *options) as first:
            dead = kill_after(2, first, proxy)
            await gangs.group("gang", SIZE)
            await gangs.pods("gang", SIZE, owners=[owner])
            async with asyncio.timeout(120):
                await dead.wait()
            await gangs.bound("gang", 2)
        for node in (f"{name}-0", f"{name}-1"):
            await gangs.pods(f"squatter-{node}", 1, cpu="2", nodeName=node)
        with SchedulerProcess(tmp_path, plane.kubeconfig, *options):
            left = await gangs.seen(PODS, "gang=gang", lambda pods: all(_is_gone(it) for it in pods.values()))
        assert len(left) <= SIZE
        assert await overfull(objects) == []


def _is_gone(pod: dict[str, Any]) -> bool:
    return not pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]


@ten_times_in_soak
async def test_answers_that_never_arrive_leave_no_pod_bound_twice_and_none_forgotten(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    name = f"dropped-{round_}"
    access = kubeconfig.load(plane.kubeconfig)
    async with KubeObjects(access) as objects, FaultyProxy(access) as proxy:
        gangs = Gangs(objects, name, "native", scheduler=name)
        await gangs.prepare(nodes=10)
        for number in range(8):
            await gangs.gang(f"gang-{number}", SIZE)
        honest = [Exchange.pass_on] * 3
        proxy.upset(*[drop_the_answer, *honest] * 10, when=is_bind)
        options = (f"--scheduler-name={name}", "--no-leader-elect")
        with SchedulerProcess(tmp_path, through(proxy, tmp_path), *options) as process:
            for number in range(8):
                await gangs.bound(f"gang-{number}", SIZE)
            assert proxy.is_honest
            assert await overfull(objects) == []
            # Nothing is held for ever for what was bound: the rest of the room can be used to the last core.
            await gangs.gang("none", 1)
            assert await gangs.told("none")
            await objects.delete(PODS, "gang-0-0", name, DeleteOptions(grace_seconds=0))
            await gangs.bound("none", 1)
            assert await asyncio.to_thread(process.ends, signal.SIGTERM) == 0


@ten_times_in_soak
async def test_a_leader_that_slept_through_its_lease_harms_nobody(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    name = f"asleep-{round_}"
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        gangs = Gangs(objects, name, "native", scheduler=name)
        await gangs.prepare(nodes=8)
        options = (f"--scheduler-name={name}", f"--lease-namespace={name}")
        with SchedulerProcess(tmp_path, plane.kubeconfig, *options) as first:
            await asyncio.to_thread(first.wait_until_ready)
            await gangs.gang("before", SIZE)
            await gangs.bound("before", SIZE)
            with SchedulerProcess(tmp_path, plane.kubeconfig, *options) as second:
                first.child.send_signal(signal.SIGSTOP)
                for number in range(6):
                    await gangs.gang(f"gang-{number}", SIZE)
                # Only the second can have done this, once the lease of the sleeper ran out.
                for number in range(5):
                    await gangs.bound(f"gang-{number}", SIZE)
                first.child.send_signal(signal.SIGCONT)
                await gangs.told("gang-5")
                await objects.delete(PODS, "before-0", name, DeleteOptions(grace_seconds=0))
                await gangs.gang("after", 3)
                await gangs.bound("after", 3)
                assert await overfull(objects) == []
                assert second.child.poll() is None
                await asyncio.to_thread(first.ends, signal.SIGTERM)
        assert await gangs.nodes_of("gang-5") == [""] * SIZE


@ten_times_in_soak
async def test_a_node_that_goes_in_the_middle_of_a_gang_is_no_place_for_it(
    round_: int, plane: ControlPlane, tmp_path: Path
) -> None:
    name = f"vanished-{round_}"
    access = kubeconfig.load(plane.kubeconfig)
    async with KubeObjects(access) as objects, FaultyProxy(access) as proxy:
        gangs = Gangs(objects, name, "native", scheduler=name)
        await gangs.prepare(nodes=3)
        gone = asyncio.Event()

        async def take_a_node(exchange: Exchange) -> None:
            """The bind arrives at a server that knows its node no more; binding does not look."""
            target = exchange.request.body.decode()
            node = next(it for it in (f"{name}-{number}" for number in range(3)) if f'"{it}"' in target)
            if not gone.is_set():
                gone.set()
                await objects.delete(NODES, node)
            await exchange.pass_on()

        proxy.upset(Exchange.pass_on, take_a_node, when=is_bind)
        options = (f"--scheduler-name={name}", "--no-leader-elect")
        with SchedulerProcess(tmp_path, through(proxy, tmp_path), *options) as process:
            await gangs.gang("gang", SIZE)
            async with asyncio.timeout(120):
                await gone.wait()
            await gangs.bound("gang", SIZE)
            # Those on the lost node are removed by the cluster's garbage collection; they come again, and find room.
            await gangs.gang("next", 2)
            await gangs.bound("next", 2)
            nodes = set(await gangs.nodes_of("next"))
            known = {f"{name}-{number}" for number in range(3)} & await _node_names(objects)
            assert nodes <= known
            assert await asyncio.to_thread(process.ends, signal.SIGTERM) == 0


async def _node_names(objects: KubeObjects) -> set[str]:
    return {str(yaml.safe_load(raw)["metadata"]["name"]) for raw in (await objects.list(NODES)).items}
