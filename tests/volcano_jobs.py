"""Volcano Jobs for tests, as users write them, in as few words as possible."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def task(name: str, replicas: int, *, seconds: int = 60, cpu: str = "1", end: str = "", **more: Any) -> Manifest:
    """A task whose pods run for so long. `end` is what the simulated kubelets are told about how they end."""
    annotations = {"sim.allhands.dev/run-seconds": str(seconds)}
    if end:
        annotations["sim.allhands.dev/exit-code"] = end
    container: Manifest = {"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]},
    }
    return {"name": name, "replicas": replicas, "template": template, **more}


def job(name: str, *tasks: Manifest, annotations: Manifest | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"tasks": list(tasks), **spec},
    }


def policy(action: str, *events: str, **more: Any) -> Manifest:
    return {"action": action, **({"events": list(events)} if events else {}), **more}


def command(name: str, action: str, job_name: str, uid: str = "") -> Manifest:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job_name, "uid": uid}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name},
        "action": action,
        "target": target,
    }
