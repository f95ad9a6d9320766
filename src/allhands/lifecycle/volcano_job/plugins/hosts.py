"""The names by which pods of a Job reach each other: HOSTNAME.SUBDOMAIN, where the subdomain is the Job's own Service.

A template that says a hostname of its own has one host, however many pods it has: that is all a name service knows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.api.errors import FieldError, invalid
from allhands.lifecycle.volcano_job.names import pod_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument

LONGEST_VARIABLE_BYTES: Final = 131_072
"""A longer variable and its name keep Linux from starting the program at all."""


class Hosts(NamedTuple):
    """Where the pods of one task are to be found; the same for the same words, so it may be remembered by."""

    job: str
    task: str
    replicas: int
    hostname: str
    subdomain: str

    def name(self, index: int) -> str:
        """The pod's own name, without the domain."""
        return self.hostname or pod_name(self.job, self.task, index)

    def full_name(self, index: int) -> str:
        return f"{self.name(index)}.{self.subdomain}"

    @property
    def number(self) -> int:
        return min(1, self.replicas) if self.hostname else self.replicas

    def full_names(self) -> tuple[str, ...]:
        return _full_names(self)


def hosts_of(job: JobDocument, task: TaskSpec) -> Hosts:
    spec = (task.template or {}).get("spec") or {}
    name = job.metadata.name
    task_name = task.name or next(f"default{number}" for number, it in enumerate(job.spec.tasks or ()) if it is task)
    return Hosts(name, task_name, task.replicas, spec.get("hostname") or "", spec.get("subdomain") or name)


def all_hosts(job: JobDocument) -> tuple[Hosts, ...]:
    return tuple(hosts_of(job, task) for task in job.spec.tasks or ())


def task_called(job: JobDocument, name: str) -> TaskSpec | None:
    return next((it for it in job.spec.tasks or () if it.name == name), None)


def task_names(job: JobDocument) -> str:
    """For a refusal: what there is instead."""
    return ", ".join(it.name for it in job.spec.tasks or ()) or "none"


def too_long(path: str, plugin: str, variable: str, text: str) -> list[FieldError]:
    """A variable that no program could be started with."""
    size = len(variable) + 1 + len(text.encode()) + 1
    if size <= LONGEST_VARIABLE_BYTES:
        return []
    told = f"{variable} would have {size} bytes and programs start with at most {LONGEST_VARIABLE_BYTES}"
    return [invalid(path, plugin, f"{told}; fewer pods or shorter names are needed")]


@lru_cache(maxsize=64)
def _full_names(hosts: Hosts) -> tuple[str, ...]:
    return tuple(hosts.full_name(index) for index in range(hosts.number))


def joined(tasks: Sequence[Hosts], separator: str = ",", ending: str = "") -> str:
    """All hosts of some tasks, in their order."""
    return separator.join(f"{host}{ending}" for hosts in tasks for host in hosts.full_names())
