"""Our StatefulSets and DaemonSets on a real API server, and kube-controller-manager's own: one story, one end."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.controllers.daemon_set import DaemonSetController
from allhands.controllers.stateful_set import StatefulSetController
from allhands.lifecycle.controller_revision import HASH_LABEL, REVISIONS
from allhands.lifecycle.daemon_set.kinds import DAEMON_SETS
from allhands.lifecycle.node import NODES
from allhands.lifecycle.replica_set import PODS
from allhands.lifecycle.stateful_set.kinds import STATEFUL_SETS
from allhands.lifecycle.volume_kinds import CLAIMS
from tests.controlplane import ControlPlane
from tests.likeness import PATIENCE_SECONDS, Place, assert_alike, conditions_of, counts_of
from tests.set_cases import daemon_set, image_patch, stateful_set

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.ports import Objects

THEIRS = ("statefulset-controller", "daemonset-controller")
TAINT = {"key": "a", "effect": "NoSchedule"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _owners(document: Manifest) -> list[tuple[str, str, bool]]:
    owners = document["metadata"].get("ownerReferences", ())
    return [(it["kind"], it["name"], bool(it.get("controller"))) for it in owners]


def _told(document: Manifest) -> tuple[Any, ...]:
    texts = {key: it for key, it in document.get("status", {}).items() if isinstance(it, str)}
    return document["metadata"]["name"], counts_of(document), conditions_of(document), texts


def _revisions_by_hash(revisions: list[Manifest]) -> dict[str, str]:
    """Names of a DaemonSet's revisions are made of what only Go can know."""
    labels = {it["metadata"]["labels"].get(HASH_LABEL, ""): str(it["revision"]) for it in revisions}
    return {key: it for key, it in labels.items() if key}


def _spec(pod: Manifest) -> Manifest:
    """Volumes of claims come in the order of a Go map."""
    volumes = sorted(pod["spec"].get("volumes", ()), key=lambda it: str(it["name"]))
    return {**pod["spec"], "volumes": volumes}


async def _seen(place: Place) -> dict[str, Any]:
    """All that the controllers write, the names of nodes without the namespace that they begin with."""
    pods, revisions = await place.all(PODS), await place.all(REVISIONS)
    numbers = _revisions_by_hash(revisions)

    def labels(document: Manifest) -> list[tuple[str, str]]:
        found = document["metadata"].get("labels", {})
        return sorted((key, numbers.get(it, it)) for key, it in found.items())

    def is_of(pod: Manifest, kind: str) -> bool:
        return any(it[0] == kind for it in _owners(pod)) or (kind == "" and not _owners(pod))

    def life(pod: Manifest) -> tuple[Any, ...]:
        return labels(pod), pod["status"]["phase"], "deletionTimestamp" in pod["metadata"], _spec(pod)

    seen = {
        "stateful sets": [_told(it) for it in await place.all(STATEFUL_SETS)],
        "daemon sets": [_told(it) for it in await place.all(DAEMON_SETS)],
        "members": [(it["metadata"]["name"], _owners(it), life(it)) for it in pods if not is_of(it, "DaemonSet")],
        "daemons": sorted(
            msgspec.json.encode((it["spec"].get("nodeName"), _owners(it), life(it)), order="sorted").decode()
            for it in pods
            if is_of(it, "DaemonSet")
        ),
        "revisions": sorted(
            msgspec.json.encode((_owners(it), it["revision"], labels(it), it["data"]), order="sorted").decode()
            for it in revisions
        ),
        "claims": [(it["metadata"]["name"], labels(it), _owners(it), it["spec"]) for it in await place.all(CLAIMS)],
    }
    text = msgspec.json.encode(seen).decode().replace(place.namespace, "HERE")
    plain: dict[str, Any] = msgspec.json.decode(text)
    return plain


async def _until_observed(place: Place, resource: Resource, name: str) -> None:
    """A pod that goes before the new template was seen comes back as it was."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = (await place.objects.get(resource, name, place.namespace)).manifest()
            if found["status"].get("observedGeneration") == found["metadata"]["generation"]:
                return
            await asyncio.sleep(0.05)


# -- StatefulSets


async def make_a_set(place: Place) -> None:
    await place.create(STATEFUL_SETS, stateful_set(replicas=3, claims=("data", "log")))


async def grow_and_change(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 4, **image_patch("b")}})


async def change_behind_a_partition(place: Place) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await place.patch(STATEFUL_SETS, "web", {"spec": {"updateStrategy": strategy, **image_patch("c")}})


async def lose_one_below_the_partition(place: Place) -> None:
    await place.objects.delete(PODS, "web-0", place.namespace)


async def let_all_follow(place: Place) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    await place.patch(STATEFUL_SETS, "web", {"spec": {"updateStrategy": strategy}})


async def go_back_and_forget(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "web", {"spec": {"revisionHistoryLimit": 1, **image_patch("a")}})


async def fail_one(place: Place) -> None:
    await place.patch(PODS, "web-1", {"status": {"phase": "Failed"}}, "status")


async def shrink_during_a_rollout(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "web", {"spec": image_patch("d")})
    await place.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})


async def give_up_all(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 0}})


async def make_one_that_keeps_nothing(place: Place) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    spec: Manifest = {"podManagementPolicy": "Parallel", "ordinals": {"start": 3}, "minReadySeconds": 1}
    manifest = stateful_set("own", replicas=3, claims=("data",), persistentVolumeClaimRetentionPolicy=policy, **spec)
    await place.create(STATEFUL_SETS, manifest)


async def shrink_that_one(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "own", {"spec": {"replicas": 1}})


async def grow_it_while_its_claims_are_going(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "own", {"spec": {"replicas": 2}})


async def change_the_policy(place: Place) -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    await place.patch(STATEFUL_SETS, "own", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})


async def adopt_a_stray(place: Place) -> None:
    containers = [{"name": "c", "image": "a"}]
    for name in ("alone-0", "alone-x"):
        stray = {"metadata": {"name": name, "labels": {"app": "alone"}}, "spec": {"containers": containers}}
        await place.create(PODS, stray)
    spec: Manifest = {"updateStrategy": {"type": "OnDelete"}}
    await place.create(STATEFUL_SETS, stateful_set("alone", replicas=2, **spec))


async def change_on_delete(place: Place) -> None:
    await place.patch(STATEFUL_SETS, "alone", {"spec": image_patch("b")})
    await _until_observed(place, STATEFUL_SETS, "alone")
    await place.objects.delete(PODS, "alone-1", place.namespace)


async def ask_for_what_is_refused(place: Place) -> None:
    manifest = stateful_set("refused", replicas=2)
    manifest["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    await place.create(STATEFUL_SETS, manifest)


# -- DaemonSets


def _nodes(place: Place) -> dict[str, str]:
    """Only these nodes are this story's: others may have theirs on the same server."""
    return {"whose": place.namespace}


async def _add_node(place: Place, name: str) -> None:
    name = f"{place.namespace}-{name}"
    await place.objects.create(NODES, {"metadata": {"name": name, "labels": _nodes(place)}})
    await place.objects.patch(NODES, name, "merge", {"spec": {"taints": None}})


async def _patch_node(place: Place, name: str, spec: Manifest) -> None:
    await place.objects.patch(NODES, f"{place.namespace}-{name}", "merge", {"spec": spec})


async def make_daemons(place: Place) -> None:
    for name in ("n0", "n1", "n2"):
        await _add_node(place, name)
    manifest = daemon_set()
    manifest["spec"]["template"]["spec"]["nodeSelector"] = _nodes(place)
    await place.create(DAEMON_SETS, manifest)


async def _until_counted(place: Place, field: str, count: int) -> None:
    """What the real one overlooks (a node that only goes; now and then a surged pod that has become available) it sees
    at the next change of the set, whatever it is."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await place.all(DAEMON_SETS))[0]["status"].get(field, 0) != count:
            await place.patch(DAEMON_SETS, "agent", {"metadata": {"annotations": {"seen": os.urandom(3).hex()}}})
            await asyncio.sleep(0.1)


async def change_daemons(place: Place) -> None:
    await place.patch(DAEMON_SETS, "agent", {"spec": {"minReadySeconds": 1, **image_patch("b")}})


async def change_them_with_surge(place: Place) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    await place.patch(DAEMON_SETS, "agent", {"spec": {"updateStrategy": strategy, **image_patch("c")}})
    await _until_observed(place, DAEMON_SETS, "agent")
    await _until_counted(place, "updatedNumberScheduled", 3)


async def go_back_with_daemons(place: Place) -> None:
    await place.patch(DAEMON_SETS, "agent", {"spec": {"revisionHistoryLimit": 1, **image_patch("a")}})
    await _until_observed(place, DAEMON_SETS, "agent")
    await _until_counted(place, "updatedNumberScheduled", 3)


async def taint_a_node(place: Place) -> None:
    await _patch_node(place, "n0", {"taints": [TAINT]})
    await _until_counted(place, "desiredNumberScheduled", 2)


async def drive_away(place: Place) -> None:
    await _patch_node(place, "n0", {"taints": [{**TAINT, "effect": "NoExecute"}]})


async def cordon_a_node(place: Place) -> None:
    await _patch_node(place, "n1", {"unschedulable": True, "taints": [CORDONED]})
    for pod in await place.all(PODS):
        if pod["spec"].get("nodeName", "").endswith("-n1"):
            await place.objects.delete(PODS, pod["metadata"]["name"], place.namespace)


async def add_a_node(place: Place) -> None:
    await _add_node(place, "n3")


async def fail_a_daemon(place: Place) -> None:
    for pod in await place.all(PODS):
        if pod["spec"].get("nodeName", "").endswith("-n3"):
            await place.patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, "status")


async def change_daemons_on_delete(place: Place) -> None:
    await place.patch(DAEMON_SETS, "agent", {"spec": {"updateStrategy": {"type": "OnDelete"}, **image_patch("e")}})
    await _until_observed(place, DAEMON_SETS, "agent")
    for pod in await place.all(PODS):
        if pod["spec"].get("nodeName", "").endswith("-n2"):
            await place.objects.delete(PODS, pod["metadata"]["name"], place.namespace)


async def take_a_node_away(place: Place) -> None:
    await place.objects.delete(NODES, f"{place.namespace}-n3")
    await _until_counted(place, "desiredNumberScheduled", 2)


STORY: tuple[Callable[[Place], Awaitable[None]], ...] = (
    make_a_set,
    grow_and_change,
    change_behind_a_partition,
    lose_one_below_the_partition,
    let_all_follow,
    go_back_and_forget,
    fail_one,
    shrink_during_a_rollout,
    give_up_all,
    make_one_that_keeps_nothing,
    shrink_that_one,
    grow_it_while_its_claims_are_going,
    change_the_policy,
    adopt_a_stray,
    change_on_delete,
    ask_for_what_is_refused,
    make_daemons,
    change_daemons,
    change_them_with_surge,
    go_back_with_daemons,
    taint_a_node,
    drive_away,
    cordon_a_node,
    add_a_node,
    fail_a_daemon,
    change_daemons_on_delete,
    take_a_node_away,
)


def _ours(objects: Objects) -> list[Any]:
    return [StatefulSetController(objects), DaemonSetController(objects)]


@pytest.mark.xdist_group("real")
async def test_our_sets_end_where_those_of_kubernetes_end(real_tools: Path, control_plane: ControlPlane) -> None:
    with ControlPlane(controllers=THEIRS) as theirs:
        await assert_alike(theirs, control_plane, _ours, STORY, _seen)
