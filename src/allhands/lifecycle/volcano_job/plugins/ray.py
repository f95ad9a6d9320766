"""A Ray cluster: the head's container runs `ray start --head`, the workers' join it, and a Service leads to the head.

As in Volcano for manifests that leave the command to the plugin. There a command of the user's is overwritten, and a
container of another name gets nothing, in silence. Here a command stands, a pod's only container is the one whatever
its name, and a Job without its one head, or with several containers and none of the name, is refused. The Service goes
by the ports' numbers, so it also works for ports that a template names itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from allhands.api.errors import FieldError, invalid
from allhands.lifecycle.volcano_job.extension import Companion
from allhands.lifecycle.volcano_job.names import TASK
from allhands.lifecycle.volcano_job.plugins.additions import add_ports, change_container
from allhands.lifecycle.volcano_job.plugins.beside import SERVICES, beside, pod_labels
from allhands.lifecycle.volcano_job.plugins.flags import Port  # noqa: TC001 (msgspec reads it)
from allhands.lifecycle.volcano_job.plugins.hosts import hosts_of, task_called, task_names
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import KeyPair

DEFAULT_PORT: Final = 6_379
DEFAULT_DASHBOARD_PORT: Final = 8_265
DEFAULT_CLIENT_PORT: Final = 10_001


class Ray(PlainPlugin, frozen=True, kw_only=True, rename="camel"):
    head: Annotated[str, Meta(description="The task of the head.")] = "head"
    head_container: Annotated[str, Meta(description="Its container, if it has several.")] = "head"
    worker: Annotated[str, Meta(description="The task of the workers.")] = "worker"
    worker_container: Annotated[str, Meta(description="Their container, if they have several.")] = "worker"
    port: Annotated[Port, Meta(description="The port that workers join at.")] = DEFAULT_PORT
    dashboard_port: Annotated[Port, Meta(description="The port of the dashboard, where jobs are submitted.")] = (
        DEFAULT_DASHBOARD_PORT
    )
    client_port: Annotated[Port, Meta(description="The port for Ray clients.")] = DEFAULT_CLIENT_PORT

    def needs(self) -> tuple[str, ...]:
        return ("svc",)

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        head, worker = task_called(job, self.head), task_called(job, self.worker)
        if head is None:
            told = f"no task is called {self.head!r}; the tasks are {task_names(job)}; name it by --head"
            return [invalid(path, "ray", told)]
        errors = []
        if head.replicas != 1:
            told = f"the task {self.head!r} has {head.replicas} replicas; a Ray cluster has one head"
            errors.append(invalid(path, "ray", told))
        for task, name, flag in ((head, self.head_container, "head"), (worker, self.worker_container, "worker")):
            if task is not None and not _container(task.template or {}, name):
                told = f"the task {task.name!r} has several containers and none is called {name!r}"
                errors.append(invalid(path, "ray", f"{told}; name it by --{flag}Container"))
        return errors

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:  # noqa: ARG002
        ports = [
            {"name": name, "port": number, "targetPort": number, "protocol": "TCP"} for name, number in self._ports()
        ]
        spec: Manifest = {"selector": {**pod_labels(job), TASK: self.head}, "ports": ports}
        return (Companion(SERVICES, beside(job, "v1", "Service", f"{job.metadata.name}-head-svc", spec=spec)),)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:  # noqa: ARG002
        head = task_called(job, self.head)
        if head is None:
            return
        if task.name == self.head:
            name = _container(pod, self.head_container)
            add_ports(pod, self._ports(), name)
            ports = f"--port={self.port} --dashboard-port={self.dashboard_port}"
            more = f"{ports} --ray-client-server-port={self.client_port}"
            _command(pod, name, f"ray start --head --block --dashboard-host=0.0.0.0 {more}")
        elif task.name == self.worker:
            address = f"{hosts_of(job, head).full_name(0)}:{self.port}"
            _command(pod, _container(pod, self.worker_container), f"ray start --block --address={address}")

    def _ports(self) -> tuple[tuple[str, int], ...]:
        return (("gcs", self.port), ("dashboard", self.dashboard_port), ("client-server", self.client_port))


def _container(pod: Manifest, name: str) -> str:
    """The name of the container that Ray runs in; empty if nobody can tell."""
    names = [it.get("name") or "" for it in (pod.get("spec") or {}).get("containers") or ()]
    if name in names:
        return name
    return names[0] if len(names) == 1 else ""


def _command(pod: Manifest, container_name: str, command: str) -> None:
    def complete(container: Manifest) -> Manifest:
        own = container.get("command") or container.get("args")
        return container if own else {**container, "command": ["sh", "-c", command]}

    if container_name:
        change_container(pod, container_name, complete)
