"""`allhands scheduler` beside the real API server and the embedded one: gangs of each kind, as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.api.kinds import Resource
from allhands.compose.embedded import embedded
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from tests.controlplane import ControlPlane
from tests.foreign_kinds import define_all, group
from tests.gang_cluster import KINDS, Gangs, scheduler_beside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

EVENTS = Resource("", "v1", "events")
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
    waiting, ended = {"coscheduling": ("Scheduling", "Finished"), "volcano": ("Pending", "Completed")}[kind]
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
