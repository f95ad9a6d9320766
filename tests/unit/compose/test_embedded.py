"""An embedded cluster says of each of its parts whether it is well."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from allhands.compose.embedded import embedded
from allhands.compose.system import SystemOptions

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.compose.embedded import EmbeddedCluster

WAIT_SECONDS = 60.0


def _asked(cluster: EmbeddedCluster, path: str) -> str:
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    request = urllib.request.Request(f"{cluster.url}{path}", headers={"Authorization": f"Bearer {cluster.token}"})
    try:
        with urllib.request.urlopen(request, context=context, timeout=WAIT_SECONDS) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.read().decode()


async def test_each_part_is_named_and_well_when_it_has_begun(tmp_path: Path) -> None:
    async with embedded(tmp_path, nodes=1, system=SystemOptions()) as cluster:
        async with asyncio.timeout(WAIT_SECONDS):
            while await asyncio.to_thread(_asked, cluster, "/readyz") != "ok":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        told = await asyncio.to_thread(_asked, cluster, "/readyz?verbose")
        for part in ("housekeeping", "kinds", "scheduler", "kubelets", "job-controller", "controller-events"):
            assert f"[+]{part} ok" in told
        assert await asyncio.to_thread(_asked, cluster, "/readyz/job-controller") == "ok"
        counted = await asyncio.to_thread(_asked, cluster, "/metrics")
        assert 'allhands_part_up{part="scheduler"} 1' in counted
        assert "allhands_part_failures_total{" not in counted


async def test_without_a_system_the_api_alone_is_ready(tmp_path: Path) -> None:
    async with embedded(tmp_path) as cluster:
        async with asyncio.timeout(WAIT_SECONDS):
            while await asyncio.to_thread(_asked, cluster, "/readyz") != "ok":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert "scheduler" not in await asyncio.to_thread(_asked, cluster, "/readyz?verbose")
