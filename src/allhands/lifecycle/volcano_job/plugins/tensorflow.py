"""`TF_CONFIG`, by which TensorFlow's strategies learn who is in the cluster and who they are.

As in Volcano: a Job of a single pod gets none. There a pod of a task that is none of the four roles is told to be of a
type that is not in the cluster, which TensorFlow refuses; here it gets none, and a Job without any of the roles is
refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.errors import FieldError, invalid
from allhands.lifecycle.volcano_job.plugins.additions import add_variables, variables
from allhands.lifecycle.volcano_job.plugins.flags import Port  # noqa: TC001 (msgspec reads it)
from allhands.lifecycle.volcano_job.plugins.hosts import Hosts, hosts_of, task_names, too_long
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument

DEFAULT_PORT: Final = 2_222
VARIABLE: Final = "TF_CONFIG"


class Tensorflow(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    ps: Annotated[str, Meta(description="The task of parameter servers.")] = "ps"
    worker: Annotated[str, Meta(description="The task of workers.")] = "worker"
    chief: Annotated[str, Meta(description="The task of the chief.")] = "chief"
    evaluator: Annotated[str, Meta(description="The task of the evaluator.")] = "evaluator"
    port: Annotated[Port, Meta(description="The port at which all of them listen.")] = DEFAULT_PORT

    def needs(self) -> tuple[str, ...]:
        return ("svc",)

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        roles = self._roles(job)
        if not roles and not _is_single(job):
            wanted = ", ".join((self.ps, self.worker, self.chief, self.evaluator))
            told = f"no task is called any of {wanted}; the tasks are {task_names(job)}"
            return [invalid(path, "tensorflow", f"{told}; name them by --ps, --worker, --chief and --evaluator")]
        return too_long(path, "tensorflow", VARIABLE, _text(roles, self.port, "evaluator", 0))

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        role = next((it for it, name in self._names() if name == task.name), None)
        if role is not None and not _is_single(job):
            add_variables(pod, variables(TF_CONFIG=_text(self._roles(job), self.port, role, index)))

    def _names(self) -> tuple[tuple[str, str], ...]:
        """TensorFlow's word for the role, and the name of its task."""
        return (("ps", self.ps), ("worker", self.worker), ("chief", self.chief), ("evaluator", self.evaluator))

    def _roles(self, job: JobDocument) -> tuple[tuple[str, Hosts], ...]:
        tasks = {task.name: task for task in job.spec.tasks or ()}
        return tuple((role, hosts_of(job, tasks[name])) for role, name in self._names() if name in tasks)


def _is_single(job: JobDocument) -> bool:
    tasks = job.spec.tasks or ()
    return len(tasks) == 1 and tasks[0].replicas == 1


def _text(roles: tuple[tuple[str, Hosts], ...], port: int, role: str, index: int) -> str:
    return f'{{"cluster":{_cluster(roles, port)},"task":{{"type":"{role}","index":{index}}}}}'


@lru_cache(maxsize=16)
def _cluster(roles: tuple[tuple[str, Hosts], ...], port: int) -> str:
    """The same for all pods of a Job."""
    hosts = {role: [f"{host}:{port}" for host in hosts.full_names()] for role, hosts in roles if hosts.replicas}
    return msgspec.json.encode(hosts).decode()
