"""The life of a batch/v1 Job, as the Kubernetes Job controller leads it: pods made, replaced, counted and given up.

Pure: what is observed goes in, instructions come out.
"""

from allhands.lifecycle.job.backoff import NO_FAILURES, Failures, failures_since_success
from allhands.lifecycle.job.claims import untrack
from allhands.lifecycle.job.documents import JOBS, PODS, JobDocument, decode_job
from allhands.lifecycle.job.pod import JobPod, decode_pod
from allhands.lifecycle.job.reconcile import reconcile

__all__ = [
    "JOBS",
    "NO_FAILURES",
    "PODS",
    "Failures",
    "JobDocument",
    "JobPod",
    "decode_job",
    "decode_pod",
    "failures_since_success",
    "reconcile",
    "untrack",
]
