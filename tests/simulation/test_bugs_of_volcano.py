"""Bugs that Volcano's controllers, scheduler loop and webhooks had, by their numbers, each as what must happen here
instead, in the whole system or with the part that it is about. Those of its decisions are in
`tests/scenarios/test_bugs_of_our_peers.py` and `tests/scenarios/test_preemption.py`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.lifecycle.resource_quota import QUOTAS
from allhands.lifecycle.volcano_job import JOBS
from allhands.ports import Query
from allhands.runtime.installation.webhooks import by_service, configurations
from tests.manifests import NAMESPACES, PODS, PRIORITY_CLASSES
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time
from tests.volcano_jobs import job, policy, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster
    from tests.virtual import Request

CLAIMS = Resource("", "v1", "persistentvolumeclaims")
CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")
HANGS_SECONDS = 600.0


async def nodes(cluster: SimulatedCluster, count: int, cpu: int = 4) -> None:
    await cluster.ready()
    for number in range(count):
        await add_node(cluster.objects, node_manifest(f"node-{number}", NodeSize(str(cpu)), cluster.store.now()))


async def status_of(cluster: SimulatedCluster, name: str, namespace: str = "default") -> Manifest:
    return (await cluster.objects.get(JOBS, name, namespace)).manifest().get("status") or {}


async def reaches(cluster: SimulatedCluster, name: str, phase: str, namespace: str = "default") -> Manifest:
    give_up = cluster.seconds + 900
    while True:
        status = await status_of(cluster, name, namespace)
        if (status.get("state") or {}).get("phase") == phase:
            return status
        assert cluster.seconds < give_up, status
        await asyncio.sleep(0.5)


async def pods_of(cluster: SimulatedCluster, name: str) -> list[Manifest]:
    page = await cluster.objects.list(PODS, Query(namespace="default", labels=f"volcano.sh/job-name={name}"))
    return [msgspec.json.decode(raw) for raw in page.items]


def nobody_died(cluster: SimulatedCluster) -> None:
    assert {name: it.incarnations for name, it in cluster.parts.items()} == dict.fromkeys(cluster.parts, 1)


def test_volcano_2897_a_job_in_stages_that_was_preempted_comes_back_in_stages() -> None:
    """volcano#2897: a worker that waits for a task which is made after it held the controller for ever, once both had
    been preempted. The worker stands first in the manifest, as it did there."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        await cluster.objects.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
        staged = job(
            "staged",
            task("worker", 2, seconds=60, dependsOn={"name": ["master"]}),
            task("master", 1, seconds=200),
            policies=[policy("RestartJob", "PodEvicted")],
            minAvailable=3,
        )
        await cluster.objects.create(JOBS, staged, "default")
        await reaches(cluster, "staged", "Running")
        urgent = task("urgent", 4, seconds=30)
        urgent["template"]["spec"]["priorityClassName"] = "high"
        await cluster.objects.create(JOBS, job("urgent", urgent, priorityClassName="high"), "default")
        await reaches(cluster, "urgent", "Running")
        assert not [it for it in await pods_of(cluster, "staged") if it["status"].get("phase") == "Running"]
        # The controller goes on with others meanwhile.
        await cluster.objects.create(JOBS, job("other", task("a", 1, seconds=5)), "default")
        await reaches(cluster, "urgent", "Completed")
        await reaches(cluster, "other", "Completed")
        status = await reaches(cluster, "staged", "Completed")
        assert status["succeeded"] == 3
        nobody_died(cluster)

    simulate(story)


@on_virtual_time
async def test_volcano_4692_a_claim_whose_write_hangs_keeps_nobody_else_waiting() -> None:
    """volcano#4692: a lock was held over a call about a claim that hung, and nothing was scheduled for up to 600 s."""
    world = SchedulerWorld()
    await world.node("a", 4)
    later = {"metadata": {"name": "later"}, "provisioner": "example.com/disks"}
    await world.objects.create(CLASSES, later | {"volumeBindingMode": "WaitForFirstConsumer"})
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": asked | {"storageClassName": "later"}}
    await world.objects.create(CLAIMS, claim, "default")

    def hangs(request: Request) -> float:
        return HANGS_SECONDS if request.kind == "persistentvolumeclaims" and request.verb == "patch" else 0.0

    world.noted.take_seconds = hangs
    gang = await world.job("gang", 2, min_available="all")
    await world.job_pods(gang, 2, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    async with world.scheduling():
        await asyncio.sleep(1)
        assert world.noted.of("patch", "persistentvolumeclaims")
        for number in range(2):
            await world.pod(f"other-{number}")
            await asyncio.sleep(1)
            assert f"other-{number}" in await world.bound()
        assert "gang-0" not in await world.bound()


def test_volcano_5568_pods_may_come_before_their_group() -> None:
    """volcano#5568: the event of a pod came before that of its PodGroup, and the scheduler ended by a nil pointer."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        for number in range(2):
            metadata = {"name": f"p-{number}", "annotations": {"scheduling.k8s.io/group-name": "late"}}
            spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
            await cluster.objects.create(PODS, {"metadata": metadata, "spec": spec}, "default")
        await asyncio.sleep(10)
        pods = [msgspec.json.decode(raw) for raw in (await cluster.objects.list(PODS)).items]
        assert not [it for it in pods if it["spec"].get("nodeName")]
        group = {"metadata": {"name": "late"}, "spec": {"minMember": 2}}
        await cluster.objects.create(POD_GROUP.resource, group, "default")
        await asyncio.sleep(10)
        pods = [msgspec.json.decode(raw) for raw in (await cluster.objects.list(PODS)).items]
        assert [it["spec"].get("nodeName") for it in pods] == ["node-0"] * 2
        # And a group that goes before its pods.
        await cluster.objects.delete(POD_GROUP.resource, "late", "default")
        await cluster.objects.create(JOBS, job("after", task("a", 1, seconds=5)), "default")
        await reaches(cluster, "after", "Completed")
        nobody_died(cluster)

    simulate(story)


def test_volcano_2488_a_namespace_without_a_quota_is_like_any_other() -> None:
    """volcano#2488: with the plugin for quotas on, the first Job of a namespace without any ended the scheduler."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        for name in ("with", "without", "empty"):
            await cluster.objects.create(NAMESPACES, {"metadata": {"name": name}})
        hard = {"hard": {"requests.cpu": "2"}}
        await cluster.objects.create(QUOTAS, {"metadata": {"name": "ours"}, "spec": hard}, "with")
        await cluster.objects.create(QUOTAS, {"metadata": {"name": "ours"}, "spec": {}}, "empty")
        for name in ("with", "without", "empty"):
            await cluster.objects.create(JOBS, job("train", task("a", 2, seconds=5)), name)
        for name in ("with", "without", "empty"):
            await reaches(cluster, "train", "Completed", name)
        nobody_died(cluster)

    simulate(story)


def test_volcano_1073_2481_a_claim_that_is_not_there_is_waited_for_and_others_go_on() -> None:
    """volcano#1073, volcano#2481: a missing claim or volume ended the scheduler."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        reader = task("reader", 1, seconds=5)
        reader["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
        await cluster.objects.create(JOBS, job("reads", reader), "default")
        named = [{"mountPath": "/data", "volumeClaimName": "missing"}]
        await cluster.objects.create(JOBS, job("mounts", task("a", 1, seconds=5), volumes=named), "default")
        await cluster.objects.create(JOBS, job("plain", task("a", 1, seconds=5)), "default")
        await reaches(cluster, "plain", "Completed")
        for name in ("reads", "mounts"):
            state = (await status_of(cluster, name))["state"]
            assert state["phase"] == "Pending"
            assert "missing" in state["message"]
        nobody_died(cluster)

    simulate(story)


def test_volcano_6db3122_what_is_being_bound_is_counted_once_in_its_queue() -> None:
    """volcano 0b82db7, 6db3122: what a queue had let in was counted again for pods that were being bound, so that the
    queue looked full and let nobody in."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        body = {"metadata": {"name": "four"}, "spec": {"capability": {"cpu": "4"}}}
        await cluster.objects.create(QUEUE.resource, body)
        for name in ("first", "second"):
            await cluster.objects.create(JOBS, job(name, task("a", 2, seconds=300), queue="four"), "default")
        await reaches(cluster, "first", "Running")
        await reaches(cluster, "second", "Running")
        assert (await status_of(cluster, "first"))["state"]["phase"] == "Running"

    simulate(story)


def test_volcano_6010_a_gang_that_is_enlarged_gets_all_of_its_new_pods_or_none() -> None:
    """volcano#6010: with a stale PodGroup, a part of what a gang had been enlarged by was bound."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1, cpu=3)
        await cluster.objects.create(JOBS, job("grown", task("a", 2, seconds=3000)), "default")
        await reaches(cluster, "grown", "Running")
        spec = (await cluster.objects.get(JOBS, "grown", "default")).manifest()["spec"]
        larger = {"minAvailable": 4, "tasks": [{**spec["tasks"][0], "replicas": 4, "minAvailable": 4}]}
        await cluster.objects.patch(JOBS, "grown", "merge", {"spec": larger}, "default")
        await asyncio.sleep(60)
        assert sum("nodeName" in it["spec"] for it in await pods_of(cluster, "grown")) == 2
        await add_node(cluster.objects, node_manifest("more", NodeSize("3"), cluster.store.now()))
        await asyncio.sleep(60)
        assert sum("nodeName" in it["spec"] for it in await pods_of(cluster, "grown")) == 4
        nobody_died(cluster)

    simulate(story)


def test_volcano_2244_3734_a_webhook_that_is_down_blocks_no_pods_and_nothing_of_the_system() -> None:
    """volcano#2244, volcano#3734: while the webhook was down no pod could be made, not even those of the webhook.

    What a real API server does then: `tests/cluster/test_webhooks.py`."""
    ours = {it.group for it in VOLCANO_KINDS}
    for configuration in configurations("home", by_service("home")):
        for webhook in configuration["webhooks"]:
            groups = {group for rule in webhook["rules"] for group in rule["apiGroups"]}
            assert webhook["failurePolicy"] == "Ignore" or groups <= ours
            (exempt,) = webhook["namespaceSelector"]["matchExpressions"]
            assert exempt["operator"] == "NotIn"
            assert {"kube-system", "home"} <= set(exempt["values"])
