"""Whether enough of an Indexed Job has succeeded, by its own rules, for it to be a success already.

The first rule that is met counts. A rule that cannot be read is never met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.lifecycle.job.indexes import Indexes

if TYPE_CHECKING:
    from allhands.lifecycle.job.documents import JobDocument


def met_rule(job: JobDocument, succeeded: Indexes) -> int | None:
    """The number of the first rule that is met."""
    policy = job.spec.success_policy
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules or ()):
        if rule.succeeded_indexes is None:
            if rule.succeeded_count is not None and succeeded.total >= rule.succeeded_count:
                return number
            continue
        required = Indexes.parse(rule.succeeded_indexes, job.spec.completions or 0)
        if not required:
            continue
        reached = required.overlap(succeeded)
        if reached == required.total or (rule.succeeded_count is not None and reached >= rule.succeeded_count):
            return number
    return None
