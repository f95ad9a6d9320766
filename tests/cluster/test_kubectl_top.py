"""A stock `kubectl top` against an embedded cluster with nodes of both kinds, for an administrator and for a user."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.local_node import LocalNode
from allhands.api.kinds import Resource
from allhands.compose.access_settings import AccessWish
from allhands.compose.embedded import EmbeddedCluster, embedded
from allhands.compose.system import SystemOptions
from tests.manifests import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WAIT_SECONDS = 60
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
LARGE = "x = bytearray(50 * 2**20); import signal; signal.pause()"


class Top:
    """A running cluster and a kubectl beside it."""

    def __init__(self, cluster: EmbeddedCluster, kubectl: Path, home: Path) -> None:
        self.cluster = cluster
        self._kubectl = kubectl
        self._environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(home)}

    async def ask(self, *words: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            str(self._kubectl),
            *words,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(WAIT_SECONDS):
            output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def rows(self, *words: str) -> list[list[str]]:
        """The table, without its head."""
        code, output = await self.ask("top", *words)
        assert code == 0, output
        return [line.split() for line in output.splitlines()[1:]]

    async def add_pod(self, name: str, namespace: str, node: str, *containers: dict[str, Any]) -> None:
        body = {
            "metadata": {"name": name, "labels": {"app": name}, "annotations": {"sim.allhands.dev/run-seconds": "600"}},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": list(containers)},
        }
        await self.cluster.objects.create(PODS, body, namespace)

    async def running(self, name: str, namespace: str) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                pod = (await self.cluster.objects.get(PODS, name, namespace)).manifest()
                if pod.get("status", {}).get("phase") == "Running":
                    return
                await asyncio.sleep(0.05)


def container(name: str, *command: str, **requests: str) -> dict[str, Any]:
    return {"name": name, "image": "none", "command": list(command), "resources": {"requests": requests}}


@pytest.fixture
async def top(tmp_path: Path, real_tools: Path) -> AsyncIterator[Top]:
    system = SystemOptions(process_node=LocalNode(name="local"), process_folder=tmp_path / "pods")
    access = AccessWish(rbac=True)
    async with embedded(tmp_path / "data", nodes=2, system=system, access=access) as cluster:
        found = Top(cluster, real_tools / "kubectl", tmp_path / "home")
        await cluster.objects.create(NAMESPACES, {"metadata": {"name": "team"}})
        await found.add_pod("real", "default", "local", container("large", sys.executable, "-c", LARGE))
        played = (container("main", cpu="1500m", memory="2Gi"), container("beside", cpu="250m", memory="1Gi"))
        await found.add_pod("played", "team", "node-1", *played)
        await found.add_pod("waits", "team", "nowhere", container("main"))
        await found.running("real", "default")
        await found.running("played", "team")
        yield found


async def test_top_shows_what_is_used(top: Top) -> None:
    nodes = {row[0]: row[1:] for row in await top.rows("nodes")}
    assert sorted(nodes) == ["local", "node-1", "node-2"]
    assert nodes["node-1"] == ["1750m", "21%", "3072Mi", "9%"]
    assert nodes["node-2"] == ["0m", "0%", "0Mi", "0%"]
    assert nodes["local"][0].endswith("m")
    assert (await top.rows("node", "node-1"))[0][0] == "node-1"
    assert await top.rows("pods", "-n", "team") == [["played", "1750m", "3072Mi"]]
    everything = await top.rows("pods", "-A", "--sort-by=cpu")
    assert [row[:2] for row in everything] == [["team", "played"], ["default", "real"]]
    assert [row[1] for row in await top.rows("pods", "-A", "-l", "app=real")] == ["real"]
    assert await top.rows("pods", "-n", "team", "--containers") == [
        ["played", "beside", "250m", "1024Mi"],
        ["played", "main", "1500m", "2048Mi"],
    ]
    assert (await top.rows("pods", "-n", "team", "--sum"))[-1] == ["1750m", "3072Mi"]
    mebibytes = (await top.rows("pod", "real"))[0][2]
    assert int(mebibytes.removesuffix("Mi")) >= 50


async def test_top_says_what_is_wrong_in_the_words_of_a_real_cluster(top: Top) -> None:
    for words, told in (
        (("pod", "nobody"), 'pods "nobody" not found'),
        (("pod", "waits", "-n", "team"), 'podmetrics.metrics.k8s.io "team/waits" not found'),
        (("node", "nobody"), 'nodes "nobody" not found'),
    ):
        code, output = await top.ask("top", *words)
        assert code == 1
        assert f"Error from server (NotFound): {told}" in output


async def test_who_may_view_a_namespace_sees_what_its_pods_use(top: Top) -> None:
    subjects = [{"kind": "User", "name": "ada"}]
    binding = {
        "metadata": {"name": "ada"},
        "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": ROLES.group},
        "subjects": subjects,
    }
    await top.cluster.objects.create(BINDINGS, binding, "team")
    async with asyncio.timeout(WAIT_SECONDS):  # until the role has gathered what it is made of
        while (await top.ask("auth", "can-i", "list", "pods.metrics.k8s.io", "-n", "team", "--as", "ada"))[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await top.rows("pods", "-n", "team", "--as", "ada") == [["played", "1750m", "3072Mi"]]
    code, output = await top.ask("top", "nodes", "--as", "ada")
    assert code == 1
    assert 'cannot list resource "nodes" in API group "metrics.k8s.io" at the cluster scope' in output
