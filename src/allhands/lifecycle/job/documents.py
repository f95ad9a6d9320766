"""The part of a batch/v1 Job that deciding reads, as types for one-pass decoding of its stored text.

It is for objects that a server has accepted: what may be left out has a default and lists may be null. The pod template
is kept as text until pods are made of it; times of conditions stay texts too, so that they are written back as read.
"""

from typing import Final

import msgspec

from allhands.api.kinds import Resource
from allhands.lifecycle.observed import Metadata
from allhands.model.selector import LabelSelectorDocument

JOBS: Final = Resource("batch", "v1", "jobs")
PODS: Final = Resource("", "v1", "pods")
API_VERSION: Final = "batch/v1"
KIND: Final = "Job"
OUR_NAME: Final = "kubernetes.io/job-controller"
"""What `managedBy` says of Jobs that are for this machine."""

DEFAULT_BACKOFF_LIMIT: Final = 6
MAX_INT32: Final = 2**31 - 1


class OnExitCodes(msgspec.Struct, frozen=True, rename="camel"):
    operator: str = ""
    values: tuple[int, ...] | None = None
    container_name: str | None = None


class OnPodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = "True"


class FailureRule(msgspec.Struct, frozen=True, rename="camel"):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] | None = None


class PodFailurePolicy(msgspec.Struct, frozen=True):
    rules: tuple[FailureRule, ...] | None = None


class SuccessRule(msgspec.Struct, frozen=True, rename="camel"):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(msgspec.Struct, frozen=True):
    rules: tuple[SuccessRule, ...] | None = None


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    template: msgspec.Raw = msgspec.Raw(b"{}")
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None
    selector: LabelSelectorDocument | None = None


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    type: str
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class UncountedPods(msgspec.Struct, frozen=True):
    """Pods that ended and are not in the counters yet: they still have, or just had, the tracking finalizer."""

    succeeded: tuple[str, ...] | None = None
    failed: tuple[str, ...] | None = None


class JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[JobCondition, ...] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None

    def condition(self, type: str) -> JobCondition | None:
        return next((it for it in self.conditions or () if it.type == type), None)

    @property
    def is_decided(self) -> bool:
        """Whether it says how the Job ends, though pods may still have to go."""
        return any(it.is_true and it.type in ("SuccessCriteriaMet", "FailureTarget") for it in self.conditions or ())

    @property
    def ending(self) -> JobCondition | None:
        """The condition that says that all is over, if it is."""
        return next((it for it in self.conditions or () if it.is_true and it.type in ("Complete", "Failed")), None)


class JobDocument(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    @property
    def is_suspended(self) -> bool:
        return self.spec.suspend is True

    @property
    def is_ours(self) -> bool:
        return self.spec.managed_by is None or self.spec.managed_by == OUR_NAME

    @property
    def backs_off_per_index(self) -> bool:
        return self.spec.backoff_limit_per_index is not None

    @property
    def backoff_limit(self) -> int:
        if self.spec.backoff_limit is not None:
            return self.spec.backoff_limit
        return MAX_INT32 if self.backs_off_per_index else DEFAULT_BACKOFF_LIMIT

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a pod that was told to go is replaced only when it has ended, and counts as failed only then."""
        return self.spec.pod_replacement_policy == "Failed" or self.spec.pod_failure_policy is not None


_jobs: Final = msgspec.json.Decoder(JobDocument)


def decode_job(raw: bytes) -> JobDocument:
    return _jobs.decode(raw)
