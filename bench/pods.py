"""The pods that are written and held: what a training job's template really looks like, and a small one.

The large one is about 4.75 KB of JSON as sent. A *gang* of them has equal specs, as pods of one job have; in the other
varieties every worker is told a rank in an environment variable of its own (*ranked*), or has an image of its own, so
that nothing remembered about a spec helps (*different*).
"""

from __future__ import annotations

import itertools
from typing import Any, Literal

import msgspec

from allhands.api.kinds import Resource

PODS = Resource("", "v1", "pods")
JOBS = Resource("batch", "v1", "jobs")
NAMESPACES = Resource("", "v1", "namespaces")
GANG_SIZE = 100

Size = Literal["large", "small"]
Variety = Literal["equal", "ranked", "different"]

_run_numbers = itertools.count()
"""Never twice in a process: a spec of an earlier round must not be an old acquaintance either."""

_VARIABLES = {
    "MASTER_ADDR": "training-0.training.default.svc.cluster.local",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "100",
    "NCCL_DEBUG": "INFO",
    "NCCL_SOCKET_IFNAME": "eth0",
    "NCCL_IB_HCA": "mlx5_0,mlx5_1,mlx5_2,mlx5_3",
    "OMP_NUM_THREADS": "8",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "CHECKPOINT_FOLDER": "/mnt/checkpoints/training",
    "DATASET": "/mnt/data/tokenised/2026-01",
    "LOG_LEVEL": "info",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.observability.svc:4317",
}


def job(name: str) -> dict[str, Any]:
    """The owner of a gang, so that owner references lead somewhere."""
    container = {"name": "main", "image": "registry.example/training:1.4.2"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def bodies(
    size: Size, variety: Variety, count: int, owner: dict[str, Any] | None = None, *, first: int = 0, nodes: int = 0
) -> list[bytes]:
    """The JSON of `count` new pods, numbered from `first`; with `nodes` they sit on that many nodes already."""
    make = large if size == "large" else small
    made = []
    for number in range(first, first + count):
        pod = make(number, owner)
        if variety == "ranked":
            pod["spec"]["containers"][0]["env"].append({"name": "RANK", "value": f"{next(_run_numbers):08d}"})
        elif variety == "different":
            pod["spec"]["containers"][0]["image"] = f"registry.example/training:1.4.{next(_run_numbers)}"
        if nodes:
            pod["spec"]["nodeName"] = f"node-{number % nodes:05d}"
        made.append(msgspec.json.encode(pod))
    return made


def _metadata(number: int, owner: dict[str, Any] | None) -> dict[str, Any]:
    gang, index = divmod(number, GANG_SIZE)
    metadata: dict[str, Any] = {
        "name": f"training-{gang:05d}-worker-{index:03d}",
        "labels": {
            "app.kubernetes.io/name": "training",
            "batch.kubernetes.io/job-name": f"training-{gang:05d}",
            "batch.kubernetes.io/job-completion-index": str(index),
        },
    }
    if owner is not None:
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        metadata["ownerReferences"] = [reference | {"controller": True, "blockOwnerDeletion": True}]
    return metadata


def small(number: int, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    """About 1 KB: one container, a few variables, resources and a toleration."""
    container = {
        "name": "main",
        "image": "registry.example/training:1.4.2",
        "args": ["--steps=1000", "--learning-rate=0.0003"],
        "env": [{"name": name, "value": value} for name, value in list(_VARIABLES.items())[:4]],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(number, owner), "spec": spec}


def large(number: int, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    """About 4.75 KB: a worker of a training job with its sidecar, volumes, affinity and tolerations."""
    metadata = _metadata(number, owner)
    metadata["labels"] |= {
        "app.kubernetes.io/part-of": "language-models",
        "app.kubernetes.io/version": "1.4.2",
        "example.com/team": "research",
        "example.com/role": "worker",
        "allhands.dev/queue": "research-gpu",
    }
    metadata["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9090",
        "example.com/description": "pre-training of a small language model on the January data set",
        "example.com/commit": "2f1c9a7be60d4cbb8a30f6de3a4e4f0f6f6f2b11",
    }
    spec = {
        "restartPolicy": "Never",
        "schedulerName": "allhands",
        "serviceAccountName": "training",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "nodeSelector": {"kubernetes.io/arch": "amd64", "example.com/pool": "gpu"},
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 2000},
        "initContainers": [_fetcher()],
        "containers": [_worker(), _shipper()],
        "affinity": _affinity(),
        "tolerations": _tolerations(),
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-sets", "readOnly": True}},
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}},
            {"name": "configuration", "configMap": {"name": "training-configuration"}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _fetcher() -> dict[str, Any]:
    return {
        "name": "fetch",
        "image": "registry.example/tools/fetch:0.9.1",
        "args": ["--from=s3://data/tokenised/2026-01", "--to=/mnt/scratch"],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/mnt/scratch"}],
    }


def _worker() -> dict[str, Any]:
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in _VARIABLES.items()]
    index = "metadata.labels['batch.kubernetes.io/job-completion-index']"
    variables.append({"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}})
    variables.append({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    variables.append({"name": "TRACKING_KEY", "valueFrom": {"secretKeyRef": {"name": "tracking", "key": "token"}}})
    return {
        "name": "worker",
        "image": "registry.example/training@sha256:6b1e0f2c7d2f8b3a9d4c5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70819203",
        "command": ["torchrun", "--nproc-per-node=8", "train.py"],
        "args": ["--configuration=/etc/training/model.yaml", "--steps=250000", "--learning-rate=0.0003"],
        "env": variables,
        "ports": [{"name": "rendezvous", "containerPort": 29500}, {"name": "metrics", "containerPort": 9090}],
        "resources": {
            "requests": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "100Gi"},
            "limits": {"memory": "512Gi", "nvidia.com/gpu": "8"},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/mnt/data", "readOnly": True},
            {"name": "checkpoints", "mountPath": "/mnt/checkpoints"},
            {"name": "configuration", "mountPath": "/etc/training"},
            {"name": "memory", "mountPath": "/dev/shm"},
            {"name": "scratch", "mountPath": "/mnt/scratch"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "initialDelaySeconds": 300},
    }


def _shipper() -> dict[str, Any]:
    return {
        "name": "logs",
        "image": "registry.example/observability/shipper:3.2.0",
        "env": [{"name": "TARGET", "value": "http://logs.observability.svc:3100"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/mnt/scratch"}],
    }


def _affinity() -> dict[str, Any]:
    wanted = [
        {"key": "example.com/accelerator", "operator": "In", "values": ["h100", "h200"]},
        {"key": "example.com/maintenance", "operator": "DoesNotExist"},
    ]
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": wanted}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 50, "preference": {"matchExpressions": [zone]}}
            ],
        }
    }


def _tolerations() -> list[dict[str, Any]]:
    return [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "example.com/pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
