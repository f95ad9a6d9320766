"""Pods that were written for Volcano and have no group get one: of their own, or one with all pods of their owner."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.api.volcano.workloads import MIN_MEMBER, MinMemberError, least_of, min_member_of
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.workload_group import WorkloadGroupController
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS
from allhands.lifecycle.volcano_job.names import POD_GROUPS
from allhands.lifecycle.workload_group import JOBS
from tests.controller_world import World
from tests.volcano_cases import define

GROUP = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"


def pod_spec(scheduler: str = "volcano", cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"schedulerName": scheduler, "containers": [container], **spec}


def replica_set(replicas: int, *, annotations: dict[str, str] | None = None, **template: Any) -> dict[str, Any]:
    labels = {"labels": {"app": "web"}}
    return {
        "metadata": {"name": "web", "annotations": annotations or {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": labels | template, "spec": pod_spec()},
        },
    }


async def a_job(
    world: World,
    name: str,
    notes: dict[str, str],
    parallelism: int = 3,
    completions: int | None = 3,
    /,
    **notes_of_pods: str,
) -> None:
    """With its pods, as its controller makes them."""
    template = {"metadata": {"annotations": notes_of_pods}, "spec": pod_spec(restartPolicy="Never")}
    spec = {"parallelism": parallelism, "template": template}
    if completions is not None:
        spec["completions"] = completions
    made = await world.create(JOBS, {"metadata": {"name": name, "annotations": notes}, "spec": spec})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    for number in range(parallelism if completions is None else min(parallelism, completions)):
        metadata = {"name": f"{name}-{number}", "annotations": notes_of_pods, "ownerReferences": [owner]}
        await world.create(PODS, {"metadata": metadata, "spec": template["spec"]})


async def new_world() -> World:
    world = World()
    await define(world, POD_GROUP, QUEUE)
    return world


async def settle(world: World) -> None:
    await world.settle(
        lambda objects: [ReplicaSetController(objects), WorkloadGroupController(objects)],
        horizon_seconds=3.0,
        kubelet=False,
    )


def the_group(world: World) -> dict[str, Any]:
    (group,) = world.all(POD_GROUPS)
    return group


def groups_of_pods(world: World) -> list[str]:
    return [(it["metadata"].get("annotations") or {}).get(GROUP, "") for it in world.all(PODS)]


async def test_a_plain_pod_owns_a_group_of_one_in_the_queue_that_it_names() -> None:
    world = await new_world()
    notes = {QUEUE_NAME: "research", "volcano.sh/preemptable": "false", "other.example/x": "y"}
    metadata = {"name": "solo", "annotations": notes, "labels": {"volcano.sh/preemptable": "false", "app": "x"}}
    await world.create(PODS, {"metadata": metadata, "spec": pod_spec()})
    await settle(world)
    pod, group = (await world.get(PODS, "solo"))["metadata"], the_group(world)
    assert group["metadata"]["name"] == f"podgroup-{pod['uid']}" == pod["annotations"][GROUP]
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "false"}
    assert group["metadata"]["labels"] == {"volcano.sh/preemptable": "false"}
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "solo", True)
    assert group["spec"] == {"minMember": 1, "queue": "research", "minResources": {"cpu": "500m"}}


async def test_all_pods_of_a_replica_set_are_in_one_group_with_the_minimum_that_it_asks_for() -> None:
    world = await new_world()
    notes = {MIN_MEMBER: "3", "volcano.sh/sla-waiting-time": "1h", "other.example/x": "y"}
    await world.create(REPLICA_SETS, replica_set(4, annotations=notes))
    await settle(world)
    group, owner = the_group(world), await world.get(REPLICA_SETS, "web")
    assert group["metadata"]["name"] == f"podgroup-{owner['metadata']['uid']}"
    assert groups_of_pods(world) == [group["metadata"]["name"]] * 4
    assert group["metadata"]["annotations"] == {"volcano.sh/sla-waiting-time": "1h"}
    assert [it["name"] for it in group["metadata"]["ownerReferences"]] == ["web"]
    assert group["spec"] == {"minMember": 3, "minResources": {"cpu": "1500m"}}


async def test_the_minimum_follows_the_owner_and_pods_that_come_later_join() -> None:
    world = await new_world()
    await world.create(REPLICA_SETS, replica_set(2))
    await settle(world)
    assert the_group(world)["spec"]["minMember"] == 1
    more = {"metadata": {"annotations": {MIN_MEMBER: "4"}}, "spec": {"replicas": 5}}
    await world.patch(REPLICA_SETS, "web", more)
    await settle(world)
    group = the_group(world)
    assert group["spec"] == {"minMember": 4, "minResources": {"cpu": "2"}}
    assert groups_of_pods(world) == [group["metadata"]["name"]] * 5


async def test_no_more_must_start_together_than_the_owner_wants_at_the_moment() -> None:
    """A Deployment that is rolled out brings its new pods in one by one."""
    world = await new_world()
    await world.create(REPLICA_SETS, replica_set(1, annotations={MIN_MEMBER: "3"}))
    await settle(world)
    assert the_group(world)["spec"]["minMember"] == 1
    for replicas, least in ((2, 2), (5, 3)):
        await world.patch(REPLICA_SETS, "web", {"spec": {"replicas": replicas}})
        await settle(world)
        assert the_group(world)["spec"]["minMember"] == least


@pytest.mark.parametrize(
    ("asked", "parallelism", "completions", "least"),
    [("9", 2, 9, 2), ("9", 2, None, 2), ("3", 4, 2, 2), ("3", 4, 8, 3), ("9", 1, 9, 1)],
)
async def test_a_job_never_waits_for_more_pods_than_it_has_at_once(
    asked: str, parallelism: int, completions: int | None, least: int
) -> None:
    world = await new_world()
    await a_job(world, "train", {MIN_MEMBER: asked}, parallelism, completions)
    await settle(world)
    assert the_group(world)["spec"]["minMember"] == least


async def test_a_replica_set_without_replicas_has_no_group_once_its_pods_are_gone() -> None:
    world = await new_world()
    await world.create(REPLICA_SETS, replica_set(2))
    await settle(world)
    await world.patch(REPLICA_SETS, "web", {"spec": {"replicas": 0}})
    await settle(world)
    assert (world.all(PODS), world.all(POD_GROUPS)) == ([], [])
    await world.patch(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
    await settle(world)
    assert groups_of_pods(world) == [the_group(world)["metadata"]["name"]]


async def test_a_job_of_kubernetes_is_a_gang_by_the_annotation() -> None:
    world = await new_world()
    await a_job(world, "sums", {MIN_MEMBER: "3"}, **{QUEUE_NAME: "research"})
    await settle(world)
    group = the_group(world)
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "research")
    assert groups_of_pods(world) == [group["metadata"]["name"]] * 3


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {"name": "p"}, "spec": pod_spec("allhands")},
        {"metadata": {"name": "p"}, "spec": pod_spec(schedulingGroup={"podGroupName": "native"})},
        {"metadata": {"name": "p", "labels": {"scheduling.x-k8s.io/pod-group": "mine"}}, "spec": pod_spec()},
        {"metadata": {"name": "p", "annotations": {GROUP: "mine"}}, "spec": pod_spec()},
        {"metadata": {"name": "p", "annotations": {"scheduling.volcano.sh/group-name": "mine"}}, "spec": pod_spec()},
        {"metadata": {"name": "p", "annotations": {GROUP: "podgroup-of-somebody"}}, "spec": pod_spec()},
    ],
)
async def test_pods_of_others_and_of_other_groups_are_left_alone(pod: dict[str, Any]) -> None:
    world = await new_world()
    before = await world.create(PODS, pod)
    await settle(world)
    assert world.all(POD_GROUPS) == []
    assert await world.get(PODS, "p") == before


async def test_a_job_that_is_a_gang_by_our_own_annotation_or_queue_gets_no_group() -> None:
    world = await new_world()
    await a_job(world, "sums", {"allhands.dev/min-available": "all"})
    gangs = {"metadata": {"name": "gangs", "annotations": {"allhands.dev/gang-by-default": "true"}}, "spec": {}}
    await world.create(QUEUE.resource, gangs, "")
    await a_job(world, "other", {}, **{QUEUE_NAME: "gangs"})
    await settle(world)
    assert world.all(POD_GROUPS) == []


async def test_an_annotation_that_makes_no_sense_is_told_and_counts_as_one() -> None:
    world = await new_world()
    await world.create(REPLICA_SETS, replica_set(2, annotations={MIN_MEMBER: "three"}))
    await settle(world)
    assert the_group(world)["spec"]["minMember"] == 1
    told = [it for it in world.telling.records if it.reason == "InvalidAnnotation"]
    assert told
    assert told[0].involved["kind"] == "ReplicaSet"
    assert told[0].message == (
        "metadata.annotations[scheduling.volcano.sh/group-min-member]: 'three' is not a whole number of pods; "
        "the pods start one by one"
    )


async def test_topology_of_pods_becomes_that_of_the_group() -> None:
    world = await new_world()
    notes = {"volcano.sh/network-topology-mode": "Hard", "volcano.sh/network-topology-highest-tier": "2"}
    await world.create(PODS, {"metadata": {"name": "p", "annotations": notes}, "spec": pod_spec()})
    await settle(world)
    assert the_group(world)["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}


@pytest.mark.parametrize(("text", "least"), [("0", 0), ("7", 7), ("+2", 2), ("2147483647", 2**31 - 1)])
def test_minimums_are_whole_numbers(text: str, least: int) -> None:
    assert min_member_of({MIN_MEMBER: text}) == least


@pytest.mark.parametrize("text", ["", "-1", "1.5", "2147483648", "٣", "9" * 5000])
def test_what_is_no_minimum_is_named_and_is_one(text: str) -> None:
    assert least_of({MIN_MEMBER: text}) == 1
    with pytest.raises(MinMemberError, match="group-min-member"):
        min_member_of({MIN_MEMBER: text})


@pytest.mark.parametrize("takes_effect", [True, False])
@pytest.mark.parametrize("writes", range(8))
async def test_stopped_after_any_write_it_ends_where_it_would_have(writes: int, *, takes_effect: bool) -> None:
    world = await new_world()
    await world.create(REPLICA_SETS, replica_set(3, annotations={MIN_MEMBER: "2"}))
    await world.settle(
        lambda objects: [ReplicaSetController(objects), WorkloadGroupController(objects)],
        [(writes, takes_effect)],
        horizon_seconds=3.0,
        kubelet=False,
    )
    group = the_group(world)
    assert group["spec"]["minMember"] == 2
    assert groups_of_pods(world) == [group["metadata"]["name"]] * 3
