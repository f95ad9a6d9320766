"""The shells in their real loop, on the store: writes are carried out, refusals told, and many nodes are cheap."""

from __future__ import annotations

import datetime

import msgspec

from allhands.controllers.deployment import DeploymentController
from allhands.controllers.node import LEASE_NAMESPACE, LEASES, NodeController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.sparing import FOREIGN, pods_of
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS
from allhands.lifecycle.node import NODES
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS
from allhands.lifecycle.resource_quota import QUOTAS
from allhands.runtime.workqueue import WorkQueue
from tests.controller_cases import deployment, replica_set
from tests.running_controllers import Cluster


async def test_a_deployment_rolls_out_in_the_real_loops() -> None:
    cluster = Cluster()
    await cluster.objects.create(DEPLOYMENTS, deployment(replicas=3), "default")

    async def is_up() -> bool:
        status = (await cluster.get(DEPLOYMENTS, "web")).get("status", {})
        return bool(status.get("availableReplicas") == 3)

    async with cluster.running(DeploymentController(cluster.objects), ReplicaSetController(cluster.objects)):
        await cluster.until(is_up)


async def test_a_refused_pod_is_told_on_the_set_and_the_deployment_and_taken_back_once_it_works() -> None:
    cluster = Cluster()
    manifest = deployment(replicas=1)
    manifest["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    await cluster.objects.create(DEPLOYMENTS, manifest, "default")

    async def failures() -> list[str]:
        conditions = (await cluster.get(DEPLOYMENTS, "web")).get("status", {}).get("conditions", ())
        return [it["message"] for it in conditions if it["type"] == "ReplicaFailure"]

    async def is_told() -> bool:
        return any("no PriorityClass with name missing" in it for it in await failures())

    async def is_taken_back() -> bool:
        return not await failures() and bool((await cluster.get(DEPLOYMENTS, "web"))["status"].get("readyReplicas"))

    async with cluster.running(DeploymentController(cluster.objects), ReplicaSetController(cluster.objects)):
        await cluster.until(is_told)
        classes = msgspec.structs.replace(PODS, group="scheduling.k8s.io", plural="priorityclasses")
        await cluster.objects.create(classes, {"metadata": {"name": "missing"}, "value": 5})
        await cluster.until(is_taken_back)


async def test_a_quota_counts_what_comes_and_goes() -> None:
    cluster = Cluster()
    await cluster.objects.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}}, "default")
    await cluster.objects.create(REPLICA_SETS, replica_set(replicas=2), "default")

    async def counts(number: str) -> bool:
        status = (await cluster.get(QUOTAS, "q")).get("status", {})
        return bool(status.get("used") == {"pods": number})

    async with cluster.running(ReplicaSetController(cluster.objects)):
        await cluster.until(lambda: counts("2"))
        await cluster.objects.delete(REPLICA_SETS, "web", "default")
        await cluster.until(lambda: counts("0"))


def test_pods_of_others_are_kept_as_nothing() -> None:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "j", "uid": "u", "controller": True}
    decode = pods_of("ReplicaSet")
    theirs = {"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [owner]}}
    assert decode(msgspec.json.encode(theirs)) is FOREIGN
    ours = {"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [{**owner, "kind": "ReplicaSet"}]}}
    assert decode(msgspec.json.encode(ours)).metadata.name == "p"


class Moments:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _node(name: str, version: int) -> bytes:
    ready = {"type": "Ready", "status": "True"}
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return msgspec.json.encode({"metadata": metadata, "status": {"conditions": [ready]}})


def _lease(name: str, version: int, seconds: int) -> bytes:
    renewed = datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat().replace("+00:00", "Z")
    metadata = {"name": name, "namespace": LEASE_NAMESPACE, "resourceVersion": str(version)}
    return msgspec.json.encode({"metadata": metadata, "spec": {"leaseDurationSeconds": 40, "renewTime": renewed}})


async def test_a_renewed_lease_is_only_noted_and_a_node_is_looked_at_once_in_a_grace_period() -> None:
    cluster, clock = Cluster(), Moments()
    controller = NodeController(cluster.objects, monotonic=clock)
    nodes, leases, _ = controller.informers
    queue = WorkQueue()
    controller.wire(queue)
    names = [f"n{number}" for number in range(300)]
    for name in names:
        nodes.observe(_node(name, 1))
        leases.observe(_lease(name, 1, 0))
    looks = 0
    for seconds in range(0, 400, 10):
        clock.now = float(seconds)
        for name in names:
            leases.observe(_lease(name, seconds + 2, seconds + 1))
        while len(queue):
            key = await queue.take()
            looks += 1
            outcome = controller.reconcile(key, 1_000_000.0 + seconds)
            assert outcome.instructions == ()
            assert outcome.wake_at_seconds is not None
            queue.done(key)
    assert looks == len(names)
    assert {NODES, LEASES} == {nodes.resource, leases.resource}
