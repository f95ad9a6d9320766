"""Gives pods names: a headless Service called as the Job, and the list of all hosts, as files and as variables.

As in Volcano, with these differences. A list that is longer than a program's environment may be is left out there,
since no pod would start; the files have it. Names that make no host name, and more hosts than a ConfigMap holds, are
refused when the Job is submitted, where upstream fails at every look.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from allhands.api.errors import FieldError, invalid
from allhands.api.names import dns1123_label
from allhands.lifecycle.volcano_job.extension import Companion
from allhands.lifecycle.volcano_job.plugins.additions import add_mounts, add_variables, add_volume
from allhands.lifecycle.volcano_job.plugins.beside import (
    CONFIG_MAPS,
    MOST_BYTES,
    NETWORK_POLICIES,
    SERVICES,
    beside,
    pod_labels,
)
from allhands.lifecycle.volcano_job.plugins.hosts import LONGEST_VARIABLE_BYTES, Hosts, all_hosts, hosts_of
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import KeyPair

MOUNT_PATH: Final = "/etc/volcano"


class Svc(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    publish_not_ready_addresses: Annotated[
        bool, Meta(description="The Service tells addresses of pods that are not ready, too.")
    ] = False
    disable_network_policy: Annotated[
        bool, Meta(description="No NetworkPolicy is made: others than the Job's own pods may connect to them.")
    ] = False
    inject_hosts_env: Annotated[
        bool, Meta(description="Containers get VC_TASK_HOSTS and VC_TASK_NUM of every task.")
    ] = True

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        name = job.metadata.name
        if name and dns1123_label(name):
            told = f"the Job's name {name!r} cannot be that of a Service: it may have at most 63 of a-z, 0-9 and '-'"
            return [invalid(path, "svc", told)]
        errors = []
        for hosts in all_hosts(job):
            last = hosts.name(max(hosts.replicas - 1, 0))
            if name and dns1123_label(last):
                told = f"the pod's name {last!r} cannot be a host name: it may have at most 63 of a-z, 0-9 and '-'"
                errors.append(invalid(path, "svc", told))
        size = _size(job)
        if size > MOST_BYTES:
            pods = sum(hosts.number for hosts in all_hosts(job))
            told = f"the names of {pods} pods take {size} bytes and a ConfigMap holds {MOST_BYTES}"
            errors.append(invalid(path, "svc", told))
        return errors

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:  # noqa: ARG002
        spec: Manifest = {"clusterIP": "None", "selector": pod_labels(job)}
        if self.publish_not_ready_addresses:
            spec["publishNotReadyAddresses"] = True
        made = [
            Companion(CONFIG_MAPS, beside(job, "v1", "ConfigMap", _map_name(job), data=host_lists(job)), keeps_up=True),
            Companion(SERVICES, beside(job, "v1", "Service", job.metadata.name, spec=spec)),
        ]
        if not self.disable_network_policy:
            made.append(Companion(NETWORK_POLICIES, _policy(job)))
        return tuple(made)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        spec = pod.get("spec") or {}
        hosts = hosts_of(job, task)
        named = {"hostname": spec.get("hostname") or hosts.name(index)}
        named["subdomain"] = spec.get("subdomain") or hosts.subdomain
        pod["spec"] = {**spec, **named}
        name = _map_name(job)
        if self.inject_hosts_env:
            add_variables(pod, _variables(name, all_hosts(job)))
        add_volume(pod, {"name": name, "configMap": {"name": name}})
        add_mounts(pod, [{"name": name, "mountPath": MOUNT_PATH}])


def host_lists(job: JobDocument) -> dict[str, str]:
    """What the ConfigMap says: a file and two variables for each task."""
    lists = {}
    for hosts in all_hosts(job):
        names = hosts.full_names()
        lists[f"{_word(hosts)}.host"] = "\n".join(names)
        lists[f"VC_{_word(hosts).upper()}_HOSTS"] = ",".join(names)
        lists[f"VC_{_word(hosts).upper()}_NUM"] = str(len(names))
    return lists


@lru_cache(maxsize=64)
def _variables(config_map: str, tasks: tuple[Hosts, ...]) -> tuple[Manifest, ...]:
    """Those that a program can be started with; the same for all pods of a Job."""
    names = []
    for hosts in tasks:
        variable = f"VC_{_word(hosts).upper()}_HOSTS"
        if len(variable) + _length(hosts) + 2 <= LONGEST_VARIABLE_BYTES:
            names.append(variable)
        names.append(f"VC_{_word(hosts).upper()}_NUM")
    return tuple({"name": it, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": it}}} for it in names)


def _word(hosts: Hosts) -> str:
    return hosts.task.replace("-", "_")


def _length(hosts: Hosts) -> int:
    """Of all names with something between them, at most: without making a hundred thousand of them."""
    return hosts.number * (len(hosts.full_name(max(hosts.number - 1, 0))) + 1)


def _size(job: JobDocument) -> int:
    return sum(2 * (_length(hosts) + len(hosts.task) + 16) for hosts in all_hosts(job))


def _map_name(job: JobDocument) -> str:
    return f"{job.metadata.name}-svc"


def _policy(job: JobDocument) -> Manifest:
    own = {"matchLabels": pod_labels(job)}
    spec = {"podSelector": own, "ingress": [{"from": [{"podSelector": own}]}], "policyTypes": ["Ingress"]}
    return beside(job, "networking.k8s.io/v1", "NetworkPolicy", job.metadata.name, spec=spec)
