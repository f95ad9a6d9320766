"""What a Volcano Queue says beside its amounts: who may pass whom, on which nodes, and where it is in a tree. In the
whole system on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.api.volcano.job import JOB
from allhands.api.volcano.queue import QUEUE
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.compose.system import SystemOptions
from allhands.core.configuration.building import build_policy
from allhands.dialects.policy_text import policy_of_text
from allhands.lifecycle.volcano_job.names import PODS
from allhands.ports import Query
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster

LABEL = "volcano.sh/nodegroup-name"
TIERS = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: {plugin}
"""


def options(plugin: str) -> SystemOptions:
    return SystemOptions(policy=build_policy(policy_of_text(TIERS.format(plugin=plugin)).policy))


async def node(cluster: SimulatedCluster, name: str, cpu: str = "8", group: str = "") -> None:
    manifest = node_manifest(name, NodeSize(cpu), cluster.store.now())
    if group:
        manifest["metadata"].setdefault("labels", {})[LABEL] = group
    await add_node(cluster.objects, manifest)


async def queue(cluster: SimulatedCluster, name: str, notes: dict[str, str] | None = None, **spec: Any) -> None:
    body = {"metadata": {"name": name, "annotations": notes or {}}, "spec": spec}
    await cluster.objects.create(QUEUE.resource, body)


async def submit(cluster: SimulatedCluster, name: str, queue: str, pods: int, cpu: str = "1", **more: Any) -> None:
    body = job(name, task("work", pods, cpu=cpu, **more), queue=queue)
    await cluster.objects.create(JOB.resource, body, "default")


async def places(cluster: SimulatedCluster, prefix: str) -> list[str]:
    """The nodes of a Job's pods, "" for one that has none."""
    page = await cluster.objects.list(PODS, Query(namespace="default"))
    pods = [msgspec.json.decode(it) for it in page.items]
    return sorted(it["spec"].get("nodeName", "") for it in pods if it["metadata"]["name"].startswith(f"{prefix}-"))


async def placed(cluster: SimulatedCluster, prefix: str, count: int) -> list[str]:
    give_up = cluster.seconds + 300
    while True:
        found = [it for it in await places(cluster, prefix) if it]
        if len(found) == count:
            return found
        assert cluster.seconds < give_up, f"{prefix}: {found}"
        await asyncio.sleep(0.5)


async def said(cluster: SimulatedCluster, prefix: str) -> str:
    page = await cluster.objects.list(PODS, Query(namespace="default"))
    pods = [msgspec.json.decode(it) for it in page.items]
    return " ".join(
        condition.get("message", "")
        for it in pods
        if it["metadata"]["name"].startswith(f"{prefix}-")
        for condition in it.get("status", {}).get("conditions") or ()
    )


def story(
    *, within: SystemOptions | None = None
) -> Callable[[Callable[[SimulatedCluster], Coroutine[Any, Any, None]]], None]:
    def run(told: Callable[[SimulatedCluster], Coroutine[Any, Any, None]]) -> None:
        async def whole(cluster: SimulatedCluster) -> None:
            await cluster.ready()
            await told(cluster)

        simulate(whole, options=within)

    return run


@pytest.mark.parametrize(("strategy", "passes"), [("fifo", False), ("traverse", True)])
def test_the_dequeue_strategy_says_whether_a_job_that_fits_may_pass_one_that_does_not(
    strategy: str, *, passes: bool
) -> None:
    @story()
    async def told(cluster: SimulatedCluster) -> None:
        await node(cluster, "n0")
        await queue(cluster, "line", dequeueStrategy=strategy)
        await submit(cluster, "first", "line", 6, seconds=600)
        await placed(cluster, "first", 6)
        await submit(cluster, "large", "line", 4)
        await asyncio.sleep(5)
        await submit(cluster, "small", "line", 2)
        if passes:
            await placed(cluster, "small", 2)
        else:
            await asyncio.sleep(120)
            assert not any(await places(cluster, "small"))
        assert not any(await places(cluster, "large"))


def groups(**kinds: list[str]) -> Manifest:
    """Of a queue's affinity: `required`, `preferred`, `forbidden`, `avoided`."""
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    wanted = {required: kinds.get("required"), preferred: kinds.get("preferred")}
    unwanted = {required: kinds.get("forbidden"), preferred: kinds.get("avoided")}
    named = {"nodeGroupAffinity": wanted, "nodeGroupAntiAffinity": unwanted}
    return {kind: {key: it for key, it in terms.items() if it} for kind, terms in named.items() if any(terms.values())}


async def three_nodes(cluster: SimulatedCluster) -> None:
    await node(cluster, "red", group="red")
    await node(cluster, "blue", group="blue")
    await node(cluster, "plain")


def test_pods_of_a_queue_go_only_to_the_node_groups_that_it_requires_and_are_told_why_they_wait() -> None:
    @story()
    async def told(cluster: SimulatedCluster) -> None:
        await node(cluster, "plain")
        await node(cluster, "blue", group="blue")
        await queue(cluster, "reds", affinity=groups(required=["red"]))
        await submit(cluster, "mine", "reds", 2)
        await submit(cluster, "other", "default", 2)
        await placed(cluster, "other", 2)
        await asyncio.sleep(30)
        assert await places(cluster, "mine") == ["", ""]
        assert "Its queue may use only nodes of red (label volcano.sh/nodegroup-name)." in await said(cluster, "mine")
        await node(cluster, "red", group="red")
        assert await placed(cluster, "mine", 2) == ["red", "red"]


def test_preferred_groups_come_first_and_those_to_be_avoided_last() -> None:
    @story()
    async def told(cluster: SimulatedCluster) -> None:
        await three_nodes(cluster)
        await queue(cluster, "both", affinity=groups(preferred=["blue"], avoided=["red"]))
        await submit(cluster, "a", "both", 8)
        assert await placed(cluster, "a", 8) == ["blue"] * 8
        await submit(cluster, "b", "both", 8)
        assert await placed(cluster, "b", 8) == ["red"] * 8
        await submit(cluster, "c", "both", 1)
        await asyncio.sleep(30)
        assert await places(cluster, "c") == [""]
        assert "Its queue may use only nodes of blue, red (label" in await said(cluster, "c")


def test_a_queue_that_only_forbids_groups_uses_all_others_and_a_queue_below_has_the_groups_of_the_one_above() -> None:
    @story()
    async def told(cluster: SimulatedCluster) -> None:
        await three_nodes(cluster)
        await queue(cluster, "above", affinity=groups(forbidden=["red"]))
        await queue(cluster, "below", parent="above")
        await submit(cluster, "a", "below", 16)
        assert await placed(cluster, "a", 16) == ["blue"] * 8 + ["plain"] * 8


def test_when_the_groups_of_a_queue_change_those_who_wait_follow() -> None:
    @story()
    async def told(cluster: SimulatedCluster) -> None:
        await three_nodes(cluster)
        await queue(cluster, "moving", affinity=groups(required=["green"]))
        await submit(cluster, "a", "moving", 2)
        await asyncio.sleep(20)
        assert await places(cluster, "a") == ["", ""]
        patch = {"spec": {"affinity": groups(required=["blue"])}}
        await cluster.objects.patch(QUEUE.resource, "moving", "merge", patch)
        assert await placed(cluster, "a", 2) == ["blue", "blue"]


def test_with_the_plugin_and_not_strict_queues_without_groups_use_nodes_without_a_group() -> None:
    @story(within=options("nodegroup\n    arguments:\n      strict: false"))
    async def told(cluster: SimulatedCluster) -> None:
        await three_nodes(cluster)
        await submit(cluster, "a", "default", 8)
        assert await placed(cluster, "a", 8) == ["plain"] * 8
        await submit(cluster, "b", "default", 1)
        await asyncio.sleep(30)
        assert await places(cluster, "b") == [""]


def test_with_the_plugin_queues_without_groups_use_no_node_unless_it_is_not_strict() -> None:
    @story(within=options("nodegroup"))
    async def told(cluster: SimulatedCluster) -> None:
        await three_nodes(cluster)
        await submit(cluster, "a", "default", 1)
        await queue(cluster, "reds", affinity=groups(required=["red"]))
        await submit(cluster, "b", "reds", 1)
        assert await placed(cluster, "b", 1) == ["red"]
        await asyncio.sleep(20)
        assert await places(cluster, "a") == [""]
        assert "Its queue may use only nodes of no group at all" in await said(cluster, "a")


def test_queues_in_a_tree_by_annotations_share_level_by_level() -> None:
    """The two of engineering have together what science has alone; without the tree each would have a third."""

    async def filled(cluster: SimulatedCluster) -> dict[str, int]:
        for name, path, weights in (
            ("eng-dev", "root/eng/dev", "1/1/1"),
            ("eng-prod", "root/eng/prod", "1/1/3"),
            ("sci", "root/sci", "1/1"),
        ):
            await queue(cluster, name, {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})
            for number in range(32):
                container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
                metadata = {"name": f"{name}-{number}", "annotations": {"scheduling.volcano.sh/queue-name": name}}
                spec = {"schedulerName": "allhands", "containers": [container]}
                await cluster.objects.create(PODS, {"metadata": metadata, "spec": spec}, "default")
        await node(cluster, "n0", "16")
        names = ("eng-dev", "eng-prod", "sci")
        give_up = cluster.seconds + 300
        while True:
            found = {it: len([place for place in await places(cluster, it) if place]) for it in names}
            if sum(found.values()) == 16:
                return found
            assert cluster.seconds < give_up, found
            await asyncio.sleep(0.5)

    @story(within=options("drf\n    enableHierarchy: true"))
    async def told(cluster: SimulatedCluster) -> None:
        assert await filled(cluster) == {"eng-dev": 2, "eng-prod": 6, "sci": 8}


def test_a_queue_on_the_way_to_another_and_weights_that_do_not_fit_are_refused() -> None:
    @story()
    async def told(cluster: SimulatedCluster) -> None:
        notes = {"volcano.sh/hierarchy": "root/sci/dev", "volcano.sh/hierarchy-weights": "1/2/4"}
        await queue(cluster, "dev", notes)
        for path, weights, wrong in (
            ("root/sci", "1/2", "the queue dev is below it, at root/sci/dev"),
            ("root/a/b", "1/2", "must have as many parts"),
            ("root/a", "1/0", "each weight must be a number above 0"),
        ):
            with pytest.raises(StatusError, match=wrong):
                await queue(cluster, "x", {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})
