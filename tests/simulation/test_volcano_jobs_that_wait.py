"""Volcano Jobs that cannot start now, or never can, in the whole system: the Job itself says why, and others go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.queue import QUEUE
from allhands.compose.simulated import simulate
from allhands.lifecycle.command import COMMANDS
from allhands.lifecycle.resource_quota import QUOTAS
from tests.manifests import PRIORITY_CLASSES
from tests.simulation.test_volcano_jobs import found, nodes, phase_of, pods_of, reaches, submit
from tests.volcano_jobs import command, job, task

if TYPE_CHECKING:
    from allhands.compose.simulated import SimulatedCluster


async def says(cluster: SimulatedCluster, name: str, words: str, within_seconds: float = 60) -> str:
    """What the Job says of its waiting, once it has these words."""
    give_up = cluster.seconds + within_seconds
    while True:
        state: dict[str, Any] = (await found(cluster, name)).get("status", {}).get("state", {})
        text = str(state.get("message", ""))
        if words in text:
            return text
        assert cluster.seconds < give_up, f"{name} says {text!r} and not {words!r}"
        await asyncio.sleep(0.5)


async def switches(cluster: SimulatedCluster) -> None:
    """Two switches with a node of four cores each."""
    await nodes(cluster, 2)
    for number in range(2):
        members = [{"type": "Node", "selector": {"exactMatch": {"name": f"node-{number}"}}}]
        spec = {"tier": 1, "tierName": "switch", "members": members}
        await cluster.objects.create(HYPER_NODE.resource, {"metadata": {"name": f"s{number}"}, "spec": spec})


async def urgent(cluster: SimulatedCluster, cpu: int, seconds: int) -> None:
    """A Job that takes the room of others."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await cluster.objects.create(PRIORITY_CLASSES, {**head, "metadata": {"name": "urgent"}, "value": 1000})
    await submit(cluster, job("urgent", task("w", cpu, seconds=seconds), priorityClassName="urgent"))
    await reaches(cluster, "urgent", "Running", 100)


def test_a_job_that_no_switch_could_hold_says_so_makes_no_pods_and_keeps_nobody_of_its_queue_out() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await switches(cluster)
        queue = {"metadata": {"name": "blue"}, "spec": {"capability": {"cpu": "8"}}}
        await cluster.objects.create(QUEUE.resource, queue)
        hard = {"mode": "hard", "highestTierAllowed": 1}
        await submit(cluster, job("huge", task("w", 6, seconds=10), queue="blue", networkTopology=hard))
        text = await says(cluster, "huge", "never")
        assert text == (
            "Its 6 pods ask for 6 cpu together and must be in one domain of tier 1 (switch); the largest of 2, "
            '"hypernode:s0", has 4 in all: it can never start on these nodes.'
        )
        await submit(cluster, job("next", task("w", 8, seconds=10), queue="blue"))
        await reaches(cluster, "next", "Completed", 100)
        assert await pods_of(cluster, "huge") == []
        assert await phase_of(cluster, "huge") == "Pending"

    simulate(story)


@pytest.mark.parametrize("waits", [{}, {"dependsOn": {"name": ["first"]}}], ids=["at once", "after the others"])
def test_a_job_of_which_some_pods_have_succeeded_and_the_others_were_preempted_goes_on(waits: dict[str, Any]) -> None:
    """Who has succeeded counts towards the minimum: nobody is made anew for it."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        await submit(
            cluster, job("low", task("first", 2, seconds=5), task("then", 2, seconds=300, **waits), minAvailable=4)
        )
        await reaches(cluster, "low", "Running", 30)
        await asyncio.sleep(20)
        await urgent(cluster, 4, 60)
        await asyncio.sleep(10)
        pods = {it["metadata"]["name"]: it["status"]["phase"] for it in await pods_of(cluster, "low")}
        assert pods == {
            "low-first-0": "Succeeded",
            "low-first-1": "Succeeded",
            "low-then-0": "Pending",
            "low-then-1": "Pending",
        }
        await reaches(cluster, "low", "Completed", 600)

    simulate(story)


def test_a_job_of_which_some_pods_have_failed_and_the_others_were_preempted_says_what_would_help() -> None:
    """Volcano's waits for ever and says nothing: its failed pods are not made anew, and do not count."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 1)
        tasks = (task("first", 2, seconds=5, end="1"), task("then", 2, seconds=300))
        await submit(cluster, job("low", *tasks, minAvailable=4))
        await reaches(cluster, "low", "Running", 30)
        await asyncio.sleep(20)
        await urgent(cluster, 4, 30)
        text = await says(cluster, "low", "have failed", 200)
        assert text == (
            'It has 0 of the 2 pods of task "first" that it must start with. 2 of its pods have failed, and these do '
            "not count: it starts again if they are made anew, as a policy for failed pods or a restart does, or if "
            "its minimum is lowered."
        )
        await reaches(cluster, "urgent", "Completed", 100)
        # As it says: a restart helps.
        await cluster.objects.create(COMMANDS, command("again", "RestartJob", "low"), "default")
        await reaches(cluster, "low", "Running", 100)

    simulate(story)


def test_a_job_that_a_quota_never_allows_is_told_so_at_once_though_another_quota_is_used_up_now() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 6)
        hard = {"hard": {"requests.cpu": "10", "pods": "5"}}
        await cluster.objects.create(QUOTAS, {"metadata": {"name": "ours"}, "spec": hard}, "default")
        await asyncio.sleep(5)
        await submit(cluster, job("ok", task("w", 2, cpu="4", seconds=100)))
        await reaches(cluster, "ok", "Running", 60)
        await asyncio.sleep(5)
        await submit(cluster, job("big", task("w", 4, cpu="4", seconds=10)))
        text = await says(cluster, "big", "never", 20)
        assert text == (
            'ResourceQuota "ours" of its namespace allows 10 requests.cpu, of which 8 is used or promised; the group '
            "asks for 16. It can never start with these quotas, even if nothing else ran."
        )

    simulate(story)


def with_spec(it: dict[str, Any], **spec: Any) -> dict[str, Any]:
    it["template"]["spec"].update(spec)
    return it


CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]
NODE_GROUP = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["empty"]}}


@pytest.mark.parametrize(
    ("stuck", "words"),
    [
        (job("stuck", with_spec(task("w", 5, cpu="4"), nodeSelector={"disk": "nvme"})), "node selector"),
        (job("stuck", task("w", 5, cpu="4"), queue="blue"), "volcano.sh/nodegroup-name"),
        (job("stuck", with_spec(task("w", 5, cpu="4"), volumes=CLAIM)), 'default/absent"'),
        (job("stuck", with_spec(task("w", 5, cpu="4"), priorityClassName="missing")), ""),
    ],
    ids=["no node matches", "no node in the node group", "no claim", "no priority class"],
)
def test_a_job_that_was_let_in_and_that_no_end_of_others_helps_keeps_nobody_out(
    stuck: dict[str, Any], words: str
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 6)
        queue = {"metadata": {"name": "blue"}, "spec": {"weight": 1, "affinity": NODE_GROUP}}
        await cluster.objects.create(QUEUE.resource, queue)
        await submit(cluster, stuck)
        await says(cluster, "stuck", words)
        await asyncio.sleep(5)
        await submit(cluster, job("next", task("w", 4, cpu="4", seconds=10)))
        await reaches(cluster, "next", "Completed", 200)
        assert await phase_of(cluster, "stuck") == "Pending"

    simulate(story)


def test_a_job_whose_pods_could_be_made_only_later_starts_once_they_can() -> None:
    """What it was promised keeps others out no more; when its pods come, they wait for room as all do."""

    async def story(cluster: SimulatedCluster) -> None:
        await nodes(cluster, 6)
        await submit(cluster, job("late", with_spec(task("w", 5, cpu="4", seconds=10), priorityClassName="missing")))
        await asyncio.sleep(10)
        await submit(cluster, job("next", task("w", 4, cpu="4", seconds=30)))
        await reaches(cluster, "next", "Running", 200)
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await cluster.objects.create(PRIORITY_CLASSES, {**head, "metadata": {"name": "missing"}, "value": 5})
        await reaches(cluster, "late", "Completed", 600)

    simulate(story)
