"""The manifests of examples/volcano run to their end on the whole system, as a user applies them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.ports import Query

if TYPE_CHECKING:
    from allhands.compose.simulated import SimulatedCluster

EXAMPLES = Path(__file__).parents[3] / "examples" / "volcano"
FILES = sorted(EXAMPLES.glob("*.yaml"))
RESOURCES = {it.kind: it.resource for it in VOLCANO_KINDS}
NAMESPACED = {it.kind: it.namespaced for it in VOLCANO_KINDS}
ENDS = {"Job": "Completed", "JobFlow": "Succeed"}
"""Of kinds that end; a CronJob has ended well when one of its Jobs has."""
WITHIN_SECONDS = 900


async def listed(cluster: SimulatedCluster, kind: str) -> list[dict[str, Any]]:
    page = await cluster.objects.list(RESOURCES[kind], Query(namespace="default"))
    return [msgspec.json.decode(raw) for raw in page.items]


def phase_of(found: dict[str, Any]) -> str:
    return str(((found.get("status") or {}).get("state") or {}).get("phase", ""))


@pytest.mark.parametrize("file", FILES, ids=lambda it: it.stem)
def test_an_example_runs_to_its_end(file: Path) -> None:
    manifests = [it for it in yaml.safe_load_all(file.read_text(encoding="utf-8")) if it]

    async def story(cluster: SimulatedCluster) -> None:
        await cluster.ready()
        for number in range(4):
            await add_node(cluster.objects, node_manifest(f"node-{number}", NodeSize("4"), cluster.store.now()))
        for it in manifests:
            namespace = "default" if NAMESPACED[it["kind"]] else ""
            await cluster.objects.create(RESOURCES[it["kind"]], it, namespace)
        give_up = cluster.seconds + WITHIN_SECONDS
        while cluster.seconds < give_up:
            await asyncio.sleep(1)
            found = [(kind, it) for kind in ENDS for it in await listed(cluster, kind)]
            timed = await listed(cluster, "CronJob")
            if timed and all((it.get("status") or {}).get("lastSuccessfulTime") for it in timed):
                return
            if found and not timed and all(phase_of(it) == ENDS[kind] for kind, it in found):
                return
        raise AssertionError({it["metadata"]["name"]: it.get("status") for _, it in found})

    simulate(story)


def test_there_are_examples() -> None:
    assert {"gang", "stages", "pytorch", "queues", "flow", "cron"} <= {it.stem for it in FILES}
