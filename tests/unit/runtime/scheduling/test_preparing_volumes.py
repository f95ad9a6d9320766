"""Volumes are there before the first pod of a gang is bound; who waits for them delays nobody, and gives up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from allhands.api.kinds import Resource
from allhands.model.volume import SELECTED_NODE
from allhands.runtime.scheduling.volumes import BOUND_WITHIN_SECONDS
from tests.manifests import NODES
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused

if TYPE_CHECKING:
    from allhands.api.document import Manifest

CLAIMS = Resource("", "v1", "persistentvolumeclaims")
VOLUMES = Resource("", "v1", "persistentvolumes")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")


async def _claim(world: SchedulerWorld, name: str, provisioner: str = "example.com/disks") -> None:
    kind = {
        "metadata": {"name": "later"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await world.objects.create(STORAGE_CLASSES, kind)
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "later",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await world.objects.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")


async def _gang_with(world: SchedulerWorld, claim: str) -> None:
    job = await world.job("gang", 2, min_available="all")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    await world.job_pods(job, 2, volumes=volumes)


def _volume(name: str, claim: str = "") -> Manifest:
    spec: Manifest = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "later",
        "hostPath": {"path": "/data"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if claim:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim}
    return {"metadata": {"name": name}, "spec": spec}


async def _bind_claim(world: SchedulerWorld, claim: str, volume: str) -> None:
    """As the controller of volumes does in the end."""
    done = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    patch = {"metadata": {"annotations": done}, "spec": {"volumeName": volume}}
    await world.objects.patch(CLAIMS, claim, "merge", patch, "default")
    bound = {"status": {"phase": "Bound"}}
    await world.objects.patch(CLAIMS, claim, "merge", bound, "default", subresource="status")
    await world.objects.patch(VOLUMES, volume, "merge", bound, subresource="status")


async def _selected(world: SchedulerWorld, claim: str) -> str:
    metadata = (await world.objects.get(CLAIMS, claim, "default")).manifest()["metadata"]
    return str((metadata.get("annotations") or {}).get(SELECTED_NODE, ""))


@on_virtual_time
async def test_a_gang_is_bound_when_its_volume_has_been_made_and_meanwhile_others_start() -> None:
    world = SchedulerWorld()
    await world.node("a", 4)
    await _claim(world, "data")
    await _gang_with(world, "data")
    async with world.scheduling():
        await asyncio.sleep(1)
        assert await _selected(world, "data") == "a"
        await world.gang("other", 2)
        await world.pod("third")
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["other-0", "other-1"], "room is held for the gang, but no more"
        await world.objects.create(VOLUMES, _volume("disk", "data"))
        await _bind_claim(world, "data", "disk")
        await asyncio.sleep(5)
        assert {"gang-0", "gang-1"} <= set(await world.bound())


@on_virtual_time
async def test_a_volume_that_is_there_already_is_promised_to_the_claim_before_any_bind() -> None:
    world = SchedulerWorld()
    await world.node("a", 4)
    await _claim(world, "data", "kubernetes.io/no-provisioner")
    await world.objects.create(VOLUMES, _volume("disk"))
    available = {"status": {"phase": "Available"}}
    await world.objects.patch(VOLUMES, "disk", "merge", available, subresource="status")
    await _gang_with(world, "data")
    async with world.scheduling():
        await asyncio.sleep(5)
        assert await world.bound() == {}
        volume = (await world.objects.get(VOLUMES, "disk")).manifest()
        assert volume["spec"]["claimRef"]["name"] == "data"
        await _bind_claim(world, "data", "disk")
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["gang-0", "gang-1"]


@on_virtual_time
async def test_a_volume_that_never_comes_gives_the_room_back_after_a_while() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await _claim(world, "data")
    await _gang_with(world, "data")
    async with world.scheduling() as scheduler:
        await asyncio.sleep(BOUND_WITHIN_SECONDS - 5)
        assert scheduler.executor.refused == 0
        await asyncio.sleep(10)
        assert scheduler.executor.refused == 1
        assert world.noted.of("bind") == world.noted.of("evict") == []
        assert await world.leaving() == []


@on_virtual_time
async def test_a_gang_whose_node_goes_while_its_volume_is_made_is_decided_anew() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await _claim(world, "data")
    await _gang_with(world, "data")
    async with world.scheduling() as scheduler:
        await asyncio.sleep(5)
        assert await _selected(world, "data") == "a"
        await world.objects.delete(NODES, "a")
        await world.node("b", 2)
        await asyncio.sleep(30)
        assert scheduler.executor.refused == 1
        assert await _selected(world, "data") == "b"


@on_virtual_time
async def test_a_claim_that_cannot_be_written_is_tried_ever_more_seldom() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await _claim(world, "data")
    await _gang_with(world, "data")
    world.noted.refuse = lambda it: refused(403) if it.kind == "persistentvolumeclaims" and it.verb == "patch" else None
    async with world.scheduling():
        await asyncio.sleep(600)
    assert 5 <= len(world.noted.of("patch", "persistentvolumeclaims")) <= 80
    assert world.noted.of("bind") == []


@on_virtual_time
async def test_a_node_for_which_no_volume_can_be_made_is_given_up_at_once() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await _claim(world, "data")
    await _gang_with(world, "data")
    async with world.scheduling() as scheduler:
        await asyncio.sleep(5)
        gone = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        await world.objects.patch(CLAIMS, "data", "merge", gone, "default")
        await asyncio.sleep(0.01)
        assert scheduler.executor.refused == 1
        await asyncio.sleep(5)
        assert await _selected(world, "data") == "a", "it is the only node, so it is asked again"


@on_virtual_time
async def test_a_volume_that_was_promised_in_vain_is_given_back() -> None:
    world = SchedulerWorld()
    await world.node("a", 2)
    await _claim(world, "data", "kubernetes.io/no-provisioner")
    await world.objects.create(VOLUMES, _volume("disk"))
    available = {"status": {"phase": "Available"}}
    await world.objects.patch(VOLUMES, "disk", "merge", available, subresource="status")
    await _gang_with(world, "data")
    async with world.scheduling():
        await asyncio.sleep(5)
        await world.taint("a")
        await asyncio.sleep(10)
        assert "claimRef" not in (await world.objects.get(VOLUMES, "disk")).manifest()["spec"]
