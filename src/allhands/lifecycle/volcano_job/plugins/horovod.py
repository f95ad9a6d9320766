"""Horovod's two ways to start. By ssh: the master gets the hosts, as a list for `horovodrun -np "$HOROVOD_NP" -H
"$HOROVOD_HOSTS"`, as a host file, and as a script that elastic runs ask again and again; the last two follow the Job
when it is scaled.

By gloo: every worker starts its own process and is told who it is and where the rendezvous server is, which the master
runs (the first worker, if there is no master). Volcano has no such plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from allhands.api.errors import FieldError, invalid
from allhands.lifecycle.volcano_job.extension import Companion
from allhands.lifecycle.volcano_job.plugins.additions import add_mounts, add_ports, add_variables, add_volume, variables
from allhands.lifecycle.volcano_job.plugins.beside import CONFIG_MAPS, beside
from allhands.lifecycle.volcano_job.plugins.flags import Port  # noqa: TC001 (msgspec reads it)
from allhands.lifecycle.volcano_job.plugins.hosts import Hosts, hosts_of, joined, task_called, task_names, too_long
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import KeyPair

MOUNT_PATH: Final = "/etc/horovod"
HOST_FILE: Final = "hostfile"
DISCOVERY: Final = "discover_hosts.sh"
DEFAULT_PORT: Final = 29_400
PORT_NAME: Final = "horovod"
READ_AND_RUN: Final = 0o555


class Horovod(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    master: Annotated[str, Meta(description="The task that starts the others, or runs the rendezvous server.")] = (
        "master"
    )
    worker: Annotated[str, Meta(description="The task of the pods that train.")] = "worker"
    slots: Annotated[int, Meta(ge=1, le=1_024, description="How many processes each worker has. With gloo, 1.")] = 1
    launch: Annotated[
        Literal["ssh", "gloo"], Meta(description="ssh: the master starts processes in workers. gloo: each its own.")
    ] = "ssh"
    port: Annotated[Port, Meta(description="The port of the rendezvous server, with gloo.")] = DEFAULT_PORT

    def needs(self) -> tuple[str, ...]:
        return ("svc", "ssh") if self.launch == "ssh" else ("svc",)

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        wanted = (self.worker,) if self.launch == "gloo" else (self.master, self.worker)
        errors = []
        for name in wanted:
            if task_called(job, name) is None:
                told = f"no task is called {name!r}; the tasks are {task_names(job)}"
                errors.append(invalid(path, "horovod", f"{told}; name them by --master and --worker"))
        if self.launch == "gloo" and self.slots != 1:
            errors.append(invalid(path, "horovod", "--slots must be 1 with --launch=gloo: a pod starts one process"))
        return errors or too_long(path, "horovod", "HOROVOD_HOSTS", self._list(job))

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:  # noqa: ARG002
        if self.launch == "gloo":
            return ()
        names = [host for hosts in self._workers(job) for host in hosts.full_names()]
        lines = [f"{name}:{self.slots}" for name in names]
        data = {
            HOST_FILE: "".join(f"{name} slots={self.slots}\n" for name in names),
            DISCOVERY: "\n".join(["#!/bin/sh", "cat <<'EOF'", *lines, "EOF", ""]),
        }
        return (Companion(CONFIG_MAPS, beside(job, "v1", "ConfigMap", _map_name(job), data=data), keeps_up=True),)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        if self.launch == "gloo":
            self._tell_worker(job, task, index, pod)
        elif task.name == self.master:
            processes = sum(hosts.number for hosts in self._workers(job)) * self.slots
            add_variables(pod, variables(HOROVOD_HOSTS=self._list(job), HOROVOD_NP=str(processes)))
            name = _map_name(job)
            add_volume(pod, {"name": name, "configMap": {"name": name, "defaultMode": READ_AND_RUN}})
            add_mounts(pod, [{"name": name, "mountPath": MOUNT_PATH}])

    def _tell_worker(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        worker = task_called(job, self.worker)
        if worker is None or task.name not in (self.worker, self.master):
            return
        leading = task_called(job, self.master) or worker
        given = {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": hosts_of(job, leading).full_name(0),
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.port),
            "HOROVOD_SIZE": str(worker.replicas),
            "HOROVOD_CROSS_SIZE": str(worker.replicas),
            "HOROVOD_LOCAL_SIZE": "1",
        }
        if task.name == self.worker:
            given |= {
                "HOROVOD_HOSTNAME": hosts_of(job, task).full_name(index),
                "HOROVOD_RANK": str(index),
                "HOROVOD_LOCAL_RANK": "0",
                "HOROVOD_CROSS_RANK": str(index),
            }
        if task.name == leading.name:
            given["HOROVOD_HOSTS"] = self._list(job)
            add_ports(pod, [(PORT_NAME, self.port)])
        add_variables(pod, variables(**given))

    def _workers(self, job: JobDocument) -> list[Hosts]:
        return [hosts_of(job, it) for it in job.spec.tasks or () if it.name == self.worker]

    def _list(self, job: JobDocument) -> str:
        return joined(self._workers(job), ending=f":{self.slots}")


def _map_name(job: JobDocument) -> str:
    return f"{job.metadata.name}-horovod"
