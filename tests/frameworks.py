"""Real frameworks for tests of job plugins: Open MPI and sshd of this machine, and Ray in an environment of its own.

`tools/frameworks/install` brings what is missing, once. Where it cannot, a test that needs them says so in the summary,
and with CI=true it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.local_node import LocalNode
from allhands.api.volcano.job import JOB
from allhands.compose.embedded import embedded
from allhands.compose.system import SystemOptions
from allhands.ports import Query
from allhands.runtime.installing import install_kinds
from tests.manifests import DEFINITIONS, PODS
from tests.plugin_jobs import all_pods, companions, read
from tests.unit.agents.local import NODE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.ports import Objects
    from tests.unit.agents.local import Local

INSTALL = Path(__file__).parents[1] / "tools" / "frameworks" / "install"
PATIENCE_SECONDS = 600
"""A framework takes half a minute to start on a busy machine; another may be much slower."""


@lru_cache(maxsize=1)
def frameworks_installed() -> Path:
    """The folder of `ray`; afterwards `mpirun` and `sshd` are there, too."""
    done = subprocess.run(
        [INSTALL], env={**os.environ, "PYTHON": sys.executable}, check=False, capture_output=True, text=True
    )
    if done.returncode:
        told = f"the frameworks cannot be installed: {done.stderr}"
        pytest.fail(told) if os.environ.get("CI") == "true" else pytest.skip(told)
    return Path(done.stdout.splitlines()[-1])


@contextlib.asynccontextmanager
async def cluster_of_this_machine(folder: Path) -> AsyncIterator[Objects]:
    """A whole embedded cluster whose one node runs pods as processes."""
    node = LocalNode(name="here", capacity={"cpu": "8", "memory": "8Gi"})
    options = SystemOptions(process_node=node, process_folder=folder / "pods", simulates_nodes=False)
    async with embedded(folder / "cluster", system=options) as cluster:
        await install_kinds(cluster.objects)
        yield cluster.objects


async def ended(objects: Objects, name: str) -> dict[str, Any]:
    """The state of the Job once it is over."""
    over = ("Completed", "Failed", "Terminated", "Aborted")
    watch = await objects.watch(JOB.resource, Query(namespace="default", fields=f"metadata.name={name}"))
    state: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for event in watch:
                state = (event.manifest().get("status") or {}).get("state") or {}
                if state.get("phase") in over:
                    return state
    except TimeoutError:
        pods = (await objects.list(PODS, Query(namespace="default"))).items
        raise AssertionError(f"{name} did not end: {state}; pods: {pods}") from None
    finally:
        await watch.close()
    raise AssertionError("the watch ended")


async def last_words(objects: Objects, pod: str) -> str:
    """What the pod's container wrote into its termination message, or its log if it failed."""
    status = (await objects.get(PODS, pod, "default")).manifest()["status"]
    container = status["containerStatuses"][0]
    for state in (container["state"], container.get("lastState") or {}):
        if "terminated" in state:
            return str(state["terminated"].get("message", ""))
    return ""


async def start(here: Local, manifest: dict[str, Any]) -> None:
    """The Job, what plugins put beside its pods, and the pods, completed by them and bound to the node."""
    await here.objects.create(DEFINITIONS, JOB.manifest())
    here.store.housekeeper.run_pending()
    made = read((await here.objects.create(JOB.resource, manifest, "default")).manifest())
    for companion in companions(made):
        await here.objects.create(companion.resource, companion.manifest, "default")
    for pod in all_pods(made):
        pod["spec"]["nodeName"] = NODE
        await here.objects.create(PODS, pod, "default")
