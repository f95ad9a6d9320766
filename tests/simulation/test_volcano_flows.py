"""CronJobs, flows, HyperNodes and Numatopologies of Volcano in the whole system on virtual time, crashes included."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.lifecycle.job_flow.documents import FLOWS, JOBS, TEMPLATES
from allhands.lifecycle.volcano_cron_job import VOLCANO
from allhands.ports import Query
from tests.crashing import crashed_at_every
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster
    from allhands.sim.faults import CrashAt

PLAIN_JOBS = Resource("batch", "v1", "jobs")


async def nodes(cluster: SimulatedCluster, count: int = 2) -> None:
    await cluster.ready()
    for number in range(count):
        await add_node(cluster.objects, node_manifest(f"node-{number}", NodeSize("8"), cluster.store.now()))


async def reaches(
    cluster: SimulatedCluster,
    resource: Resource,
    name: str,
    good: Callable[[Manifest], bool],
    *,
    namespace: str = "default",
    within_seconds: float = 900,
) -> Manifest:
    """The object's status, as soon as it is as wanted."""
    give_up = cluster.seconds + within_seconds
    while True:
        status = (await cluster.objects.get(resource, name, namespace)).manifest().get("status") or {}
        if good(status):
            return status
        if cluster.seconds > give_up:
            raise AssertionError(f"{name} is never as wanted: {status}")
        await asyncio.sleep(0.5)


async def jobs(cluster: SimulatedCluster) -> list[Manifest]:
    return [msgspec.json.decode(it) for it in (await cluster.objects.list(JOBS, Query(namespace="default"))).items]


async def template(cluster: SimulatedCluster, name: str, *tasks: Manifest, **spec: Any) -> None:
    manifest = {
        "metadata": {"name": name},
        "spec": job("x", *(tasks or (task("work", 2, seconds=20),)), **spec)["spec"],
    }
    await cluster.objects.create(TEMPLATES, manifest, "default")


async def flow(cluster: SimulatedCluster, *steps: Manifest, **spec: Any) -> None:
    await cluster.objects.create(FLOWS, {"metadata": {"name": "f"}, "spec": {"flows": list(steps), **spec}}, "default")


def phase_is(phase: str) -> Callable[[Manifest], bool]:
    return lambda status: (status.get("state") or {}).get("phase") == phase


def test_a_flow_of_real_jobs_runs_to_its_end_in_its_order() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster)
        for name in ("load", "train", "serve", "check"):
            await template(cluster, name)
        waits = {"probe": {"httpGetList": [{"taskName": "work", "path": "/", "port": 80}]}}
        await flow(
            cluster,
            {"name": "check", "dependsOn": {"targets": ["serve"], **waits}},
            {"name": "serve", "dependsOn": {"targets": ["train", "job.batch/data"]}},
            {"name": "train", "dependsOn": {"targets": ["load"]}, "patch": {"jobSpec": {"tasks": [{"replicas": 3}]}}},
            {"name": "load"},
        )
        containers = [{"name": "c", "image": "x"}]
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
        await cluster.objects.create(PLAIN_JOBS, {"metadata": {"name": "data"}, "spec": spec}, "default")
        status = await reaches(cluster, FLOWS, "f", phase_is("Succeed"))
        assert sorted(status["completedJobs"]) == ["f-check", "f-load", "f-serve", "f-train"]
        found = {it["metadata"]["name"]: it for it in await jobs(cluster)}
        began = {name: it["metadata"]["creationTimestamp"] for name, it in found.items()}
        assert began["f-load"] < began["f-train"] < began["f-serve"] < began["f-check"]
        assert found["f-train"]["status"]["succeeded"] == 3
        # Its probe let it begin while the other still ran.
        ends = {name: it["status"]["state"]["lastTransitionTime"] for name, it in found.items()}
        assert began["f-check"] < ends["f-serve"]
        listed = await reaches(cluster, TEMPLATES, "train", bool)
        assert listed["jobDependsOnList"] == ["f-train"]

    simulate(story)


def test_a_flow_whose_controllers_die_at_any_write_makes_each_job_once() -> None:
    """Every eleventh write, before and after it took effect by turns."""

    def run(crash: CrashAt) -> bool:
        async def story(cluster: SimulatedCluster) -> bool:
            cluster.parts["controllers"].crash_at(crash)
            await nodes(cluster)
            for name in ("a", "b"):
                await template(cluster, name, task("work", 1, seconds=5))
            await flow(cluster, {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}, jobRetainPolicy="delete")
            uids: dict[str, dict[str, None]] = {}
            give_up = cluster.seconds + 900
            while True:
                found = await jobs(cluster)
                for it in found:
                    uids.setdefault(it["metadata"]["name"], {})[it["metadata"]["uid"]] = None
                status = (await cluster.objects.get(FLOWS, "f", "default")).manifest().get("status") or {}
                if phase_is("Succeed")(status) and not found:
                    break
                assert cluster.seconds < give_up, status
                await asyncio.sleep(0.2)
            assert {name: len(it) for name, it in uids.items()} == {"f-a": 1, "f-b": 1}
            return cluster.parts["controllers"].incarnations > 1

        return simulate(story)

    assert crashed_at_every(11, run) > 40


def test_a_flow_that_is_deleted_in_the_middle_leaves_nothing_behind() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster)
        for name in ("a", "b"):
            await template(cluster, name, task("work", 2, seconds=300))
        await flow(cluster, {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}})
        await reaches(cluster, FLOWS, "f", phase_is("Running"))
        await cluster.objects.delete(FLOWS, "f", "default")
        give_up = cluster.seconds + 300
        while await jobs(cluster):
            assert cluster.seconds < give_up
            await asyncio.sleep(1)

    simulate(story)


def test_a_cron_job_makes_one_volcano_job_for_each_time_and_keeps_account() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster)
        spec = job("x", task("work", 2, seconds=20))["spec"]
        cron = {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
            "successfulJobsHistoryLimit": 2,
        }
        await cluster.objects.create(VOLCANO.crons, {"metadata": {"name": "tick"}, "spec": cron}, "default")
        names: dict[str, None] = {}
        for _ in range(32):
            await asyncio.sleep(60)
            names |= dict.fromkeys(it["metadata"]["name"] for it in await jobs(cluster))
        assert 6 <= len(names) <= 7
        assert len(await jobs(cluster)) <= 3
        status = await reaches(cluster, VOLCANO.crons, "tick", bool)
        assert status["lastSuccessfulTime"] > status["lastScheduleTime"]

    simulate(story)


def test_hyper_nodes_and_numatopologies_are_told_what_becomes_of_them() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 3)
        members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "^node-[01]$"}}}]
        leaf = {"metadata": {"name": "leaf"}, "spec": {"tier": 1, "members": members}}
        await cluster.objects.create(HYPER_NODE.resource, leaf)
        await cluster.objects.create(NUMATOPOLOGY.resource, {"metadata": {"name": "node-0"}, "spec": {}})
        status = await reaches(cluster, HYPER_NODE.resource, "leaf", lambda it: it.get("nodeCount") == 2, namespace="")
        assert [(it["type"], it["status"]) for it in status["conditions"]] == [("Accepted", "True")]
        status = await reaches(cluster, NUMATOPOLOGY.resource, "node-0", bool, namespace="")
        assert [(it["type"], it["status"]) for it in status["conditions"]] == [("Used", "False")]

    simulate(story)
