"""What a Job's pod failure policy says about a failed pod: the first rule that fits decides, else it just counts.

It looks at exit codes and conditions only; whether the pod failed at all is for the caller. Without a rule that fits,
a pod that was taken away from a batch job is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from allhands.lifecycle.job.displacement import is_displaced

if TYPE_CHECKING:
    from allhands.lifecycle.job.documents import FailureRule, JobDocument, OnExitCodes
    from allhands.lifecycle.job.pod import JobPod

Action = Literal["Ignore", "FailIndex", "Count", "FailJob"]
_ACTIONS: Final = frozenset(("Ignore", "FailIndex", "Count", "FailJob"))


class Judgement(msgspec.Struct, frozen=True):
    action: Action | None = None
    """None: no rule fits."""
    message: str = ""
    """Why the Job fails, if it does."""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"

    @property
    def fails_job(self) -> bool:
        return self.action == "FailJob"

    @property
    def fails_index(self) -> bool:
        return self.action == "FailIndex"


PLAIN_FAILURE: Final = Judgement()
DISPLACED: Final = Judgement("Ignore")


def judge_failure(job: JobDocument, pod: JobPod) -> Judgement:
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate((policy and policy.rules) or ()):
        if rule.action not in _ACTIONS:
            continue
        why = _why_it_fits(rule, pod)
        if why:
            message = f"{why} matching {rule.action} rule at index {number}" if rule.action == "FailJob" else ""
            return Judgement(cast("Action", rule.action), message)
    return DISPLACED if is_displaced(job, pod) else PLAIN_FAILURE


def _why_it_fits(rule: FailureRule, pod: JobPod) -> str:
    if rule.on_exit_codes is not None:
        for container, code in pod.exits:
            if code != 0 and _code_fits(rule.on_exit_codes, container, code):
                return f"Container {container} for pod {pod.namespace}/{pod.name} failed with exit code {code}"
        return ""
    patterns = rule.on_pod_conditions or ()
    for condition, status in pod.conditions:
        if any(it.type == condition and it.status == status for it in patterns):
            return f"Pod {pod.namespace}/{pod.name} has condition {condition}"
    return ""


def _code_fits(requirement: OnExitCodes, container: str, code: int) -> bool:
    if requirement.container_name is not None and requirement.container_name != container:
        return False
    listed = code in (requirement.values or ())
    return (requirement.operator == "In" and listed) or (requirement.operator == "NotIn" and not listed)
