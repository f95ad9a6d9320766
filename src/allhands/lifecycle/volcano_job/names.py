"""Names, labels and annotations that Volcano's users, tools and schedulers know a Job's objects by.

Data only. They are fixed: other programs look for them.
"""

from __future__ import annotations

import hashlib
from typing import Final

from allhands.api.kinds import Resource
from allhands.api.volcano.podgroup import POD_GROUP

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
KIND: Final = "Job"
PODS: Final = Resource("", "v1", "pods")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
POD_GROUPS: Final = POD_GROUP.resource

TASK: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRIES: Final = "volcano.sh/job-retry-count"
QUEUE_NAME: Final = "volcano.sh/queue-name"
TEMPLATE: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
"""On a pod that its controller has told to go, or is about to: what becomes of it is no news any more."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

JOB_GENERATION: Final = "allhands.dev/job-generation"
"""On a PodGroup: which generation of the Job it was last brought up to."""
CLOCKS: Final = "allhands.dev/policy-clocks"
"""On a PodGroup: since when time-outs of policies run that no object says the time of."""

_SUFFIX_LENGTH: Final = 12
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def pod_name(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def group_name(job: str, uid: str) -> str:
    return f"{job}-{uid}"


def made_up(uid: str, what: str) -> str:
    """Twelve letters that nobody else has, and that are the same whenever they are asked for."""
    value = int.from_bytes(hashlib.blake2b(f"{uid}/{what}".encode(), digest_size=16).digest(), "big")
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        value, letter = divmod(value, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
