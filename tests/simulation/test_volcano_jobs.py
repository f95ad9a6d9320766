"""Volcano Jobs in the whole system on virtual time: group, queue, gang, pods, policies, commands, and their ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.volcano.queue import QUEUE
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.lifecycle.command import COMMANDS
from allhands.lifecycle.resource_quota import QUOTAS
from allhands.lifecycle.volcano_job import JOBS, POD_GROUPS, PODS
from allhands.lifecycle.volcano_job.plugins.beside import CONFIG_MAPS, NETWORK_POLICIES, SECRETS, SERVICES
from allhands.ports import DeleteOptions, Query
from tests.crashing import crashed_at_every
from tests.manifests import NODES, PRIORITY_CLASSES
from tests.volcano_jobs import command, job, policy, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster
    from allhands.sim.faults import CrashAt


async def nodes(cluster: SimulatedCluster, count: int, cpu: int = 4) -> None:
    await cluster.ready()
    for number in range(count):
        await add_node(cluster.objects, node_manifest(f"node-{number}", NodeSize(str(cpu)), cluster.store.now()))


async def found(cluster: SimulatedCluster, name: str) -> Manifest:
    return (await cluster.objects.get(JOBS, name, "default")).manifest()


async def phase_of(cluster: SimulatedCluster, name: str) -> str:
    return str(((await found(cluster, name)).get("status") or {}).get("state", {}).get("phase", ""))


async def reaches(cluster: SimulatedCluster, name: str, phase: str, within_seconds: float = 600) -> None:
    give_up = cluster.seconds + within_seconds
    while await phase_of(cluster, name) != phase:
        if cluster.seconds > give_up:
            raise AssertionError(f"{name} is not {phase}: {(await found(cluster, name)).get('status')}")
        await asyncio.sleep(0.5)


async def pods_of(cluster: SimulatedCluster, name: str) -> list[Manifest]:
    page = await cluster.objects.list(PODS, Query(namespace="default", labels=f"volcano.sh/job-name={name}"))
    return [msgspec.json.decode(raw) for raw in page.items]


async def submit(cluster: SimulatedCluster, manifest: Manifest) -> None:
    await cluster.objects.create(JOBS, manifest, "default")


def test_a_job_runs_from_its_group_to_its_end() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        await submit(cluster, job("train", task("worker", 4, seconds=30)))
        await reaches(cluster, "train", "Running", 30)
        groups = await cluster.objects.list(POD_GROUPS, Query(namespace="default"))
        assert len(groups.items) == 1
        pods = await pods_of(cluster, "train")
        assert sorted(it["metadata"]["name"] for it in pods) == [f"train-worker-{it}" for it in range(4)]
        await reaches(cluster, "train", "Completed", 60)
        await asyncio.sleep(5)
        status: dict[str, Any] = (await found(cluster, "train"))["status"]
        assert status["succeeded"] == 4
        assert status.get("running", 0) == 0
        assert [it["status"] for it in status["conditions"]] == ["Pending", "Running", "Completed"]
        assert not (await cluster.objects.list(POD_GROUPS, Query(namespace="default"))).items
        assert len(await pods_of(cluster, "train")) == 4

    simulate(story)


def test_gangs_that_do_not_fit_together_run_one_after_the_other_and_say_why_they_wait() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        await submit(cluster, job("first", task("worker", 6, seconds=100)))
        await reaches(cluster, "first", "Running", 30)
        await submit(cluster, job("second", task("worker", 6, seconds=10)))
        await asyncio.sleep(40)
        status = (await found(cluster, "second"))["status"]
        assert status["state"]["phase"] == "Pending"
        assert "cpu" in status["state"]["message"]
        assert sum(bool(it["spec"].get("nodeName")) for it in await pods_of(cluster, "second")) == 0
        await reaches(cluster, "second", "Completed", 300)
        assert await phase_of(cluster, "first") == "Completed"

    simulate(story)


def test_a_gang_with_tasks_that_wait_for_others_starts_in_stages() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        workers = task("worker", 4, seconds=40, dependsOn={"name": ["master"]})
        await submit(cluster, job("train", workers, task("master", 1, seconds=100), minAvailable=5))
        await reaches(cluster, "train", "Running", 60)
        started = {it["metadata"]["name"]: it["status"]["startTime"] for it in await pods_of(cluster, "train")}
        assert len(started) == 5
        assert all(started["train-master-0"] <= it for it in started.values())
        await reaches(cluster, "train", "Completed", 200)

    simulate(story)


def test_a_later_stage_that_finds_no_room_waits_whole_and_leaves_the_first_alone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        await submit(cluster, job("other", task("worker", 4, seconds=200)))
        await reaches(cluster, "other", "Running", 30)
        workers = task("worker", 4, seconds=20, dependsOn={"name": ["master"]})
        await submit(cluster, job("train", task("master", 1, seconds=600), workers))
        await asyncio.sleep(120)
        pods = {it["metadata"]["name"]: it for it in await pods_of(cluster, "train")}
        assert pods["train-master-0"]["status"]["phase"] == "Running"
        first = pods["train-master-0"]["metadata"]["uid"]
        bound = [name for name, it in pods.items() if it["spec"].get("nodeName")]
        assert bound == ["train-master-0"], "all four or none"
        await reaches(cluster, "train", "Running", 300)
        await reaches(cluster, "train", "Completed", 900)
        last = {it["metadata"]["name"]: it["metadata"]["uid"] for it in await pods_of(cluster, "train")}
        assert last["train-master-0"] == first

    simulate(story)


def test_a_failing_job_is_restarted_until_its_retries_are_used_up() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        failing = task("worker", 2, seconds=10, end="3")
        await submit(cluster, job("bad", failing, policies=[policy("RestartJob", "PodFailed")], maxRetry=3))
        await reaches(cluster, "bad", "Failed", 300)
        await asyncio.sleep(10)
        status = (await found(cluster, "bad"))["status"]
        assert status["retryCount"] == 3
        assert status["version"] == 2
        assert "exit code 3" in status["state"]["message"]
        assert {it["metadata"]["annotations"]["volcano.sh/job-version"] for it in await pods_of(cluster, "bad")} == {
            "2"
        }

    simulate(story)


def test_a_job_is_suspended_by_a_command_and_gives_its_room_to_others() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        await submit(cluster, job("long", task("worker", 4, seconds=500)))
        await reaches(cluster, "long", "Running", 30)
        await cluster.objects.create(COMMANDS, command("stop", "AbortJob", "long"), "default")
        await reaches(cluster, "long", "Aborted", 60)
        await submit(cluster, job("short", task("worker", 4, seconds=20)))
        await reaches(cluster, "short", "Completed", 100)
        await cluster.objects.create(COMMANDS, command("go", "ResumeJob", "long"), "default")
        await reaches(cluster, "long", "Completed", 700)
        assert not (await cluster.objects.list(COMMANDS, Query(namespace="default"))).items

    simulate(story)


def test_a_template_that_the_server_refuses_is_told_and_holds_up_nobody() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        bad = task("worker", 2)
        bad["template"]["spec"]["priorityClassName"] = "missing"
        await submit(cluster, job("bad", bad))
        await submit(cluster, job("good", task("worker", 2, seconds=10)))
        await reaches(cluster, "good", "Completed", 60)
        state = (await found(cluster, "bad"))["status"]["state"]
        assert state["phase"] == "Pending"
        assert "no PriorityClass with name missing" in state["message"]

    simulate(story)


def test_pods_of_a_job_with_plugins_find_each_other() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        plugins: Manifest = {"svc": [], "env": [], "ssh": []}
        workers = task("worker", 2, seconds=100, minAvailable=1)
        await submit(cluster, job("train", workers, plugins=plugins, minAvailable=1))
        await reaches(cluster, "train", "Running", 30)
        for resource, name in ((SERVICES, "train"), (CONFIG_MAPS, "train-svc"), (SECRETS, "train-ssh")):
            owner = (await cluster.objects.get(resource, name, "default")).manifest()["metadata"]["ownerReferences"]
            assert owner[0]["kind"] == "Job"
        noted = (await found(cluster, "train"))["status"]["controlledResources"]
        assert noted == {"plugin-env": "env", "plugin-ssh": "ssh", "plugin-svc": "svc"}
        tasks = [{**workers, "replicas": 3}]
        await cluster.objects.patch(JOBS, "train", "merge", {"spec": {"tasks": tasks}}, "default")
        await asyncio.sleep(5)
        hosts = (await cluster.objects.get(CONFIG_MAPS, "train-svc", "default")).manifest()["data"]
        assert "train-worker-2" in hosts["worker.host"]
        await reaches(cluster, "train", "Completed", 200)
        await asyncio.sleep(10)
        for resource in (SERVICES, CONFIG_MAPS, NETWORK_POLICIES):
            left = await cluster.objects.list(resource, Query(namespace="default"))
            assert [it for it in left.items if b"train" in it] == [], "what plugins made goes at the end"
        assert not (await found(cluster, "train"))["status"].get("controlledResources")

    simulate(story)


def test_somebody_elses_service_of_the_same_name_is_told_and_left_alone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        theirs = {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 80}]}}
        await cluster.objects.create(SERVICES, theirs, "default")
        await submit(cluster, job("train", task("worker", 1, seconds=10), plugins={"svc": []}))
        await asyncio.sleep(30)
        state = (await found(cluster, "train"))["status"]["state"]
        assert 'services "train" already exists, and it belongs to nobody' in state["message"]
        await cluster.objects.delete(SERVICES, "train", "default")
        await reaches(cluster, "train", "Completed", 600)

    simulate(story)


def test_deleting_a_job_in_the_middle_leaves_nothing() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        await submit(cluster, job("train", task("worker", 4, seconds=1000), plugins={"svc": []}))
        await reaches(cluster, "train", "Running", 30)
        await cluster.objects.delete(JOBS, "train", "default")
        await asyncio.sleep(60)
        assert not await pods_of(cluster, "train")
        for resource in (POD_GROUPS, SERVICES, CONFIG_MAPS):
            left = await cluster.objects.list(resource, Query(namespace="default"))
            assert [it for it in left.items if b"train" in it] == []

    simulate(story)


@pytest.mark.parametrize("part", ["scheduler", "controllers", "kubelets"])
def test_after_a_crash_at_any_write_all_jobs_end(part: str) -> None:
    """Every eleventh write, before and after it took effect by turns."""

    def run(crash: CrashAt) -> bool:
        async def story(cluster: SimulatedCluster) -> bool:
            cluster.parts[part].crash_at(crash)
            await nodes(cluster, 2)
            workers = task("worker", 2, seconds=20, dependsOn={"name": ["master"]})
            await submit(cluster, job("stages", task("master", 1, seconds=60), workers, plugins={"svc": []}))
            failing = task("worker", 2, seconds=5, end="3")
            await submit(cluster, job("bad", failing, policies=[policy("RestartJob", "PodFailed")], maxRetry=2))
            await reaches(cluster, "stages", "Completed", 1000)
            await reaches(cluster, "bad", "Failed", 1000)
            assert (await found(cluster, "bad"))["status"]["retryCount"] == 2
            return cluster.parts[part].incarnations > 1

        return simulate(story)

    assert crashed_at_every(11, run) > 12


def test_a_job_that_has_ended_is_counted_in_its_own_queue() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        await cluster.objects.create(QUEUE.resource, {"metadata": {"name": "blue"}, "spec": {"weight": 1}})
        await submit(cluster, job("train", task("worker", 2, seconds=5), queue="blue"))
        await reaches(cluster, "train", "Completed")
        await asyncio.sleep(30)
        counts = [
            (await cluster.objects.get(QUEUE.resource, name)).manifest()["status"]["completed"]
            for name in ("blue", "default")
        ]
        assert counts == [1, 0]

    simulate(story)


def test_after_a_crash_at_any_write_time_outs_of_policies_end_as_if_there_was_none() -> None:
    """Every seventh write of the controllers. Evicted pods leave no trace but what the controllers have noted."""

    def run(crash: CrashAt) -> bool:
        async def story(cluster: SimulatedCluster) -> bool:
            controllers = cluster.parts["controllers"]
            controllers.crash_at(crash)
            await nodes(cluster, 1)
            for name, event in (("evicted", "PodEvicted"), ("updated", "JobUpdated")):
                policies = [policy("TerminateJob", event, timeout="2m")]
                await submit(cluster, job(name, task("worker", 2, seconds=9000), policies=policies, minAvailable=2))
            for name in ("evicted", "updated"):
                await reaches(cluster, name, "Running", 100)
            await cluster.objects.patch(NODES, "node-0", "merge", {"spec": {"unschedulable": True}})
            await cluster.objects.delete(PODS, "evicted-worker-1", "default", DeleteOptions(grace_seconds=0))
            await cluster.objects.patch(JOBS, "updated", "merge", {"spec": {"minAvailable": 1}}, "default")
            await asyncio.sleep(110)
            assert {await phase_of(cluster, name) for name in ("evicted", "updated")} <= {"Pending", "Running"}
            for name in ("evicted", "updated"):
                await reaches(cluster, name, "Terminated", 100)
            return controllers.incarnations > 1

        return simulate(story)

    assert crashed_at_every(7, run) > 12


def test_a_job_that_a_quota_of_its_namespace_would_refuse_waits_whole_says_why_and_lets_others_run() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        hard = {"hard": {"requests.cpu": "4", "pods": "10"}}
        await cluster.objects.create(QUOTAS, {"metadata": {"name": "ours"}, "spec": hard}, "default")
        await asyncio.sleep(5)
        await submit(cluster, job("first", task("worker", 3, seconds=60)))
        await reaches(cluster, "first", "Running", 60)
        await submit(cluster, job("second", task("worker", 2, seconds=10)))
        await submit(cluster, job("third", task("worker", 1, seconds=10)))
        await reaches(cluster, "third", "Completed", 40)
        waiting = (await found(cluster, "second"))["status"]["state"]
        assert waiting["phase"] == "Pending"
        assert 'ResourceQuota "ours" of its namespace allows 4 requests.cpu, of which' in waiting["message"]
        assert not await pods_of(cluster, "second")
        await reaches(cluster, "second", "Completed", 200)
        await submit(cluster, job("never", task("worker", 5, seconds=10)))
        await asyncio.sleep(20)
        assert "It can never start with these quotas" in (await found(cluster, "never"))["status"]["state"]["message"]

    simulate(story)


@pytest.mark.parametrize(
    ("budget", "least"),
    [({}, 1), ({"volcano.sh/jdb-min-available": "3"}, 3), ({"volcano.sh/jdb-max-unavailable": "25%"}, 3)],
    ids=["no budget", "a minimum", "a part that may be missing"],
)
def test_a_job_says_how_many_of_its_pods_may_be_preempted(budget: dict[str, str], least: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await cluster.objects.create(PRIORITY_CLASSES, {**head, "metadata": {"name": "urgent"}, "value": 1000})
        elastic = job("elastic", task("worker", 4, seconds=9000, minAvailable=1), minAvailable=1)
        elastic["metadata"]["annotations"] = budget
        await submit(cluster, elastic)
        await reaches(cluster, "elastic", "Running", 30)
        await asyncio.sleep(10)
        for number in range(3):
            await submit(cluster, job(f"urgent-{number}", task("w", 1, seconds=9000), priorityClassName="urgent"))
        await asyncio.sleep(200)
        running = [it for it in await pods_of(cluster, "elastic") if it["status"].get("phase") == "Running"]
        assert len(running) == least

    simulate(story)
