"""A Volcano Job with the ray plugin really runs: the plugin's own commands start head and worker, which join, and a
program runs something on each of them. The pods are local processes.
"""

from __future__ import annotations

import json
import socket
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.volcano.job import JOB
from tests.frameworks import PATIENCE_SECONDS, cluster_of_this_machine, ended, frameworks_installed, last_words
from tests.plugin_jobs import job_manifest, task

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = f"""
import json, os, pathlib, time
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

POLL_SECONDS = 0.1
ray.init(address=os.environ["HEAD"], log_to_driver=False)
last = time.monotonic() + {PATIENCE_SECONDS}
while len(nodes := [it["NodeID"] for it in ray.nodes() if it["Alive"]]) < 2:
    assert time.monotonic() < last, nodes
    time.sleep(POLL_SECONDS)


@ray.remote(num_cpus=0)
def task_of_pod():
    return os.environ["VC_TASK"]


where = [NodeAffinitySchedulingStrategy(node_id=it, soft=False) for it in nodes]
ran = sorted(ray.get([task_of_pod.options(scheduling_strategy=it).remote() for it in where]))
pathlib.Path(os.environ["ALLHANDS_POD_ROOT"], "dev/termination-log").write_text(json.dumps(ran))
"""
SPARING = {
    "RAY_num_prestart_python_workers": "0",
    "RAY_enable_metrics_collection": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def free_ports(count: int) -> list[int]:
    """Ray listens at all addresses of the machine, where others may run one of theirs."""
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


def role(name: str, folder: str, port: int, **container: Any) -> dict[str, Any]:
    """A task as users of the plugin write it: without a command, but for the program's."""
    own = {
        "PATH": f"{frameworks_installed()}:/usr/bin:/bin",
        "RAY_TMPDIR": folder,
        "VC_TASK": name,
        "HEAD": f"job-head-0.job:{port}",
        **SPARING,
    }
    env = [{"name": key, "value": value} for key, value in own.items()]
    return task(name, containers=[{"name": name, "image": "none", "env": env, **container}], restartPolicy="OnFailure")


@pytest.mark.timeout(PATIENCE_SECONDS + 300)
async def test_a_ray_cluster_comes_up_and_runs_tasks_on_head_and_worker(tmp_path: Path) -> None:
    port, dashboard, client = free_ports(3)
    flags = [f"--port={port}", f"--dashboardPort={dashboard}", f"--clientPort={client}"]
    # Ray's sockets lie in its folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        program = role("program", folder, port, command=["python", "-c", PROGRAM])
        program |= {"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}
        manifest = job_manifest({"ray": flags}, role("head", folder, port), role("worker", folder, port), program)
        async with cluster_of_this_machine(tmp_path) as objects:
            await objects.create(JOB.resource, manifest, "default")
            state = await ended(objects, "job")
            said = await last_words(objects, "job-program-0")
            assert state["phase"] == "Completed", said
            assert json.loads(said) == ["head", "worker"]
