"""Claims find volumes, or have them made, and let them go; all through the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.controllers.volume_binding import VolumeBindingController
from allhands.lifecycle.node import NODES
from allhands.lifecycle.volume_binding import MISSING_SECONDS, PROVISIONER
from allhands.lifecycle.volume_kinds import CLAIMS, CLASSES, VOLUMES
from tests.controller_world import World

if TYPE_CHECKING:
    from allhands.api.document import Manifest


def volume(name: str, size: str = "5Gi", **spec: Any) -> Manifest:
    base = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    metadata = {"name": name, "labels": spec.pop("labels", {})}
    return {"metadata": metadata, "spec": {**base, "hostPath": {"path": f"/data/{name}"}, **spec}}


def claim(name: str = "c", size: str = "2Gi", **spec: Any) -> Manifest:
    resources = {"requests": {"storage": size}}
    base = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": resources}
    return {"metadata": {"name": name}, "spec": {**base, **spec}}


async def settle(world: World, seconds: float = 0.0) -> None:
    await world.settle(
        lambda objects: [VolumeBindingController(objects, "/volumes/", monotonic=world.seconds)],
        horizon_seconds=seconds,
        kubelet=False,
    )


async def made(world: World, *documents: tuple[Any, Manifest]) -> World:
    for resource, manifest in documents:
        await world.create(resource, manifest, "default" if resource == CLAIMS else "")
    await settle(world)
    return world


def storage_class(mode: str = "Immediate", provisioner: str = PROVISIONER, **more: Any) -> tuple[Any, Manifest]:
    return CLASSES, {"metadata": {"name": "made"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


async def test_the_smallest_volume_that_is_large_enough_is_bound() -> None:
    sizes = (("huge", "50Gi"), ("fits", "3Gi"), ("small", "1Gi"))
    world = await made(World(), *((VOLUMES, volume(name, size)) for name, size in sizes), (CLAIMS, claim()))
    bound = await world.get(CLAIMS, "c")
    assert bound["spec"]["volumeName"] == "fits"
    assert bound["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "3Gi"}}
    assert (await world.get(VOLUMES, "fits", ""))["status"]["phase"] == "Bound"
    assert (await world.get(VOLUMES, "huge", ""))["status"]["phase"] == "Available"


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        ({"storageClassName": ""}, {}),
        ({"accessModes": ["ReadWriteMany"]}, {}),
        ({"selector": {"matchLabels": {"disk": "fast"}}}, {"labels": {"disk": "slow"}}),
        ({"volumeMode": "Block"}, {}),
        ({}, {"claimRef": {"namespace": "default", "name": "other"}}),
    ],
)
async def test_a_volume_that_does_not_fit_is_not_bound(wanted: dict[str, Any], offered: dict[str, Any]) -> None:
    world = await made(World(), (VOLUMES, volume("v", **offered)), (CLAIMS, claim(**wanted)))
    assert "volumeName" not in (await world.get(CLAIMS, "c"))["spec"]
    assert world.telling.records


async def test_a_volume_that_is_kept_for_a_claim_by_name_is_its_own() -> None:
    kept = volume("kept", "50Gi", claimRef={"namespace": "default", "name": "c"})
    world = await made(World(), (VOLUMES, volume("better", "2Gi")), (VOLUMES, kept), (CLAIMS, claim()))
    assert (await world.get(CLAIMS, "c"))["spec"]["volumeName"] == "kept"


async def test_a_claim_that_names_its_volume_gets_it_or_waits_for_it() -> None:
    world = await made(World(), (CLAIMS, claim(volumeName="late")))
    assert (await world.get(CLAIMS, "c"))["status"]["phase"] == "Pending"
    await made(world, (VOLUMES, volume("late")))
    assert (await world.get(CLAIMS, "c"))["status"]["phase"] == "Bound"


async def test_a_class_of_ours_has_volumes_made_and_deletes_them_with_their_claims() -> None:
    world = await made(World(), storage_class(), (CLAIMS, claim(storageClassName="made")))
    bound = await world.get(CLAIMS, "c")
    name = bound["spec"]["volumeName"]
    assert name == f"pvc-{bound['metadata']['uid']}"
    new = await world.get(VOLUMES, name, "")
    assert new["spec"]["hostPath"] == {"path": f"/volumes/{name}", "type": "DirectoryOrCreate"}
    assert new["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    await world.objects.delete(CLAIMS, "c", "default")
    world.store.housekeeper.run_pending()
    await settle(world, MISSING_SECONDS + 1)
    assert world.all(VOLUMES) == []


async def test_a_class_that_retains_keeps_the_volume_as_released() -> None:
    world = await made(World(), storage_class(reclaimPolicy="Retain"), (CLAIMS, claim(storageClassName="made")))
    await world.objects.delete(CLAIMS, "c", "default")
    world.store.housekeeper.run_pending()
    await settle(world, MISSING_SECONDS + 1)
    (left,) = world.all(VOLUMES)
    assert left["status"]["phase"] == "Released"


async def test_a_class_that_waits_for_its_consumer_makes_the_volume_on_the_chosen_node() -> None:
    node = {"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}}}
    world = await made(
        World(), storage_class("WaitForFirstConsumer"), (NODES, node), (CLAIMS, claim(storageClassName="made"))
    )
    assert world.all(VOLUMES) == []
    assert world.telling.records[-1].reason == "WaitForFirstConsumer"
    note = {"volume.kubernetes.io/selected-node": "n1"}
    await world.patch(CLAIMS, "c", {"metadata": {"annotations": note}})
    await settle(world)
    (new,) = world.all(VOLUMES)
    (term,) = new["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]
    assert (await world.get(CLAIMS, "c"))["status"]["phase"] == "Bound"


async def test_a_bound_claim_whose_volume_is_gone_is_lost() -> None:
    world = await made(World(), (VOLUMES, volume("v")), (CLAIMS, claim()))
    await world.patch(VOLUMES, "v", {"metadata": {"finalizers": None}}, "")
    await world.objects.delete(VOLUMES, "v")
    await settle(world)
    assert (await world.get(CLAIMS, "c"))["status"]["phase"] == "Lost"


@pytest.mark.parametrize(
    ("provisioner", "reason"),
    [("example.com/other", "ExternalProvisioning"), ("kubernetes.io/no-provisioner", "FailedBinding")],
)
async def test_a_claim_that_others_must_serve_says_whom_it_waits_for(provisioner: str, reason: str) -> None:
    world = await made(World(), storage_class(provisioner=provisioner), (CLAIMS, claim(storageClassName="made")))
    assert world.telling.records[-1].reason == reason


async def test_a_claim_of_no_class_or_an_unknown_one_says_so() -> None:
    world = await made(World(), (CLAIMS, claim("a", storageClassName="")), (CLAIMS, claim("b", storageClassName="nix")))
    assert {it.reason for it in world.telling.records} == {"FailedBinding", "ProvisioningFailed"}


async def test_a_claim_on_a_node_that_is_gone_says_so() -> None:
    chosen = claim(storageClassName="made")
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "nowhere"}
    world = await made(World(), storage_class("WaitForFirstConsumer"), (CLAIMS, chosen))
    assert "nowhere" in world.telling.records[-1].message
