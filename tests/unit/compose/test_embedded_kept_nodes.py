"""Nodes that were kept and that nobody serves this time: no pod is bound to them, and users are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.agents.local_node import LocalNode
from allhands.compose.embedded import embedded
from allhands.compose.system import SystemOptions
from tests.manifests import NODES

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from allhands.compose.embedded import EmbeddedCluster

NOW = "2026-01-31T12:00:00Z"


async def local_node(cluster: EmbeddedCluster) -> dict[str, Any]:
    return (await cluster.objects.get(NODES, "local")).manifest()


def ready(node: dict[str, Any]) -> dict[str, Any]:
    return next(it for it in node["status"]["conditions"] if it["type"] == "Ready")


async def test_a_kept_node_that_nobody_serves_is_unknown_and_tainted_from_the_start(tmp_path: Path) -> None:
    async with embedded(tmp_path, nodes=1, durable=True) as cluster:
        await LocalNode(name="local").register(cluster.objects, NOW)
        assert ready(await local_node(cluster))["status"] == "True"
    async with embedded(tmp_path, nodes=None, durable=True, system=SystemOptions()) as cluster:
        assert cluster.unserved == ("local",)
        node = await local_node(cluster)
        assert (ready(node)["status"], ready(node)["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert ("node.kubernetes.io/unreachable", "NoSchedule") in [
            (it["key"], it["effect"]) for it in node["spec"]["taints"]
        ]
        other = (await cluster.objects.get(NODES, "node-1")).manifest()
        assert ready(other)["status"] == "True"
        assert cluster.simulated_nodes() == 1


async def test_a_node_that_is_served_again_is_left_alone(tmp_path: Path) -> None:
    async with embedded(tmp_path, durable=True) as cluster:
        await LocalNode(name="local").register(cluster.objects, NOW)
    system = SystemOptions(process_node=LocalNode(name="local"), process_folder=tmp_path / "pods")
    async with embedded(tmp_path, durable=True, system=system) as cluster:
        assert cluster.unserved == ()
        assert ready(await local_node(cluster))["status"] == "True"


async def test_the_api_alone_says_nothing_about_nodes(tmp_path: Path) -> None:
    async with embedded(tmp_path, durable=True) as cluster:
        await LocalNode(name="local").register(cluster.objects, NOW)
    async with embedded(tmp_path, durable=True) as cluster:
        assert cluster.unserved == ()
        assert ready(await local_node(cluster))["status"] == "True"
