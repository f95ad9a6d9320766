"""The processes beside the real API server: how they begin, end, share nodes with others, and what rights they need."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allhands.api.kinds import Resource
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.runtime.installing import install_kinds
from tests.controlplane import ControlPlane
from tests.foreign_kinds import VOLCANO, define
from tests.gang_cluster import Gangs, scheduler_beside
from tests.manifests import LEASES, NAMESPACES, PODS
from tests.scheduler_process import SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACCOUNTS = Resource("", "v1", "serviceaccounts")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues")


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane(scheduler=True) as plane:
        yield plane


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
async def test_it_leads_binds_and_gives_its_lease_back_when_it_is_told_to_end(
    end: signal.Signals, plane: ControlPlane, tmp_path: Path
) -> None:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        gangs = Gangs(objects, f"process-{end.name.lower()}", "native", scheduler=f"ours-{end.name.lower()}")
        await gangs.prepare(nodes=1)
        names = f"--scheduler-name=ours-{end.name.lower()}"
        with SchedulerProcess(tmp_path, plane.kubeconfig, names, "--lease-namespace=leases") as process:
            await asyncio.to_thread(process.wait_until_ready)
            await gangs.gang("gang", 3)
            await gangs.bound("gang", 3)
            lease = (await objects.get(LEASES, "allhands-scheduler", "leases")).manifest()
            assert lease["spec"]["holderIdentity"]
            code, text = await asyncio.to_thread(process.answer, "/metrics")
            assert code == 200
            assert 'allhands_binds_total{result="bound"} 3' in text
            assert 'leader_election_master_status{name="allhands-scheduler"} 1' in text
            assert (await asyncio.to_thread(process.answer, "/healthz"))[0] == 200
            assert await asyncio.to_thread(process.ends, end) == 0
            lease = (await objects.get(LEASES, "allhands-scheduler", "leases")).manifest()
            assert not lease["spec"].get("holderIdentity")
            assert not [line for line in process.lines() if line.get("level") in ("error", "critical")]


async def test_two_schedulers_share_nodes_and_neither_overfills_them(plane: ControlPlane) -> None:
    """kube-scheduler's pods are usage for us, and ours for it."""
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        ours = Gangs(objects, "shared", "native")
        await ours.prepare(nodes=2, cpu="4")
        theirs = Gangs(objects, "shared", "coscheduling", scheduler="default-scheduler")
        await theirs.pods("plain", 3)
        await theirs.bound("plain", 3)
        async with scheduler_beside(plane.kubeconfig):
            await ours.gang("too-large", 6)
            await ours.gang("fits", 5)
            await ours.bound("fits", 5)
            assert "6" in await ours.told("too-large")
            assert await ours.nodes_of("too-large") == [""] * 6
            await theirs.pods("late", 1)
            await ours.seen(PODS, "gang=late", lambda pods: all(it["status"].get("conditions") for it in pods.values()))
            assert await theirs.nodes_of("late") == [""]


async def test_a_kind_that_is_installed_later_is_watched_then(plane: ControlPlane, tmp_path: Path) -> None:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        gangs = Gangs(objects, "later", "volcano", scheduler="later")
        await gangs.prepare(nodes=1)
        options = ("--scheduler-name=later", "--no-leader-elect")
        with SchedulerProcess(tmp_path, plane.kubeconfig, *options) as process:
            await gangs.pods("gang", 2)
            assert "does not exist" in await gangs.told("gang")
            await asyncio.to_thread(process.wait_for, "podgroups.scheduling.volcano.sh is not served here")
            await define(objects, VOLCANO, has_status=False)
            await gangs.group("gang", 2)
            await gangs.bound("gang", 2)
            assert len(process.said("podgroups.scheduling.volcano.sh")) == 2


async def limited(plane: ControlPlane, objects: KubeObjects, name: str, rules: list[dict[str, Any]]) -> Path:
    """A kubeconfig of a service account that may do this and no more."""
    await objects.create(ACCOUNTS, {"metadata": {"name": name}}, "default")
    await objects.create(ROLES, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    await objects.create(BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})
    command = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", "create", "token", name]
    token = await asyncio.to_thread(lambda: subprocess.check_output(command, text=True))
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token.strip()}
    path = plane.folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_missing_rights_are_named_and_what_can_run_runs(plane: ControlPlane, tmp_path: Path) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    ]
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        config = await limited(plane, objects, "limited", rules)
        gangs = Gangs(objects, "limited", "native", scheduler="limited")
        await gangs.prepare(nodes=1)
        with SchedulerProcess(
            tmp_path, config, "--scheduler-name=limited", "--no-leader-elect", "--log-level=info"
        ) as process:
            pod = gangs.pod("", "alone", "1", "", {})
            del pod["spec"]["schedulingGroup"]
            await objects.create(PODS, pod, "limited")
            await gangs.seen(PODS, "", lambda pods: bool(pods["alone"]["spec"].get("nodeName")))
            line = await asyncio.to_thread(process.wait_for, "missing rights:")
            for right in ("patch pods/status", "list jobs.batch", "list poddisruptionbudgets.policy", "create events"):
                assert right in line
            assert process.said("jobs.batch is done without")
            assert await asyncio.to_thread(process.ends, signal.SIGTERM) == 0


async def test_without_the_right_to_bind_it_does_not_even_begin(plane: ControlPlane, tmp_path: Path) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        config = await limited(plane, objects, "reader", rules)
        with SchedulerProcess(tmp_path, config, "--scheduler-name=reader") as process:
            assert await asyncio.to_thread(process.ends) == 1
            (line,) = process.said("missing rights")
            assert "list nodes, watch nodes, create pods/binding" in line


async def test_an_older_server_without_native_groups_is_no_problem(real_tools: Path, tmp_path: Path) -> None:
    """1.32 to 1.35 do not serve scheduling.k8s.io/v1alpha2."""
    flags = ("--runtime-config=scheduling.k8s.io/v1alpha2=false",)
    with ControlPlane(feature_gates="GenericWorkload=false,GangScheduling=false", api_flags=flags) as plane:
        async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
            await define(objects, VOLCANO, has_status=False)
            gangs = Gangs(objects, "older", "volcano")
            await gangs.prepare(nodes=1)
            async with scheduler_beside(plane.kubeconfig):
                await gangs.gang("gang", 3)
                await gangs.bound("gang", 3)


async def test_the_controllers_count_what_queues_hold(plane: ControlPlane, tmp_path: Path) -> None:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        await install_kinds(objects)
        await define(objects, VOLCANO, has_status=False)
        gangs = Gangs(objects, "counted", "volcano", scheduler="counted")
        await gangs.prepare(nodes=1)
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        await objects.create(QUEUES, {**head, "metadata": {"name": "blue"}, "spec": {"weight": 1}})
        options = ("--scheduler-name=counted", "--no-leader-elect")
        with SchedulerProcess(tmp_path, plane.kubeconfig, *options, part="controllers") as process:
            async with scheduler_beside(plane.kubeconfig, scheduler_names=("counted",)):
                await gangs.gang("gang", 3, queue="blue")
                await gangs.bound("gang", 3)
                async with asyncio.timeout(120):
                    while True:
                        status = (await objects.get(QUEUES, "blue")).manifest().get("status") or {}
                        if status.get("allocated", {}).get("cpu") == "3":
                            break
                        await asyncio.sleep(0.1)
            assert await asyncio.to_thread(process.ends, signal.SIGTERM) == 0
        await objects.delete(NAMESPACES, "counted")
