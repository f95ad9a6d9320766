"""A Volcano Job as its users write it, on the embedded cluster: from its group to its end, with nothing else there."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from allhands.api.errors import StatusError
from allhands.api.volcano.queue import DEFAULT, QUEUE
from allhands.compose.embedded import embedded
from allhands.compose.system import SystemOptions
from allhands.lifecycle.volcano_job import JOBS
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.ports import Objects


async def is_served(objects: Objects) -> bool:
    """Whether the kinds are, and the queue is there: it is made when all kinds are served."""
    with contextlib.suppress(StatusError):
        await objects.get(QUEUE.resource, DEFAULT)
        return True
    return False


async def phase_of(objects: Objects, name: str) -> str:
    status = (await objects.get(JOBS, name, "default")).manifest().get("status") or {}
    return str(status.get("state", {}).get("phase", ""))


async def test_a_job_for_volcano_runs_unchanged(tmp_path: Path) -> None:
    async with embedded(tmp_path, nodes=1, system=SystemOptions()) as cluster, asyncio.timeout(120):
        while not await is_served(cluster.objects):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        manifest = job("train", task("worker", 2, seconds=1), schedulerName="volcano", plugins={"svc": [], "env": []})
        await cluster.objects.create(JOBS, manifest, "default")
        while await phase_of(cluster.objects, "train") != "Completed":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
