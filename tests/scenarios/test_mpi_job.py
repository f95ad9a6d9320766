"""A Volcano Job with the mpi plugin really runs: Open MPI starts processes in other pods by ssh, and these find a sum.

The pods are local processes. Only hosts that have the Job's own host key are talked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.volcano.job import JOB
from allhands.lifecycle.volcano_job.plugins.ssh import DEFAULT_PATH, HOST_KEY_PATH
from tests.frameworks import PATIENCE_SECONDS, cluster_of_this_machine, ended, frameworks_installed, last_words, start
from tests.manifests import CONFIG_MAPS, config_map
from tests.plugin_jobs import job_manifest, task
from tests.unit.agents.local import local

if TYPE_CHECKING:
    from pathlib import Path

PORT = 2222
KEYS = f"$ALLHANDS_POD_ROOT{DEFAULT_PATH}"
PLUGINS = {"mpi": [f"--port={PORT}"]}

SUM = """
import ctypes
import os

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


world, rank, size, total = handle("ompi_mpi_comm_world"), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mine = ctypes.c_int(10 ** rank.value)
mpi.MPI_Allreduce(
    ctypes.byref(mine), ctypes.byref(total), 1, handle("ompi_mpi_int"), handle("ompi_mpi_op_sum"), world
)
where = os.environ["SSH_CONNECTION"].split()[2]
print(f"process {rank.value} of {size.value}: sum {total.value}, in {where}", flush=True)
mpi.MPI_Finalize()
"""

SSHD = f"""
mkdir -p /run/sshd 2>/dev/null || true
exec /usr/sbin/sshd -D -e -f /dev/null -p {PORT} -o ListenAddress=$ALLHANDS_POD_IP -o PidFile=none -o StrictModes=no \\
  -o UsePAM=no -o PermitRootLogin=yes -o AuthorizedKeysFile={KEYS}/authorized_keys -h $HOST_KEY
"""
"""As images do, but for places: here they are below the pod's root, and sshd does not look there by itself."""

WAIT = f"""
ssh_args="-F {KEYS}/config -i {KEYS}/id_ed25519 -o UserKnownHostsFile={KEYS}/known_hosts -o BatchMode=yes"
for host in $(echo $MPI_HOST | tr , ' '); do
  until ssh-keyscan -T 5 -p {PORT} $host 2>/dev/null | grep -q ssh-ed25519; do sleep 0.1; done
done
"""

RUN = f"""{WAIT}
set -eo pipefail
export OMPI_MCA_plm_rsh_args="$ssh_args"
said=$ALLHANDS_POD_ROOT/dev/termination-log
echo $MPI_HOST | tr , ' ' >$said
mpirun --allow-run-as-root --host $MPI_HOST -np 2 python3 $ALLHANDS_POD_ROOT/program/sum.py | tee -a $said
"""


def mpi_job(master: str, worker: str) -> dict[str, Any]:
    def role(name: str, replicas: int, script: str) -> dict[str, Any]:
        container = {
            "name": "main",
            "image": "none",
            "command": ["bash", "-c", script],
            "env": [{"name": "HOST_KEY", "value": HOST_KEY_PATH}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "program", "mountPath": "/program"}],
        }
        volumes = [{"name": "program", "configMap": {"name": "program"}}]
        return task(name, replicas, containers=[container], restartPolicy="Never", volumes=volumes)

    leading = role("master", 1, master) | {"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}
    return job_manifest(PLUGINS, leading, role("worker", 2, worker))


@pytest.mark.timeout(PATIENCE_SECONDS + 300)
async def test_open_mpi_starts_a_process_in_each_worker_and_they_agree_on_a_sum(tmp_path: Path) -> None:
    frameworks_installed()
    async with cluster_of_this_machine(tmp_path) as objects:
        await objects.create(CONFIG_MAPS, config_map("program") | {"data": {"sum.py": SUM}}, "default")
        await objects.create(JOB.resource, mpi_job(RUN, SSHD), "default")
        state = await ended(objects, "job")
        said = await last_words(objects, "job-master-0")
        assert state["phase"] == "Completed", said
        reached = [f"process {rank} of 2: sum 11, in {address}" for rank, address in enumerate(said.split()[:2])]
        assert sorted(said.splitlines()[1:]) == reached, "each was started by ssh, in a pod of its own"


@pytest.mark.timeout(PATIENCE_SECONDS + 300)
async def test_a_host_with_another_key_than_the_jobs_is_not_talked_to(tmp_path: Path) -> None:
    frameworks_installed()
    impostor = f"HOST_KEY=$ALLHANDS_POD_ROOT/own; ssh-keygen -q -t ed25519 -N '' -f $HOST_KEY\n{SSHD}"
    ask = f"{WAIT}\nssh $ssh_args ${{MPI_HOST%%,*}} echo was let in"
    async with local(tmp_path) as here:
        await here.objects.create(CONFIG_MAPS, config_map("program"), "default")
        await start(here, mpi_job(ask, impostor))
        status = await here.ended("job-master-0", PATIENCE_SECONDS)
        said = await here.log("job-master-0")
        assert status["phase"] == "Failed"
        assert "Host key verification failed." in said
        assert "was let in" not in said
