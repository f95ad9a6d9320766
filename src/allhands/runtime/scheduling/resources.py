"""What the scheduler reads and writes, by name."""

from typing import Final

from allhands.api.kinds import Resource

PODS: Final = Resource("", "v1", "pods")
NODES: Final = Resource("", "v1", "nodes")
NAMESPACES: Final = Resource("", "v1", "namespaces")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
VOLUMES: Final = Resource("", "v1", "persistentvolumes")
JOBS: Final = Resource("batch", "v1", "jobs")
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1alpha2", "podgroups")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses")
QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues")
HYPER_NODES: Final = Resource("topology.volcano.sh", "v1alpha1", "hypernodes")
QUOTAS: Final = Resource("", "v1", "resourcequotas")
BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets")
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses")
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes")
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers")
STORAGE_CAPACITIES: Final = Resource("storage.k8s.io", "v1", "csistoragecapacities")
ATTACHMENTS: Final = Resource("storage.k8s.io", "v1", "volumeattachments")
SERVICES: Final = Resource("", "v1", "services")
REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets")

NAMES_ALONE: Final = ("allhands", "default-scheduler", "volcano")
"""Whose pods a scheduler places that has the cluster for itself: its own, those that name nobody, and those that were
written for Volcano."""
