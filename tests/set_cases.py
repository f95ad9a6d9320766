"""StatefulSets and DaemonSets for the laws of controllers: what users do to them, and what must never be seen."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from allhands.controllers.daemon_set import DaemonSetController
from allhands.controllers.stateful_set import StatefulSetController
from allhands.lifecycle.controller_revision import REVISIONS
from allhands.lifecycle.daemon_set.kinds import DAEMON_SETS
from allhands.lifecycle.node import NODES
from allhands.lifecycle.replica_set import PODS
from allhands.lifecycle.stateful_set.kinds import STATEFUL_SETS
from allhands.lifecycle.volume_kinds import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from tests.controller_world import World


def _workload(kind: str, name: str, image: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
            **spec,
        },
    }


def stateful_set(name: str = "web", image: str = "a", *, claims: Sequence[str] = (), **spec: Any) -> Manifest:
    if claims:
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec["volumeClaimTemplates"] = [{"metadata": {"name": it}, "spec": wanted} for it in claims]
    return _workload("StatefulSet", name, image, {"serviceName": "db", **spec})


def daemon_set(name: str = "agent", image: str = "a", **spec: Any) -> Manifest:
    return _workload("DaemonSet", name, image, spec)


def image_patch(image: str) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}


def change(resource: Resource, name: str, spec: Manifest) -> Callable[[World], Awaitable[None]]:
    async def move(world: World) -> None:
        await world.patch(resource, name, {"spec": spec})

    return move


async def fail_one(world: World) -> None:
    for pod in world.all(PODS)[:1]:
        await world.patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")


async def delete_one(world: World) -> None:
    for pod in world.all(PODS)[-1:]:
        await world.objects.delete(PODS, pod["metadata"]["name"], "default")


class StatefulSetCase:
    """Sets in order and side by side, with claims that stay or go; they are changed, resized, and lose pods."""

    name = "stateful-set"
    resources = (STATEFUL_SETS, PODS, REVISIONS, CLAIMS)
    horizon_seconds = 5.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [StatefulSetController(objects, gathers=False)]

    def watch(self, world: World) -> None:
        """In order, nobody comes as long as one before is missing or not well."""

        def law(world: World) -> None:
            for each in world.all(STATEFUL_SETS):
                spec = each["spec"]
                if spec["podManagementPolicy"] == "Parallel":
                    continue
                start = spec.get("ordinals", {}).get("start", 0)
                places = {_ordinal(it): it for it in world.all(PODS)}
                for ordinal, pod in places.items():
                    if ordinal < start or _is_running(pod) or "deletionTimestamp" in pod["metadata"]:
                        continue
                    if pod["status"]["phase"] == "Pending" and ordinal < start + spec["replicas"]:
                        assert all(it in places and _is_running(places[it]) for it in range(start, ordinal))

        world.watchers.append(law)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        spec: Manifest = {
            "replicas": chance.randrange(5),
            "podManagementPolicy": chance.choice(["OrderedReady", "OrderedReady", "Parallel"]),
            "revisionHistoryLimit": chance.randrange(3),
            "minReadySeconds": chance.choice([0, 0, 2]),
            "persistentVolumeClaimRetentionPolicy": {
                it: chance.choice(["Retain", "Delete"]) for it in ("whenDeleted", "whenScaled")
            },
        }
        if chance.random() < 0.3:
            spec["updateStrategy"] = {"type": "OnDelete"}
        elif chance.random() < 0.4:
            spec["updateStrategy"] = {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": chance.randrange(4)},
            }
        if chance.random() < 0.3:
            spec["ordinals"] = {"start": chance.randrange(1, 3)}
        claims = ("data",) if chance.random() < 0.7 else ()
        moves: list[Callable[[World], Awaitable[None]]] = [
            change(STATEFUL_SETS, "web", image_patch(chance.choice("abc"))),
            change(STATEFUL_SETS, "web", {"replicas": chance.randrange(6), **image_patch(chance.choice("abc"))}),
            change(STATEFUL_SETS, "web", {"replicas": chance.randrange(6)}),
            change(STATEFUL_SETS, "web", {"ordinals": {"start": chance.randrange(3)}}),
            fail_one,
            delete_one,
        ]

        async def begin(world: World) -> None:
            await world.create(STATEFUL_SETS, stateful_set(claims=claims, **spec))

        return [begin, *chance.sample(moves, 5)]


def _ordinal(pod: Manifest) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _is_running(pod: Manifest) -> bool:
    return bool(pod["status"]["phase"] == "Running")


async def add_well_node(world: World, name: str, **spec: Any) -> None:
    """One that is ready, so that nothing but what is asked for keeps pods away."""
    await world.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}, "")
    await world.patch(NODES, name, {"spec": {"taints": None, **spec}}, "")


class DaemonSetCase:
    """Nodes come, go, are tainted and cordoned; the template changes; pods fail."""

    name = "daemon-set"
    resources = (DAEMON_SETS, PODS, REVISIONS)
    horizon_seconds = 5.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [DaemonSetController(objects, gathers=False)]

    def watch(self, world: World) -> None:
        """One pod on a node, or with surge an old one and a new one."""

        def law(world: World) -> None:
            for each in world.all(DAEMON_SETS):
                rolling = each["spec"]["updateStrategy"].get("rollingUpdate", {})
                on_node: dict[str, int] = {}
                for pod in world.all(PODS):
                    target = pod["spec"].get("nodeName") or _target(pod)
                    on_node[target] = on_node.get(target, 0) + ("deletionTimestamp" not in pod["metadata"])
                assert max(on_node.values(), default=0) <= (2 if rolling.get("maxSurge") else 1)

        world.watchers.append(law)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        strategy: Manifest = {"type": "OnDelete"}
        if chance.random() < 0.8:
            unavailable, surge = chance.choice([(1, 0), (2, 0), ("50%", 0), (0, 1), (0, "100%")])
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}
        spec: Manifest = {"updateStrategy": strategy, "revisionHistoryLimit": chance.randrange(3)}
        effect = chance.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])

        async def begin(world: World) -> None:
            for name in ("n0", "n1", "n2"):
                await add_well_node(world, name)
            await world.create(DAEMON_SETS, daemon_set(**spec))

        async def taint(world: World) -> None:
            await world.patch(NODES, "n1", {"spec": {"taints": [{"key": "a", "effect": effect}]}}, "")

        async def cordon(world: World) -> None:
            taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
            await world.patch(NODES, "n2", {"spec": {"unschedulable": True, "taints": taints}}, "")

        async def add(world: World) -> None:
            await add_well_node(world, "n3")

        async def remove(world: World) -> None:
            await world.objects.delete(NODES, "n0")

        moves: list[Callable[[World], Awaitable[None]]] = [
            change(DAEMON_SETS, "agent", image_patch("b")),
            change(DAEMON_SETS, "agent", image_patch(chance.choice("ac"))),
            change(DAEMON_SETS, "agent", {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "n2"}}}}),
            taint,
            cordon,
            add,
            remove,
            fail_one,
            delete_one,
        ]
        return [begin, *chance.sample(moves, 6)]


def _target(pod: Manifest) -> str:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
