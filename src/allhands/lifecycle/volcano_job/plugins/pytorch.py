"""What `torch.distributed` reads with `env://`: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK.

As in Volcano where that works: the master is 0, workers follow, and pods of other tasks get all but a rank. There a Job
without a master task gets nothing at all, in silence, and all pods of a master task with several are number 0. Here the
first worker leads if there is no master, every pod has a number of its own, and a Job with neither task is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from allhands.lifecycle.volcano_job.plugins.additions import add_ports, add_variables, variables
from allhands.lifecycle.volcano_job.plugins.flags import Port  # noqa: TC001 (msgspec reads it)
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin
from allhands.lifecycle.volcano_job.plugins.ranks import nobody_to_count, ranks_of

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument

DEFAULT_PORT: Final = 23_456
PORT_NAME: Final = "pytorchjob-port"
WAITING: Final = "wait-for-master"


class Pytorch(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    master: Annotated[str, Meta(description="The task whose pod leads.")] = "master"
    worker: Annotated[str, Meta(description="The task of all others.")] = "worker"
    port: Annotated[Port, Meta(description="The port at which the leader listens.")] = DEFAULT_PORT
    wait_master_enabled: Annotated[
        bool, Meta(description="Workers get an init container that waits until the leader listens.")
    ] = False
    wait_master_timeout: Annotated[
        int, Meta(ge=1, le=2**31 - 1, description="For how many seconds it waits before the pod fails.")
    ] = 300
    wait_master_image: Annotated[
        str, Meta(description="The image of that container; it must have sh and nc, or bash.")
    ] = "busybox:1.36.1"

    def needs(self) -> tuple[str, ...]:
        return ("svc",)

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        return nobody_to_count(job, "pytorch", self.master, self.worker, path)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        ranks = ranks_of(job, self.master, self.worker)
        if ranks is None:
            return
        given = {"MASTER_ADDR": ranks.leader, "MASTER_PORT": str(self.port), "WORLD_SIZE": str(ranks.size)}
        rank = ranks.of(task.name, index)
        if rank is not None:
            given["RANK"] = str(rank)
        add_variables(pod, variables(**given))
        add_ports(pod, [(PORT_NAME, self.port)])
        if self.wait_master_enabled and rank:
            self._wait(pod, ranks.leader)

    def _wait(self, pod: Manifest, leader: str) -> None:
        spec = pod["spec"]
        initial = spec.get("initContainers") or ()
        if any(it.get("name") == WAITING for it in initial):
            return
        script = (
            f"n=0\n"
            f"until nc -z {leader} {self.port} 2>/dev/null || (: >/dev/tcp/{leader}/{self.port}) 2>/dev/null; do\n"
            f'  [ "$n" -lt {self.wait_master_timeout} ] || {{ echo "{leader}:{self.port} did not answer in "\\\n'
            f'"{self.wait_master_timeout} seconds"; exit 1; }}\n'
            f"  sleep 2; n=$((n + 2))\n"
            f"done\n"
        )
        container = {"name": WAITING, "image": self.wait_master_image, "command": ["sh", "-c", script]}
        pod["spec"] = {**spec, "initContainers": [*initial, container]}
