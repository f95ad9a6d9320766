"""What a JAX program starts with on several hosts: JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID.

`jax.distributed.initialize` itself reads the first; the other two are the names that programs give it as
`num_processes` and `process_id`. Process 0 coordinates: the master's pod, or the first worker if there is no master. A
pod is one process. Volcano has no such plugin.
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

DEFAULT_PORT: Final = 8_476
"""JAX's own, where it chooses one."""
PORT_NAME: Final = "jax-coordinator"


class Jax(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    master: Annotated[str, Meta(description="The task whose pod is process 0.")] = "master"
    worker: Annotated[str, Meta(description="The task of all other processes.")] = "worker"
    port: Annotated[Port, Meta(description="The port at which the coordinator listens.")] = DEFAULT_PORT

    def needs(self) -> tuple[str, ...]:
        return ("svc",)

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        return nobody_to_count(job, "jax", self.master, self.worker, path)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        ranks = ranks_of(job, self.master, self.worker)
        rank = ranks.of(task.name, index) if ranks is not None else None
        if ranks is None or rank is None:
            return
        given = {
            "JAX_COORDINATOR_ADDRESS": f"{ranks.leader}:{self.port}",
            "JAX_COORDINATOR_PORT": str(self.port),
            "JAX_NUM_PROCESSES": str(ranks.size),
            "JAX_PROCESS_ID": str(rank),
        }
        add_variables(pod, variables(**given))
        if rank == 0:
            add_ports(pod, [(PORT_NAME, self.port)])
