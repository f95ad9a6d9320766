"""The controllers that the laws are tried on: each with a story of what users do, and what must never be seen."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any, Protocol

from allhands.api.definitions import DEFINITIONS
from allhands.api.errors import StatusError
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.job import JOB
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.controllers.cron_job import CronJobController
from allhands.controllers.deployment import DeploymentController
from allhands.controllers.disruption_budget import DisruptionBudgetController
from allhands.controllers.node import LEASE_NAMESPACE, LEASES, NodeController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.volcano_job import VolcanoJobController
from allhands.controllers.volume_binding import VolumeBindingController
from allhands.lifecycle.changes import scaled
from allhands.lifecycle.command import COMMANDS
from allhands.lifecycle.cron_job import CRON_JOBS, JOBS
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS
from allhands.lifecycle.disruption_budget import BUDGETS
from allhands.lifecycle.job_flow.documents import JOBS as VOLCANO_JOBS
from allhands.lifecycle.node import NODES
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS
from allhands.lifecycle.resource_quota import QUOTAS
from allhands.lifecycle.volcano_job import POD_GROUPS as VOLCANO_GROUPS
from allhands.lifecycle.volume_binding import PROVISIONER
from allhands.lifecycle.volume_kinds import CLAIMS, CLASSES, VOLUMES
from tests.controller_world import moment
from tests.manifests import CONFIG_MAPS
from tests.role_cases import RoleAggregationCase
from tests.set_cases import DaemonSetCase, StatefulSetCase
from tests.volcano_cases import JobFlowCase, VolcanoCronJobCase, define, volcano_spec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from tests.controller_world import World


class Case(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> Sequence[Resource]: ...

    @property
    def horizon_seconds(self) -> float: ...

    @property
    def kubelet(self) -> bool:
        """Whether pods run by themselves."""

    def controllers(self, objects: Any, world: World, /) -> Sequence[Any]: ...

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        """What users do, one move after the other; all is quiet in between."""

    def watch(self, world: World) -> None:
        """Laws of its own, asked after every step."""


def deployment(name: str = "web", image: str = "a", **spec: Any) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
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


def replica_set(name: str = "web", **spec: Any) -> Manifest:
    return {**deployment(name, **spec), "kind": "ReplicaSet"}


def image_patch(image: str) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}


class ReplicaSetCase:
    name = "replica-set"
    resources = (REPLICA_SETS, PODS)
    horizon_seconds = 0.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [ReplicaSetController(objects)]

    def watch(self, world: World) -> None:
        pass

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        sizes = [chance.randrange(6) for _ in range(3)]

        async def begin(world: World) -> None:
            stray = {
                "metadata": {"name": "stray", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            }
            if chance.random() < 0.5:
                await world.create(PODS, stray)
            await world.create(REPLICA_SETS, replica_set(replicas=sizes[0]))

        def resize(size: int) -> Callable[[World], Awaitable[None]]:
            async def move(world: World) -> None:
                await world.patch(REPLICA_SETS, "web", {"spec": {"replicas": size}})

            return move

        async def lose_one(world: World) -> None:
            for pod in world.all(PODS)[:1]:
                await world.patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")

        return [begin, resize(sizes[1]), lose_one, resize(sizes[2])]


class DeploymentCase:
    name = "deployment"
    resources = (DEPLOYMENTS, REPLICA_SETS, PODS)
    horizon_seconds = 0.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [DeploymentController(objects), ReplicaSetController(objects)]

    def _spec(self, seed: int) -> Manifest:
        chance = random.Random(seed)
        strategy: Manifest = {"type": "Recreate"}
        if chance.random() < 0.75:
            surge, unavailable = chance.choice([(1, 0), (0, 1), ("25%", "25%"), (3, 2), ("100%", 0), ("0%", "50%")])
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        return {"replicas": chance.randrange(7), "strategy": strategy, "revisionHistoryLimit": chance.randrange(3)}

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed + 1)
        spec = self._spec(seed)

        async def begin(world: World) -> None:
            await world.create(DEPLOYMENTS, deployment(**spec))

        def change(patch: Manifest) -> Callable[[World], Awaitable[None]]:
            async def move(world: World) -> None:
                await world.patch(DEPLOYMENTS, "web", {"spec": patch})

            return move

        moves: list[Callable[[World], Awaitable[None]]] = [begin]
        for number in range(3):
            patch: Manifest = {}
            if chance.random() < 0.7:
                patch |= image_patch(chance.choice("abc"))
            if chance.random() < 0.3 and number:
                patch |= {"replicas": chance.randrange(8)}
            moves.append(change(patch))
        return moves

    def watch(self, world: World) -> None:
        """Pods never grow beyond replicas and surge, ready ones never fall below replicas less the unavailable ones.

        No old pod is there beside recreated ones.
        """

        def law(world: World) -> None:
            for each in world.all(DEPLOYMENTS):
                strategy = each["spec"]["strategy"]
                pods = [it for it in world.all(PODS) if "deletionTimestamp" not in it["metadata"]]
                if strategy["type"] == "Recreate":
                    everyone = world.all(PODS)
                    assert len({it["metadata"]["labels"]["pod-template-hash"] for it in everyone}) <= 1
                    continue
                rolling, wanted = strategy["rollingUpdate"], each["spec"]["replicas"]
                surge = scaled(rolling["maxSurge"], wanted, round_up=True)
                missing = scaled(rolling["maxUnavailable"], wanted, round_up=False)
                ready = sum(it.get("status", {}).get("phase") == "Running" for it in pods)
                assert len(pods) <= max(wanted + surge, before[0])
                assert ready >= min(wanted - (missing if surge or missing else 1), before[1])
                before[:] = [len(pods), ready]

        before = [0, 0]
        world.watchers.append(law)


class CronJobCase:
    name = "cron-job"
    resources = (CRON_JOBS, JOBS)
    horizon_seconds = 3600.0
    kubelet = False

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [CronJobController(objects)]

    def watch(self, world: World) -> None:
        pass

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        policy = chance.choice(["Allow", "Forbid", "Replace"])
        spec = {
            "schedule": chance.choice(["*/20 * * * *", "0 * * * *", "7,13,50 * * * *", "@hourly"]),
            "timeZone": chance.choice(["Europe/Berlin", "Asia/Kolkata", "UTC"]),
            "concurrencyPolicy": policy,
            "successfulJobsHistoryLimit": chance.randrange(3),
            "failedJobsHistoryLimit": chance.randrange(2),
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
                    }
                }
            },
        }
        ends = [chance.choice(["Complete", "Failed", ""]) for _ in range(40)]

        async def begin(world: World) -> None:
            await world.create(CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec})

        async def end_jobs(world: World) -> None:
            for number, job in enumerate(world.all(JOBS)):
                end = ends[number]
                if not end or (job.get("status") or {}).get("conditions"):
                    continue
                await finish(world, job["metadata"]["name"], end)

        async def wait(world: World) -> None:
            pass

        return [begin, end_jobs, wait, end_jobs, wait]


async def finish(world: World, name: str, end: str) -> None:
    """What the Job controller writes at the end of a Job."""
    now = world.store.now()
    both = ["SuccessCriteriaMet", "Complete"] if end == "Complete" else ["FailureTarget", "Failed"]
    conditions = [{"type": it, "status": "True", "lastTransitionTime": now, "lastProbeTime": now} for it in both]
    status: Manifest = {"startTime": now, "conditions": conditions}
    if end == "Complete":
        status["completionTime"] = now
    await world.patch(JOBS, name, {"status": status}, subresource="status")


class NodeCase:
    """Nodes that fall silent, come back or are taken away, with pods that bear it for longer or shorter."""

    name = "node"
    resources = (NODES, PODS)
    horizon_seconds = 400.0
    kubelet = False

    def controllers(self, objects: Any, world: World) -> Sequence[Any]:
        return [NodeController(objects, monotonic=world.seconds)]

    def watch(self, world: World) -> None:
        world.longest_jump_seconds = 10.0
        world.nature.append(_renew_leases)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        patience = [chance.choice([None, 0, 30, 300]) for _ in range(6)]
        silent, gone = chance.sample(["n0", "n1", "n2"], 2)

        async def begin(world: World) -> None:
            for name in ("n0", "n1", "n2"):
                await add_node(world, name)
            for number, seconds in enumerate(patience):
                await world.create(PODS, _patient_pod(f"p{number}", f"n{number % 3}", seconds))

        async def fall_silent(world: World) -> None:
            await world.patch(NODES, silent, {"metadata": {"labels": {"silent": "yes"}}}, "")

        async def take_away(world: World) -> None:
            await world.objects.delete(NODES, gone)

        async def come_back(world: World) -> None:
            await world.patch(NODES, silent, {"metadata": {"labels": {"silent": None}}}, "")
            await report_ready(world, silent)

        return [begin, fall_silent, take_away, come_back]


async def add_node(world: World, name: str) -> None:
    await world.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}, "")
    lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}}
    await world.create(LEASES, lease, LEASE_NAMESPACE)
    await report_ready(world, name)


async def report_ready(world: World, name: str) -> None:
    """What a kubelet says when it is well."""
    now = world.store.now()
    conditions = [
        {"type": it, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for it, status in (("MemoryPressure", "False"), ("Ready", "True"))
    ]
    await world.patch(NODES, name, {"status": {"conditions": conditions}}, "", "status")


async def _renew_leases(world: World) -> bool:
    now = world.seconds()
    text = world.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    for node in world.all(NODES):
        name = node["metadata"]["name"]
        if "silent" in node["metadata"].get("labels", {}):
            continue
        lease = await world.get(LEASES, name, LEASE_NAMESPACE)
        renewed = lease["spec"].get("renewTime")
        if renewed is None or moment(renewed) + 10 <= now:
            await world.patch(LEASES, name, {"spec": {"renewTime": text}}, LEASE_NAMESPACE)
    return False


def _patient_pod(name: str, node: str, seconds: int | None) -> Manifest:
    tolerations: list[Manifest] = [
        {"key": f"node.kubernetes.io/{it}", "operator": "Exists", "effect": "NoExecute"}
        for it in ("not-ready", "unreachable")
    ]
    if seconds is not None:
        tolerations = [{**it, "tolerationSeconds": seconds} for it in tolerations]
    containers = [{"name": "c", "image": "x"}]
    spec = {"nodeName": node, "containers": containers, "tolerations": tolerations}
    return {"metadata": {"name": name}, "spec": spec}


class DisruptionBudgetCase:
    name = "disruption-budget"
    resources = (BUDGETS,)
    horizon_seconds = 150.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [
            DeploymentController(objects),
            ReplicaSetController(objects),
            DisruptionBudgetController(objects),
        ]

    def watch(self, world: World) -> None:
        pass

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        rule: Manifest = chance.choice(
            [{"minAvailable": 2}, {"minAvailable": "60%"}, {"maxUnavailable": 1}, {"maxUnavailable": "50%"}]
        )

        async def begin(world: World) -> None:
            await world.create(DEPLOYMENTS, deployment(replicas=chance.randrange(5)))
            spec: Manifest = {"selector": {"matchLabels": {"app": "web"}}}
            spec |= rule
            await world.create(BUDGETS, {"metadata": {"name": "enough"}, "spec": spec})

        async def evict(world: World) -> None:
            for pod in world.all(PODS):
                with contextlib.suppress(StatusError):
                    await world.objects.evict("default", pod["metadata"]["name"], {})

        async def relax(world: World) -> None:
            rest = {"minAvailable": None, "maxUnavailable": None}
            await world.patch(BUDGETS, "enough", {"spec": {**rest, "minAvailable": 1}})

        return [begin, evict, relax]


class ResourceQuotaCase:
    name = "resource-quota"
    resources = (QUOTAS,)
    horizon_seconds = 0.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [ReplicaSetController(objects)]

    def watch(self, world: World) -> None:
        pass

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        size = chance.randrange(4)
        hard = {
            "pods": "10",
            "requests.cpu": "4",
            "limits.memory": "8Gi",
            "count/replicasets.apps": "3",
            "secrets": "5",
        }

        async def begin(world: World) -> None:
            await world.create(QUOTAS, {"metadata": {"name": "all"}, "spec": {"hard": hard}})
            scoped = {"hard": {"pods": "3"}, "scopes": ["BestEffort"]}
            await world.create(QUOTAS, {"metadata": {"name": "idle"}, "spec": scoped})
            manifest = replica_set(replicas=size)
            resources = {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}} if chance.random() < 0.6 else {}
            manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
            await world.create(REPLICA_SETS, manifest)

        async def grow(world: World) -> None:
            await world.patch(REPLICA_SETS, "web", {"spec": {"replicas": size + 2}})

        async def end_some(world: World) -> None:
            for pod in world.all(PODS)[:2]:
                status = {"status": {"phase": "Succeeded"}}
                await world.patch(PODS, pod["metadata"]["name"], status, subresource="status")
            await world.patch(QUOTAS, "all", {"spec": {"hard": {"secrets": None, "pods": "20"}}})

        async def end_all(world: World) -> None:
            await world.objects.delete(REPLICA_SETS, "web", "default")

        return [begin, grow, end_some, end_all]


class VolumeBindingCase:
    name = "volume-binding"
    resources = (CLAIMS, VOLUMES)
    horizon_seconds = 20.0
    kubelet = False

    def controllers(self, objects: Any, world: World) -> Sequence[Any]:
        return [VolumeBindingController(objects, "/volumes", monotonic=world.seconds)]

    def watch(self, world: World) -> None:
        """No volume has two claims, and no two claims one volume."""

        def law(world: World) -> None:
            taken = [it["spec"]["volumeName"] for it in world.all(CLAIMS) if it["spec"].get("volumeName")]
            assert len(taken) == len(set(taken))

        world.watchers.append(law)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        sizes = [chance.choice(["1Gi", "2Gi", "5Gi"]) for _ in range(4)]
        classes = [chance.choice(["", "local", "made", "late"]) for _ in range(4)]
        node = chance.choice(["n0", "n1"])

        async def begin(world: World) -> None:
            await world.create(NODES, {"metadata": {"name": "n0", "labels": {"kubernetes.io/hostname": "n0"}}}, "")
            for name, mode in (("made", "Immediate"), ("late", "WaitForFirstConsumer")):
                made = {"metadata": {"name": name}, "provisioner": PROVISIONER, "volumeBindingMode": mode}
                await world.create(CLASSES, made, "")
            for number, size in enumerate(("1Gi", "3Gi", "10Gi")):
                await world.create(VOLUMES, _volume(f"v{number}", size, ("", "local")[number % 2]), "")
            for number, (size, name) in enumerate(zip(sizes, classes, strict=True)):
                await world.create(CLAIMS, _claim(f"c{number}", size, name))

        async def choose_node(world: World) -> None:
            for claim in world.all(CLAIMS):
                note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}
                if claim["spec"]["storageClassName"] == "late":
                    await world.patch(CLAIMS, claim["metadata"]["name"], note)

        async def let_go(world: World) -> None:
            for number in (0, 1):
                await world.objects.delete(CLAIMS, f"c{number}", "default")

        return [begin, choose_node, let_go]


def _volume(name: str, size: str, class_name: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "hostPath": {"path": f"/volumes/{name}"},
        },
    }


def _claim(name: str, size: str, class_name: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        },
    }


class VolcanoJobCase:
    """Jobs with stages, policies and commands: pods fail, are taken away, and their Job is suspended and scaled."""

    name = "volcano-job"
    resources = (VOLCANO_JOBS, PODS, VOLCANO_GROUPS, CONFIG_MAPS, COMMANDS)
    horizon_seconds = 30.0
    kubelet = True

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [VolcanoJobController(objects, gathers=False)]

    def watch(self, world: World) -> None:
        """There are never two pods for one place, and never more retries than allowed."""

        def law(world: World) -> None:
            for job in world.all(VOLCANO_JOBS) if world.all(DEFINITIONS) else []:
                assert (job.get("status") or {}).get("retryCount", 0) <= job["spec"]["maxRetry"]
                assert len(world.all(PODS)) <= 8

        world.watchers.append(law)
        world.nature.append(_open_groups)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        actions = ("RestartJob", "RestartTask", "RestartPod", "AbortJob", "CompleteJob")
        policies = [{"event": it, "action": chance.choice(actions)} for it in ("PodFailed", "PodEvicted")]
        spec = volcano_spec(chance.randrange(1, 4))
        last = {**spec["tasks"][0], "name": "last", "replicas": 2, "dependsOn": {"name": ["work"]}}
        spec |= {"tasks": [*spec["tasks"], last], "policies": policies, "maxRetry": 3, "plugins": {"svc": []}}
        orders = [chance.choice(["AbortJob", "ResumeJob", "RestartJob"]) for _ in range(2)]

        async def begin(world: World) -> None:
            await world.create(DEFINITIONS, COMMAND.manifest(), "")
            await define(world, JOB, POD_GROUP)
            await world.create(VOLCANO_JOBS, {"metadata": {"name": "j"}, "spec": spec})

        async def end_one(world: World) -> None:
            for pod in world.all(PODS)[:1]:
                status = {"phase": chance.choice(["Failed", "Succeeded"])}
                await world.patch(PODS, pod["metadata"]["name"], {"status": status}, subresource="status")

        async def evict_one(world: World) -> None:
            for pod in world.all(PODS)[-1:]:
                await world.objects.delete(PODS, pod["metadata"]["name"], "default")

        async def order(world: World) -> None:
            target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": ""}
            for number, action in enumerate(orders):
                body = {"metadata": {"name": f"c{number}"}, "action": action, "target": target}
                await world.create(COMMANDS, body)

        async def scale(world: World) -> None:
            tasks = [{**it, "replicas": it["replicas"] + 1} for it in spec["tasks"]]
            await world.patch(VOLCANO_JOBS, "j", {"spec": {"tasks": tasks}})

        middle = chance.sample([end_one, evict_one, order, scale], 4)
        return [begin, *middle]


async def _open_groups(world: World) -> bool:
    """What the scheduler writes when a queue has room."""
    changed = False
    for group in world.all(VOLCANO_GROUPS) if world.all(DEFINITIONS) else []:
        if not group.get("status"):
            changed = True
            await world.patch(VOLCANO_GROUPS, group["metadata"]["name"], {"status": {"phase": "Inqueue"}})
    return changed


CASES: Sequence[Case] = (
    ReplicaSetCase(),
    DeploymentCase(),
    StatefulSetCase(),
    DaemonSetCase(),
    CronJobCase(),
    VolcanoCronJobCase(),
    VolcanoJobCase(),
    JobFlowCase(),
    NodeCase(),
    DisruptionBudgetCase(),
    ResourceQuotaCase(),
    RoleAggregationCase(),
    VolumeBindingCase(),
)
