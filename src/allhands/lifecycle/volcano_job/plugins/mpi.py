"""`MPI_HOST` for the master: the hosts of all workers, with commas between them, as `mpirun --host` takes them.

As in Volcano, which also adds the plugins svc and ssh and refuses a Job without the master's task. There a Job whose
workers go by another name gets no MPI_HOST; here all pods but the master's are then workers, and a master that is
alone is its own. The port is opened in containers; sshd's own is the ssh plugin's `--ssh-port`, and follows this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from allhands.api.errors import FieldError, invalid
from allhands.lifecycle.volcano_job.plugins.additions import add_ports, add_variables, variables
from allhands.lifecycle.volcano_job.plugins.flags import Port  # noqa: TC001 (msgspec reads it)
from allhands.lifecycle.volcano_job.plugins.hosts import hosts_of, joined, task_called, task_names, too_long
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument

DEFAULT_PORT: Final = 22
PORT_NAME: Final = "mpijob-port"


class Mpi(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    master: Annotated[str, Meta(description="The task that starts the others, by mpirun.")] = "master"
    worker: Annotated[str, Meta(description="The task of the pods that it starts processes in.")] = "worker"
    port: Annotated[Port, Meta(description="The port of sshd.")] = DEFAULT_PORT

    def needs(self) -> tuple[str, ...]:
        return ("svc", "ssh")

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        if task_called(job, self.master) is None:
            told = f"no task is called {self.master!r}; the tasks are {task_names(job)}; name it by --master"
            return [invalid(path, "mpi", told)]
        return too_long(path, "mpi", "MPI_HOST", self._hosts(job))

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:  # noqa: ARG002
        add_ports(pod, [(PORT_NAME, self.port)])
        if task.name == self.master:
            add_variables(pod, variables(MPI_HOST=self._hosts(job)))

    def _hosts(self, job: JobDocument) -> str:
        tasks = job.spec.tasks or ()
        workers = [it for it in tasks if it.name == self.worker] or [it for it in tasks if it.name != self.master]
        return joined([hosts_of(job, it) for it in workers or tasks])
