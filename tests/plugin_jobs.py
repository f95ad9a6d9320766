"""Volcano Jobs for tests of their plugins, and their pods as the plugins complete them."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.volcano_job.documents import decode_job
from allhands.lifecycle.volcano_job.names import API_VERSION, JOB_NAME, JOB_NAMESPACE, KIND, TASK, TASK_INDEX, pod_name
from allhands.lifecycle.volcano_job.plugins.catalog import plugins_of
from allhands.runtime.keys import keys_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import Companion, KeyPair

Manifest = dict[str, Any]


def task(name: str, replicas: int = 1, *, containers: list[Manifest] | None = None, **spec: Any) -> Manifest:
    own = [{"name": "main", "image": "none"}] if containers is None else containers
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": own, **spec}}}


def job_manifest(plugins: dict[str, list[str]], *tasks: Manifest, name: str = "job") -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default", "uid": "7"},
        "spec": {"plugins": plugins, "tasks": list(tasks)},
    }


def read(manifest: Manifest) -> JobDocument:
    return decode_job(msgspec.json.encode(manifest))


def job(plugins: dict[str, list[str]], *tasks: Manifest, name: str = "job") -> JobDocument:
    return read(job_manifest(plugins, *tasks, name=name))


def bare_pod(job: JobDocument, task_name: str, index: int = 0) -> Manifest:
    """As it is before any plugin: what the template says, and whose it is."""
    spec = next(it for it in job.spec.tasks or () if it.name == task_name)
    template = copy.deepcopy(spec.template or {})
    marks = {TASK: task_name, TASK_INDEX: str(index), JOB_NAME: job.metadata.name}
    own = template.get("metadata") or {}
    metadata = {
        "name": pod_name(job.metadata.name, task_name, index),
        "namespace": job.metadata.namespace,
        "labels": {**(own.get("labels") or {}), **marks, JOB_NAMESPACE: job.metadata.namespace},
        "annotations": {**(own.get("annotations") or {}), **marks},
        "ownerReferences": [owner_reference(API_VERSION, KIND, job.metadata)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def equip(job: JobDocument, pod: Manifest) -> None:
    marks = pod["metadata"]["annotations"]
    spec = next(it for it in job.spec.tasks or () if it.name == marks[TASK])
    for plugin in plugins_of(job):
        plugin.equip(job, spec, int(marks[TASK_INDEX]), pod)


def equipped(job: JobDocument, task_name: str, index: int = 0) -> Manifest:
    pod = bare_pod(job, task_name, index)
    equip(job, pod)
    return pod


def all_pods(job: JobDocument) -> list[Manifest]:
    return [equipped(job, it.name, index) for it in job.spec.tasks or () for index in range(it.replicas)]


def companions(job: JobDocument, new_keys: Callable[[], KeyPair] | None = None) -> list[Companion]:
    keys = new_keys or keys_from(random.Random(1))
    return [it for plugin in plugins_of(job) for it in plugin.companions(job, keys)]


def environment(pod: Manifest, container: int = 0) -> dict[str, str]:
    """The plain variables of a container."""
    return {it["name"]: it["value"] for it in pod["spec"]["containers"][container].get("env", ()) if "value" in it}
