"""A JobTemplate's status: the Jobs that were made from it and are there. Written only when it is different, and at most
once in a while, however many flows use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch
from allhands.lifecycle.job_flow.documents import MADE_FROM, TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.lifecycle.job_flow.documents import TemplateDocument
    from allhands.lifecycle.observed import Metadata

PAUSE_SECONDS: Final = 1.0
"""At least so long between two writes of one status."""


def template_key(job: Metadata) -> str | None:
    """NAMESPACE/NAME of the template that a Job says it was made from, if it is one of its own namespace."""
    made_from = job.annotation(MADE_FROM) or job.label(MADE_FROM)
    prefix = f"{job.namespace}."
    return f"{job.namespace}/{made_from.removeprefix(prefix)}" if made_from.startswith(prefix) else None


def reconcile(
    template: TemplateDocument,
    jobs: Sequence[str],
    now_seconds: float,
    *,
    written_at_seconds: float | None = None,
    pause_seconds: float = PAUSE_SECONDS,
) -> Outcome:
    """`jobs` are the names of all that were made from it."""
    metadata = template.metadata
    written = template.status.get("jobDependsOnList") if isinstance(template.status, dict) else None
    names = sorted(jobs)
    if metadata.is_going or (written or []) == names:
        return NOTHING_TO_DO
    since = None if written_at_seconds is None else now_seconds - written_at_seconds
    if since is not None and 0 <= since < pause_seconds:
        return Outcome(wake_at_seconds=now_seconds + pause_seconds - since)
    patch = {"status": {"jobDependsOnList": names or None}}
    return Outcome((Patch(TEMPLATES, metadata.namespace, metadata.name, patch, subresource="status"),))
