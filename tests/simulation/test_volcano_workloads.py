"""Plain pods, Deployments and Jobs of Kubernetes that were written for Volcano, in the whole system on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.queue import QUEUE
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS
from allhands.lifecycle.volcano_job.names import POD_GROUPS, PODS
from allhands.ports import Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster

JOBS = Resource("batch", "v1", "jobs")
EVENTS = Resource("", "v1", "events")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GROUP = "scheduling.k8s.io/group-name"


async def node(cluster: SimulatedCluster, name: str, cpu: str = "4") -> None:
    await add_node(cluster.objects, node_manifest(name, NodeSize(cpu), cluster.store.now()))


def pod_spec(cpu: str = "2", **spec: Any) -> Manifest:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"schedulerName": "volcano", "containers": [container], **spec}


def deployment(replicas: int, notes: dict[str, str], **notes_of_pods: str) -> Manifest:
    template = {"metadata": {"labels": {"app": "web"}, "annotations": notes_of_pods}, "spec": pod_spec()}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": "web", "annotations": notes}, "spec": spec}


async def listed(cluster: SimulatedCluster, resource: Resource) -> list[Manifest]:
    page = await cluster.objects.list(resource, Query(namespace="default"))
    return [msgspec.json.decode(it) for it in page.items]


async def until(cluster: SimulatedCluster, good: Callable[[], Any], within_seconds: float = 300) -> None:
    give_up = cluster.seconds + within_seconds
    while not await good():
        if cluster.seconds > give_up:
            pods = [(it["metadata"]["name"], it["status"]) for it in await listed(cluster, PODS)]
            raise AssertionError(f"never as wanted: {pods} {await listed(cluster, POD_GROUPS)}")
        await asyncio.sleep(0.5)


async def placed(cluster: SimulatedCluster) -> int:
    return sum(1 for it in await listed(cluster, PODS) if it["spec"].get("nodeName"))


def test_pods_of_a_deployment_start_together_as_its_annotation_says() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        await cluster.objects.create(QUEUE.resource, {"metadata": {"name": "research"}, "spec": {}})
        await node(cluster, "n0")
        await cluster.objects.create(
            DEPLOYMENTS, deployment(3, {MIN_MEMBER: "3"}, **{QUEUE_NAME: "research"}), "default"
        )
        await asyncio.sleep(60)
        assert await placed(cluster) == 0
        (group,) = await listed(cluster, POD_GROUPS)
        pods = await listed(cluster, PODS)
        assert {it["metadata"]["annotations"][GROUP] for it in pods} == {group["metadata"]["name"]}
        assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "research")
        (condition,) = group["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
        await node(cluster, "n1")

        async def all_run() -> bool:
            (group,) = await listed(cluster, POD_GROUPS)
            queue = (await cluster.objects.get(QUEUE.resource, "research")).manifest()["status"]
            return (
                await placed(cluster) == 3
                and group["status"].get("phase") == "Running"
                and group["status"].get("running") == 3
                and queue.get("running") == 1
                and queue["allocated"].get("cpu") == "6"
            )

        await until(cluster, all_run)

    simulate(story)


def test_no_pod_starts_before_its_group_is_there_even_if_the_controllers_sleep() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        await node(cluster, "n0", "64")
        body = deployment(3, {MIN_MEMBER: "3"})
        await cluster.objects.create(DEPLOYMENTS, body, "default")
        seen: list[tuple[int, int]] = []
        for _ in range(400):
            groups, bound = await listed(cluster, POD_GROUPS), await placed(cluster)
            seen.append((len(groups), bound))
            if bound == 3:
                break
            await asyncio.sleep(0.01)
        assert seen[-1] == (1, 3)
        assert all(bound == 0 for groups, bound in seen if not groups)

    simulate(story)


def test_a_rolled_out_deployment_has_one_group_and_none_is_left_behind() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        await node(cluster, "n0", "64")
        await cluster.objects.create(DEPLOYMENTS, deployment(3, {MIN_MEMBER: "2"}), "default")

        async def running() -> bool:
            groups = await listed(cluster, POD_GROUPS)
            return len(groups) == 1 and groups[0].get("status", {}).get("running") == 3

        await until(cluster, running)
        (before,) = await listed(cluster, POD_GROUPS)
        patch = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        await cluster.objects.patch(DEPLOYMENTS, "web", "merge", patch, "default")

        async def another_runs() -> bool:
            groups = await listed(cluster, POD_GROUPS)
            names = [it["metadata"]["name"] for it in groups]
            return before["metadata"]["name"] not in names and await running()

        await until(cluster, another_runs)

    simulate(story)


def test_a_group_that_is_refused_is_told_and_its_pods_wait_until_it_can_be_made() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        await node(cluster, "n0", "64")
        await cluster.objects.create(DEPLOYMENTS, deployment(3, {MIN_MEMBER: "3"}, **{QUEUE_NAME: "late"}), "default")

        async def told() -> bool:
            events = await listed(cluster, EVENTS)
            return any(it["reason"] == "PodGroupRefused" and "spec.queue" in it["message"] for it in events)

        await until(cluster, told)
        await asyncio.sleep(30)
        assert (await placed(cluster), await listed(cluster, POD_GROUPS)) == (0, [])
        said = [it for pod in await listed(cluster, PODS) for it in pod["status"].get("conditions") or ()]
        assert len(said) == 3
        assert all(it["message"].endswith('" does not exist.') for it in said)
        await cluster.objects.create(QUEUE.resource, {"metadata": {"name": "late"}, "spec": {}})

        async def all_placed() -> bool:
            return await placed(cluster) == 3

        await until(cluster, all_placed, within_seconds=1800)

    simulate(story)


def test_plain_pods_go_at_once_and_have_a_group_each_that_their_queue_counts() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        await node(cluster, "n0", "64")
        for name in ("a", "b"):
            await cluster.objects.create(PODS, {"metadata": {"name": name}, "spec": pod_spec()}, "default")

        async def counted() -> bool:
            groups = await listed(cluster, POD_GROUPS)
            queue = (await cluster.objects.get(QUEUE.resource, "default")).manifest()["status"]
            return [it.get("status", {}).get("phase") for it in groups] == ["Running"] * 2 and queue["running"] == 2

        await until(cluster, counted)
        await cluster.objects.delete(PODS, "a", "default")

        async def one_left() -> bool:
            return len(await listed(cluster, POD_GROUPS)) == 1

        await until(cluster, one_left)

    simulate(story)


def test_a_job_of_kubernetes_is_a_gang_by_volcanos_annotation_and_ends() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        await node(cluster, "n0")
        template = {"spec": pod_spec(restartPolicy="Never")}
        template["metadata"] = {"annotations": {"allhands.dev/run-seconds": "20"}}
        spec = {"parallelism": 3, "completions": 3, "template": template}
        await cluster.objects.create(
            JOBS, {"metadata": {"name": "sums", "annotations": {MIN_MEMBER: "3"}}, "spec": spec}, "default"
        )
        await asyncio.sleep(30)
        assert await placed(cluster) == 0
        await node(cluster, "n1")

        async def done() -> bool:
            status = (await cluster.objects.get(JOBS, "sums", "default")).manifest().get("status") or {}
            return any(it["type"] == "Complete" for it in status.get("conditions") or ())

        await until(cluster, done)
        (group,) = await listed(cluster, POD_GROUPS)
        assert group["spec"]["minMember"] == 3

    simulate(story)
