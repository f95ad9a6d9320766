"""StatefulSets and DaemonSets in their real loops: what users see when all is well, and when it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.controllers.daemon_set import FOREIGN, DaemonSetController, daemon_pod
from allhands.controllers.stateful_set import StatefulSetController
from allhands.lifecycle.daemon_set.kinds import DAEMON_SETS
from allhands.lifecycle.node import NODES
from allhands.lifecycle.replica_set import PODS
from allhands.lifecycle.resource_quota import QUOTAS
from allhands.lifecycle.stateful_set.kinds import STATEFUL_SETS
from allhands.lifecycle.volume_kinds import CLAIMS
from allhands.ports import Query
from allhands.runtime.workqueue import WorkQueue
from tests.running_controllers import Cluster
from tests.set_cases import daemon_set, stateful_set

if TYPE_CHECKING:
    from allhands.api.document import Manifest

PRIORITY_CLASSES = msgspec.structs.replace(PODS, group="scheduling.k8s.io", plural="priorityclasses")
LIMIT_RANGES = msgspec.structs.replace(PODS, plural="limitranges")


async def _status(cluster: Cluster, resource: Any, name: str, field: str) -> int:
    return int((await cluster.get(resource, name)).get("status", {}).get(field, 0))


async def _names(cluster: Cluster, resource: Any = PODS) -> list[str]:
    page = await cluster.objects.list(resource, Query(namespace="default"))
    return [msgspec.json.decode(it)["metadata"]["name"] for it in page.items]


def _warnings(cluster: Cluster) -> list[str]:
    return [it.message for it in cluster.telling.records if it.type == "Warning"]


async def _add_nodes(cluster: Cluster, *names: str) -> None:
    for name in names:
        await cluster.objects.create(NODES, {"metadata": {"name": name}})
        await cluster.objects.patch(NODES, name, "merge", {"spec": {"taints": None}})


async def test_a_stateful_set_without_its_service_comes_up_in_order_with_its_claims() -> None:
    cluster = Cluster()
    await cluster.objects.create(STATEFUL_SETS, stateful_set(replicas=3, claims=("data",)), "default")
    async with cluster.running(StatefulSetController(cluster.objects)):

        async def is_up() -> bool:
            return await _status(cluster, STATEFUL_SETS, "web", "availableReplicas") == 3

        await cluster.until(is_up)
        assert await _names(cluster) == ["web-0", "web-1", "web-2"]
        assert await _names(cluster, CLAIMS) == ["data-web-0", "data-web-1", "data-web-2"]
        assert _warnings(cluster) == []


async def test_claims_go_with_their_set_if_it_says_so() -> None:
    cluster = Cluster()
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    manifest = stateful_set(replicas=3, claims=("data",), persistentVolumeClaimRetentionPolicy=policy)
    await cluster.objects.create(STATEFUL_SETS, manifest, "default")
    async with cluster.running(StatefulSetController(cluster.objects)):

        async def has(*claims: str) -> bool:
            return await _names(cluster, CLAIMS) == list(claims)

        await cluster.until(lambda: has("data-web-0", "data-web-1", "data-web-2"))
        await cluster.objects.patch(STATEFUL_SETS, "web", "merge", {"spec": {"replicas": 1}}, "default")
        await cluster.until(lambda: has("data-web-0"))
        await cluster.objects.patch(STATEFUL_SETS, "web", "merge", {"spec": {"replicas": 2}}, "default")
        await cluster.until(lambda: has("data-web-0", "data-web-1"))
        await cluster.objects.delete(STATEFUL_SETS, "web", "default")
        await cluster.until(has)


async def test_a_name_that_somebody_has_is_waited_for_with_a_reason_and_others_go_on() -> None:
    cluster = Cluster()
    stray = {"metadata": {"name": "web-1"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    await cluster.objects.create(PODS, stray, "default")
    for name in ("web", "other"):
        await cluster.objects.create(STATEFUL_SETS, stateful_set(name, replicas=2), "default")
    async with cluster.running(StatefulSetController(cluster.objects)):

        async def ready(name: str, count: int) -> bool:
            return await _status(cluster, STATEFUL_SETS, name, "readyReplicas") == count

        await cluster.until(lambda: ready("other", 2))
        await cluster.until(lambda: ready("web", 1))
        why = 'pods "web-1" is there and does not belong to this StatefulSet'
        assert f"Create Pod web-1 in StatefulSet web failed error: {why}" in _warnings(cluster)
        await cluster.objects.delete(PODS, "web-1", "default")
        await cluster.until(lambda: ready("web", 2))


QUOTA: Manifest = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
LEAST: Manifest = {
    "metadata": {"name": "l"},
    "spec": {"limits": [{"type": "Container", "min": {"cpu": "1"}, "default": {"cpu": "2"}}]},
}


@pytest.mark.parametrize(
    ("resource", "limit", "template", "why"),
    [
        (QUOTAS, QUOTA, {}, "exceeded quota: q"),
        (LIMIT_RANGES, LEAST, {"cpu": "500m"}, "minimum cpu usage per Container is 1"),
    ],
    ids=["a quota", "a limit range"],
)
@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
async def test_what_admission_refuses_is_told_and_comes_when_it_may(
    kind: str, resource: Any, limit: Manifest, template: dict[str, str], why: str
) -> None:
    cluster = Cluster()
    await _add_nodes(cluster, "n0", "n1")
    await cluster.objects.create(resource, limit, "default")
    manifest = stateful_set(replicas=2) if kind == "StatefulSet" else daemon_set("web")
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": template}
    sets = STATEFUL_SETS if kind == "StatefulSet" else DAEMON_SETS
    field = "availableReplicas" if kind == "StatefulSet" else "numberAvailable"
    await cluster.objects.create(sets, manifest, "default")
    controllers = (StatefulSetController(cluster.objects), DaemonSetController(cluster.objects))
    async with cluster.running(*controllers):

        async def is_told() -> bool:
            return any(why in it for it in _warnings(cluster))

        async def is_seen() -> bool:
            return await _status(cluster, sets, "web", "observedGeneration") == 1

        async def is_up() -> bool:
            return await _status(cluster, sets, "web", field) == 2

        await cluster.until(is_told)
        await cluster.until(is_seen)
        await cluster.objects.delete(resource, limit["metadata"]["name"], "default")
        await cluster.until(is_up)


async def test_a_refusal_is_told_again_and_nothing_else_is_written() -> None:
    cluster = Cluster()
    manifest = stateful_set(replicas=1)
    manifest["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    await cluster.objects.create(STATEFUL_SETS, manifest, "default")
    async with cluster.running(StatefulSetController(cluster.objects)):

        async def is_told(times: int) -> bool:
            return len(_warnings(cluster)) >= times

        await cluster.until(lambda: is_told(3))
        version = cluster.store.version
        await cluster.until(lambda: is_told(6))
        assert cluster.store.version == version


async def test_a_daemon_set_follows_the_nodes() -> None:
    cluster = Cluster()
    await _add_nodes(cluster, "n0", "n1")
    await cluster.objects.create(DAEMON_SETS, daemon_set(), "default")
    async with cluster.running(DaemonSetController(cluster.objects)):

        async def runs_on(count: int) -> bool:
            return (
                await _status(cluster, DAEMON_SETS, "agent", "numberAvailable") == count
                and await _status(cluster, DAEMON_SETS, "agent", "desiredNumberScheduled") == count
            )

        await cluster.until(lambda: runs_on(2))
        await _add_nodes(cluster, "n2")
        await cluster.until(lambda: runs_on(3))
        taint = {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
        await cluster.objects.patch(NODES, "n0", "merge", taint)
        await cluster.until(lambda: runs_on(2))
        await cluster.objects.delete(NODES, "n1")
        await cluster.until(lambda: runs_on(1))


def test_pods_of_others_are_kept_as_nothing() -> None:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "j", "uid": "u", "controller": True}
    theirs = {"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [owner]}}
    assert daemon_pod(msgspec.json.encode(theirs)) is FOREIGN


async def test_signs_of_life_of_nodes_concern_no_daemon_set() -> None:
    cluster = Cluster()
    controller = DaemonSetController(cluster.objects, gathers=False)
    sets, _, nodes, _ = controller.informers
    queue = WorkQueue()
    controller.wire(queue)
    metadata = {"name": "agent", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    sets.observe(msgspec.json.encode({**daemon_set(), "metadata": metadata}))
    queue.done(await queue.take())
    for version in range(2, 9):
        node = {"metadata": {"name": "n0", "resourceVersion": str(version)}, "status": {"x": version}}
        nodes.observe(msgspec.json.encode(node))
    assert await queue.take() == "default/agent"
    queue.done("default/agent")
    assert len(queue) == 0
