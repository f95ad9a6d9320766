"""Objects of Volcano's kinds for tests of their rules: valid ones, with what a test wants different."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from allhands.api.volcano.job_defaults import complete_job
from allhands.api.volcano.surroundings import Surroundings, queue_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.api.errors import FieldError

Manifest = dict[str, Any]


def container(**more: Any) -> Manifest:
    return {"name": "main", "image": "busybox", **more}


def task(name: str = "worker", replicas: int = 2, **more: Any) -> Manifest:
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container()]}}, **more}


def job(name: str = "train", **spec: Any) -> Manifest:
    """Before defaults, with one task unless others are given."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [task()], **spec},
    }


def completed(manifest: Manifest) -> Manifest:
    made = copy.deepcopy(manifest)
    complete_job(made)
    return made


def queue(name: str, **more: Any) -> Manifest:
    state, annotations, pods = more.pop("state", "Open"), more.pop("annotations", {}), more.pop("pods", "0")
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": annotations},
        "spec": more,
        "status": {"state": state, "allocated": {"pods": pods}},
    }


def around(*queues: Manifest, namespaces: dict[str, dict[str, str]] | None = None) -> Surroundings:
    """A cluster with these queues beside root and default."""
    facts = {it["metadata"]["name"]: queue_facts(it) for it in (queue("root"), queue("default"), *queues)}
    return Surroundings(queues=lambda: facts, namespace_annotations=lambda name: (namespaces or {}).get(name, {}))


def told(errors: Iterable[FieldError]) -> list[str]:
    return [str(error) for error in errors]
