"""`allhands scheduler` beside the real API server and the embedded one: gangs of each kind, as people write them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from allhands.api.kinds import Resource
from allhands.cli import root
from allhands.compose.embedded import embedded
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.runtime.installing import install_kinds
from tests.controlplane import ControlPlane
from tests.foreign_kinds import define_all, group
from tests.gang_cluster import KINDS, Gangs, scheduler_beside
from tests.manifests import PODS, PRIORITY_CLASSES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

EVENTS = Resource("", "v1", "events")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues")
FOREIGN = [kind for kind in KINDS if kind != "native"]


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(params=["real", "embedded"])
async def cluster(
    request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path
) -> AsyncIterator[tuple[str, Path]]:
    if request.param == "real":
        yield request.param, plane.kubeconfig
        return
    async with embedded(tmp_path / "embedded") as found:
        yield request.param, found.kubeconfig


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gang_is_placed_whole_or_not_at_all(kind: str, cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        gangs = Gangs(objects, f"whole-{kind}-{where}", kind)
        await gangs.prepare(nodes=2)
        async with scheduler_beside(config):
            await gangs.gang("fits", 5)
            await gangs.bound("fits", 5)
            await gangs.gang("does-not", 4)
            assert "4" in await gangs.told("does-not")
            assert await gangs.nodes_of("does-not") == [""] * 4
            # What is smaller is not kept waiting by it.
            await gangs.gang("small", 3)
            await gangs.bound("small", 3)
            assert await gangs.nodes_of("does-not") == [""] * 4


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_groups_own_status_tells_how_far_it_is(kind: str, cluster: tuple[str, Path]) -> None:
    where, config = cluster
    waiting, ended = {"coscheduling": ("Scheduling", "Finished"), "volcano": ("Inqueue", "Completed")}[kind]
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        gangs = Gangs(objects, f"status-{kind}-{where}", kind)
        await gangs.prepare(nodes=1)
        async with scheduler_beside(config):
            await gangs.gang("large", 6)
            await gangs.gang("train", 4)
            status = await gangs.status("large", lambda it: it.get("phase") == waiting)
            if kind == "volcano":
                status = await gangs.status("large", lambda it: bool(it.get("conditions")))
                (told,) = status["conditions"]
                assert (told["type"], told["status"], told["reason"]) == ("Unschedulable", "True", "NotEnoughResources")
                assert "6" in told["message"]
            await gangs.bound("train", 4)
            await gangs.run("train", "Running")
            status = await gangs.status("train", lambda it: it.get("phase") == "Running" and it.get("running") == 4)
            await gangs.run("train", "Succeeded")
            status = await gangs.status("train", lambda it: it.get("phase") == ended)
            assert (status["running"], status["succeeded"]) == (0, 4)


@pytest.mark.parametrize("kind", KINDS)
async def test_one_event_tells_of_the_whole_gang(kind: str, cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        gangs = Gangs(objects, f"events-{kind}-{where}", kind)
        await gangs.prepare(nodes=1)
        async with scheduler_beside(config):
            await gangs.gang("train", 4)
            await gangs.gang("large", 6)
            events = await gangs.seen(
                EVENTS, "", lambda found: {it["reason"] for it in found.values()} == {"Scheduled", "FailedScheduling"}
            )
            told = {(it["involvedObject"]["kind"], it["involvedObject"]["name"]) for it in events.values()}
            assert told == {("PodGroup", "train"), ("PodGroup", "large")}
            assert "Bound 4 pods to 1 node." in {it["message"] for it in events.values()}


async def test_the_native_condition_says_that_the_gang_is_scheduled(cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        gangs = Gangs(objects, f"condition-{where}", "native")
        await gangs.prepare(nodes=1)
        async with scheduler_beside(config):
            await gangs.gang("large", 6)
            await gangs.gang("train", 4)
            status = await gangs.status("train", lambda it: bool(it.get("conditions")))
            assert [(it["type"], it["status"]) for it in status["conditions"]] == [("PodGroupScheduled", "True")]
            status = await gangs.status("large", lambda it: bool(it.get("conditions")))
            assert [(it["status"], it["reason"]) for it in status["conditions"]] == [("False", "Unschedulable")]


async def test_volcano_tasks_have_minimums_of_their_own(cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        gangs = Gangs(objects, f"tasks-{where}", "volcano")
        await gangs.prepare(nodes=1)
        async with scheduler_beside(config):
            await gangs.group("pair", 3, minTaskMember={"ps": 1, "worker": 2})
            await gangs.pods("pair", 3, task="worker")
            assert "ps" in await gangs.told("pair")
            await gangs.pods("pair", 1, task="ps")
            await gangs.bound("pair", 4)


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_malformed_group_says_so_and_disturbs_nobody(kind: str, cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        gangs = Gangs(objects, f"malformed-{kind}-{where}", kind)
        await gangs.prepare(nodes=1)
        async with scheduler_beside(config):
            bad = group(gangs.resource, "bad", minMember="three")
            bad["status"] = {"phase": 7, "running": "many", "conditions": "none"}
            await objects.create(gangs.resource, bad, gangs.namespace)
            await gangs.pods("bad", 3)
            await gangs.gang("good", 4)
            await gangs.bound("good", 4)
            assert "spec.minMember" in await gangs.told("bad")
            # Once it is right it is like any other.
            await gangs.run("good", "Succeeded")
            await objects.patch(gangs.resource, "bad", "merge", {"spec": {"minMember": 3}}, gangs.namespace)
            await gangs.bound("bad", 3)


async def ask(config: Path, *arguments: str) -> str:
    """What a command for people prints."""
    command, *rest = arguments
    words = [command, "--kubeconfig", str(config), *rest]
    shown = await asyncio.to_thread(CliRunner().invoke, root, words)
    assert shown.exit_code == 0, shown.output
    return shown.output


@pytest.mark.parametrize("kind", KINDS)
async def test_people_see_why_a_gang_of_any_kind_waits(kind: str, cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        space = f"people-{kind}-{where}"
        gangs = Gangs(objects, space, kind)
        await gangs.prepare(nodes=1)
        async with scheduler_beside(config):
            await gangs.gang("runs", 3)
            await gangs.bound("runs", 3)
            await gangs.gang("waits", 4)
            await gangs.told("waits")
            listed = json.loads(await ask(config, "jobs", "-n", space, "-o", "json"))["items"]
            assert [(it["label"], it["api_group"]) for it in listed] == [
                ("podgroup/runs", gangs.resource.group),
                ("podgroup/waits", gangs.resource.group),
            ]
            assert [(it["bound"], it["waiting"]) for it in listed] == [(3, 0), (0, 4)]
            table = await ask(config, "jobs", "-n", space)
            assert max(map(len, table.splitlines())) <= 100
            for name in ("waits", "podgroup/waits", f"podgroup.{gangs.resource.group}/waits"):
                story = await ask(config, "explain", name, "-n", space)
                assert story.startswith(f'podgroup/waits in namespace "{space}": Waiting')
                assert "1 of the 4 pods fit now; cpu is short by 3." in " ".join(story.split())


async def test_volcano_sub_groups_are_each_placed_in_one_rack(cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        space = f"parts-{where}"
        gangs = Gangs(objects, space, "volcano")
        await gangs.prepare(nodes=0)
        racks: dict[str, str] = {}
        for number in range(4):
            name, rack = f"{space}-{number}", f"{space}-r{number % 2}"
            labels = {"room": space, "topology.allhands.dev/rack": rack}
            await add_node(objects, node_manifest(name, NodeSize("2"), "2026-01-01T00:00:00Z", labels))
            racks[name] = rack
        policy = {
            "name": "worker",
            "labelSelector": {"matchLabels": {"gang": "train"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "subGroupSize": 4,
            "minSubGroups": 2,
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
        async with scheduler_beside(config):
            await gangs.group("train", 8, subGroupPolicy=[policy])
            for number in range(8):
                pod = gangs.pod("train", f"train-{number}", "1", "", {})
                pod["metadata"]["labels"]["volcano.sh/partition-id"] = str(number // 4)
                if number == 7:
                    assert "worker" in await gangs.told("train")
                await objects.create(PODS, pod, space)
            found = await gangs.seen(
                PODS, "gang=train", lambda pods: sum(bool(it["spec"].get("nodeName")) for it in pods.values()) == 8
            )
        homes = {name: racks[it["spec"]["nodeName"]] for name, it in found.items()}
        parts = [{homes[f"train-{number}"] for number in range(first, first + 4)} for first in (0, 4)]
        assert [len(part) for part in parts] == [1, 1]
        assert parts[0] != parts[1]


async def test_a_volcano_group_without_pods_is_let_in_when_its_queue_has_room(cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await define_all(objects)
        await install_kinds(objects)
        gangs = Gangs(objects, f"inqueue-{where}", "volcano")
        await gangs.prepare(nodes=1)
        queue = f"small-{where}"
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}}
        await objects.create(QUEUES, {**head, "spec": {"capability": {"cpu": "3"}}})
        async with scheduler_beside(config):
            more = {"queue": queue, "minResources": {"cpu": "2"}}
            await gangs.group("first", 2, **more)
            await gangs.status("first", lambda it: it.get("phase") == "Inqueue")
            await gangs.group("second", 2, **more)
            status = await gangs.status("second", lambda it: bool(it.get("conditions")))
            assert status["phase"] == "Pending"
            assert (
                f'Queue "{queue}" has given or promised 2 of its capability of 3 cpu'
                in status["conditions"][0]["message"]
            )
            await gangs.pods("first", 2)
            await gangs.bound("first", 2)
            await gangs.run("first", "Succeeded")
            await gangs.status("second", lambda it: it.get("phase") == "Inqueue")
            await gangs.status("first", lambda it: it.get("phase") == "Completed")


async def test_a_native_gang_has_the_priority_of_its_pods(cluster: tuple[str, Path]) -> None:
    where, config = cluster
    async with KubeObjects(kubeconfig.load(config)) as objects:
        gangs = Gangs(objects, f"priority-{where}", "native")
        await gangs.prepare(nodes=1)
        await objects.create(PRIORITY_CLASSES, {"metadata": {"name": f"high-{where}"}, "value": 1000})
        await gangs.gang("plain", 3)
        await gangs.group("urgent", 3)
        await gangs.pods("urgent", 3, priorityClassName=f"high-{where}")
        async with scheduler_beside(config):
            await gangs.bound("urgent", 3)
            assert "3" in await gangs.told("plain")
