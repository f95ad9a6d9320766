"""The whole system in virtual time: scheduler, controllers and kubelets on one store, as stories with an end."""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.kinds import Resource
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.ports import Query
from allhands.sim.faults import CrashAt, Faults
from tests.crashing import crashed_at_every
from tests.manifests import JOBS, NODES, PODS, PRIORITY_CLASSES

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster

CLAIMS = Resource("", "v1", "persistentvolumeclaims")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")


async def nodes(cluster: SimulatedCluster, count: int, cpu: int = 4) -> None:
    for number in range(count):
        await add_node(cluster.objects, node_manifest(f"node-{number}", NodeSize(str(cpu)), cluster.store.now()))


async def submit(
    cluster: SimulatedCluster, name: str, size: int, *, cpu: int = 1, seconds: int = 60, **more: Any
) -> None:
    """A Job whose pods start together, unless `gang` is False."""
    annotations = {"allhands.dev/min-available": "all"} if more.pop("gang", True) else {}
    annotations |= {f"allhands.dev/{key}": value for key, value in more.pop("annotations", {}).items()}
    container: Manifest = {"name": "main", "image": "work", "resources": {"requests": {"cpu": str(cpu)}}}
    if claim := more.pop("claim", ""):
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        more["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    template = {
        "metadata": {"annotations": {"sim.allhands.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **more},
    }
    spec = {"parallelism": size, "completions": size, "backoffLimit": 1000, "template": template}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    await cluster.objects.create(JOBS, body, "default")


async def pods_of(cluster: SimulatedCluster, job: str) -> list[Manifest]:
    page = await cluster.objects.list(PODS, Query(namespace="default", labels=f"job-name={job}"))
    return [msgspec.json.decode(raw) for raw in page.items]


async def running_pods(cluster: SimulatedCluster, job: str) -> int:
    return sum(1 for it in await pods_of(cluster, job) if it["status"].get("phase") == "Running")


async def ending(cluster: SimulatedCluster, job: str) -> str:
    status = (await cluster.objects.get(JOBS, job, "default")).manifest().get("status") or {}
    ends = [it["type"] for it in status.get("conditions", ()) if it["status"] == "True"]
    return next((it for it in ends if it in ("Complete", "Failed")), "")


async def end_of(cluster: SimulatedCluster, *jobs: str, within_seconds: float = 3600) -> float:
    """When all of them are complete."""
    give_up = cluster.seconds + within_seconds
    while cluster.seconds < give_up:
        await asyncio.sleep(1)
        if all([await ending(cluster, job) == "Complete" for job in jobs]):
            return cluster.seconds
    told = {job: [it["status"] for it in await pods_of(cluster, job)] for job in jobs}
    raise AssertionError(f"not all of {jobs} are complete after {within_seconds} s: {told}")


def test_gangs_that_do_not_fit_together_run_one_after_the_other() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        await submit(cluster, "first", 6)
        await asyncio.sleep(5)
        await submit(cluster, "second", 6)
        most = 0
        while not await ending(cluster, "second"):
            await asyncio.sleep(5)
            counts = [await running_pods(cluster, name) for name in ("first", "second")]
            most = max(most, sum(counts))
            assert not (0 < counts[1] < 6 and await ending(cluster, "second") == "" and counts[0]), counts
        assert most == 6
        assert await ending(cluster, "first") == "Complete"

    simulate(story)


@pytest.mark.parametrize("hours", [1, -1], ids=["forward", "backward"])
def test_a_clock_that_jumps_by_an_hour_expires_nobody_and_stops_nothing(hours: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        await submit(cluster, "running", 6, seconds=120)
        await submit(cluster, "waiting", 6)
        await asyncio.sleep(30)
        uids = {it["metadata"]["uid"] for it in await pods_of(cluster, "running")}
        cluster.clock.jump(hours * 3600)
        for _ in range(30):
            await asyncio.sleep(3)
            for raw in (await cluster.objects.list(NODES)).items:
                node = msgspec.json.decode(raw)
                ready = next(it["status"] for it in node["status"]["conditions"] if it["type"] == "Ready")
                assert ready == "True", "a node that renews its lease is well, whatever the time is"
                assert not node["spec"].get("taints")
        assert {it["metadata"]["uid"] for it in await pods_of(cluster, "running")} == uids, "nobody was made anew"
        await end_of(cluster, "running", "waiting", within_seconds=300)
        cluster.clock.jump(-hours * 3600)
        await submit(cluster, "later", 6)
        await end_of(cluster, "later", within_seconds=120)

    simulate(story)


def test_a_node_dies_under_a_gang_and_the_gang_runs_to_its_end_elsewhere() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 3, cpu=2)
        await submit(cluster, "gang", 4, seconds=200)
        await asyncio.sleep(30)
        assert await running_pods(cluster, "gang") == 4
        dead = (await pods_of(cluster, "gang"))[0]["spec"]["nodeName"]
        cluster.kill_node(dead)
        await asyncio.sleep(800)
        succeeded = [it for it in await pods_of(cluster, "gang") if it["status"]["phase"] == "Succeeded"]
        assert len(succeeded) == 4
        assert dead not in {it["spec"]["nodeName"] for it in succeeded}
        cluster.revive_node(dead)  # as in Kubernetes, a Job is complete when nothing of it may still run
        await end_of(cluster, "gang", within_seconds=100)

    simulate(story)


def test_a_node_dies_while_a_gang_is_being_bound() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 3, cpu=2)
        await submit(cluster, "gang", 4, seconds=60)
        while not any(it["spec"].get("nodeName") for it in await pods_of(cluster, "gang")):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        chosen = next(it["spec"]["nodeName"] for it in await pods_of(cluster, "gang") if it["spec"].get("nodeName"))
        cluster.kill_node(chosen)
        await asyncio.sleep(1000)
        elsewhere = [it for it in await pods_of(cluster, "gang") if it["spec"].get("nodeName", chosen) != chosen]
        assert [it["status"]["phase"] for it in elsewhere].count("Succeeded") == 4
        cluster.revive_node(chosen)
        await end_of(cluster, "gang", within_seconds=100)

    simulate(story, faults=Faults(slow=1.0, slow_seconds=1.0))


def test_important_work_takes_the_place_of_other_work_which_then_runs_again() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for name, value in (("low", 1), ("high", 1000)):
            await cluster.objects.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        await nodes(cluster, 2, cpu=2)
        await submit(cluster, "low-1", 2, seconds=500, priorityClassName="low")
        await submit(cluster, "low-2", 2, seconds=500, priorityClassName="low")
        await asyncio.sleep(60)
        await submit(cluster, "high", 2, seconds=50, priorityClassName="high")
        end = await end_of(cluster, "high", within_seconds=200)
        assert end < 60 + 120
        await end_of(cluster, "low-1", "low-2", within_seconds=3000)

    simulate(story)


@pytest.mark.parametrize("part", ["scheduler", "controllers", "kubelets"])
def test_after_a_crash_at_any_write_all_jobs_end(part: str) -> None:
    """Every third write, before and after it took effect by turns."""

    def run(crash: CrashAt) -> bool:
        async def story(cluster: SimulatedCluster) -> bool:
            cluster.parts[part].crash_at(crash)
            await nodes(cluster, 1, cpu=3)
            await submit(cluster, "gang", 2, seconds=10)
            await submit(cluster, "other", 2, seconds=10)
            await end_of(cluster, "gang", "other", within_seconds=1200)
            return cluster.parts[part].incarnations > 1

        return simulate(story)

    assert crashed_at_every(3, run) > 7


def test_a_rival_scheduler_on_the_same_nodes_costs_time_and_breaks_nothing() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 3)
        rival = asyncio.create_task(_fill(cluster))
        for number in range(4):
            await submit(cluster, f"gang-{number}", 4, seconds=30)
            await asyncio.sleep(10)
        await end_of(cluster, *(f"gang-{number}" for number in range(4)), within_seconds=3000)
        rival.cancel()

    simulate(story, faults=Faults(slow=0.5, slow_seconds=2.0, watch_lags=0.3, watch_lag_seconds=3.0))


async def _fill(cluster: SimulatedCluster) -> None:
    """Puts pods on nodes that look free, without asking anybody."""
    for number in range(12):
        await asyncio.sleep(4)
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "2"}}}
        annotations = {"sim.allhands.dev/run-seconds": "20"}
        spec = {"containers": [container], "schedulerName": "rival", "restartPolicy": "Never"}
        body = {"metadata": {"name": f"rival-{number}", "annotations": annotations}, "spec": spec}
        await cluster.objects.create(PODS, body, "default")
        target = {"target": {"kind": "Node", "name": f"node-{number % 3}"}}
        await cluster.objects.bind("default", f"rival-{number}", target)


def test_in_an_idle_hour_nothing_is_written_but_heartbeats() -> None:
    async def story(cluster: SimulatedCluster) -> collections.Counter[str]:
        await nodes(cluster, 3)
        await submit(cluster, "done", 2, seconds=20)
        await submit(cluster, "runs", 2, seconds=100_000)
        await submit(cluster, "waits", 100)
        await end_of(cluster, "done")
        await asyncio.sleep(1200)
        before = {(it, key): record.version for it, key, record in _records(cluster)}
        counts: collections.Counter[str] = collections.Counter()
        writes = {name: part._port.writes for name, part in cluster.parts.items() if part._port is not None}
        await asyncio.sleep(3600)
        for kind, key, record in _records(cluster):
            if before.get((kind, key)) != record.version:
                counts[kind] += 1
        for name, part in cluster.parts.items():
            assert part._port is not None
            counts[f"writes of {name}"] = part._port.writes - writes[name]
        return counts

    changed = simulate(story)
    kubelets = changed.pop("writes of kubelets")
    assert set(+changed) <= {"nodes", "leases"}, changed
    assert kubelets <= 3 * (360 + 20)


def _records(cluster: SimulatedCluster) -> list[tuple[str, Any, Any]]:
    return [
        (collection.kind.resource.plural, record.key, record)
        for collection in cluster.store.collections()
        for record in collection
    ]


def test_volumes_that_wait_for_their_consumer_are_there_before_any_pod_of_the_gang_is_bound() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2, cpu=2)
        kind = {
            "metadata": {"name": "local"},
            "provisioner": "allhands.dev/host-path",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await cluster.objects.create(STORAGE_CLASSES, kind)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await cluster.objects.create(CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, "default")
        seen: list[tuple[bool, int]] = []
        watching = asyncio.create_task(_watch_claim(cluster, seen))
        await submit(cluster, "gang", 2, seconds=10, claim="data")
        await end_of(cluster, "gang", within_seconds=300)
        watching.cancel()
        assert (True, 0) in seen, "the claim was bound while no pod was"
        assert all(bound or not pods for bound, pods in seen)

    simulate(story)


async def _watch_claim(cluster: SimulatedCluster, seen: list[tuple[bool, int]]) -> None:
    watch = await cluster.objects.watch(PODS)
    claims = await cluster.objects.watch(CLAIMS)

    async def look(it: Any) -> None:
        async for _ in it:
            claim = (await cluster.objects.get(CLAIMS, "data", "default")).manifest()
            bound = sum(1 for pod in await pods_of(cluster, "gang") if pod["spec"].get("nodeName"))
            seen.append((claim["status"].get("phase") == "Bound", bound))

    await asyncio.gather(look(watch), look(claims))


def test_jobs_that_name_each_other_run_in_their_order() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 2)
        await submit(cluster, "report", 1, seconds=5, annotations={"after": "train"})
        await submit(cluster, "train", 2, seconds=20, annotations={"after": "fetch"})
        await submit(cluster, "fetch", 1, seconds=20, gang=False)
        fetched = await end_of(cluster, "fetch")
        trained = await end_of(cluster, "train")
        reported = await end_of(cluster, "report")
        assert fetched + 20 <= trained
        assert trained + 5 <= reported

    simulate(story)


def test_a_job_after_one_that_its_time_to_live_removes_starts_whenever_the_scheduler_crashes() -> None:
    """Every second write of the scheduler, before and after it took effect by turns."""

    def run(crash: CrashAt) -> bool:
        async def story(cluster: SimulatedCluster) -> bool:
            cluster.parts["scheduler"].crash_at(crash)
            await nodes(cluster, 1, cpu=2)
            await submit(cluster, "fetch", 1, seconds=20)
            patch = {"spec": {"ttlSecondsAfterFinished": 15}}
            await cluster.objects.patch(JOBS, "fetch", "merge", patch, "default")
            await submit(cluster, "blocker", 1, seconds=120)
            await submit(cluster, "train", 2, seconds=10, annotations={"after": "fetch"})
            await end_of(cluster, "train", within_seconds=1200)
            assert ("jobs", "fetch") not in {(kind, key[1]) for kind, key, _ in _records(cluster)}
            return cluster.parts["scheduler"].incarnations > 1

        return simulate(story)

    write = 1
    while run(CrashAt(write, takes_effect=write % 4 == 1)):
        write += 2
    assert write > 7
