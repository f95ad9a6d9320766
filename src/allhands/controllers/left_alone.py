"""Tells operators of Volcano Jobs that nobody leads because these controllers were not told that they are theirs.

Volcano's own default is the scheduler name `volcano`, so this is the first thing that goes wrong beside a real cluster,
and nothing on the Job can say so: it is not ours to write. Said once for each name, never for each Job.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from allhands.api.volcano.job_status import JobPhase
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.lifecycle.volcano_job import JobDocument

PATIENCE_SECONDS: Final = 30.0
"""Until then whoever else leads a Job may not have come to it yet."""
_LOG = logging.getLogger(__name__)


class LeftAlone:
    """`names`: of the schedulers whose Jobs are led."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._told: set[str] = set()

    def see(self, job: JobDocument, now_seconds: float) -> Outcome:
        """A Job that is not led here; when to look at it again."""
        meta, name = job.metadata, job.spec.scheduler_name or ""
        if name in self._told or meta.is_going or _is_led(job):
            return NOTHING_TO_DO
        patience_ends = meta.created_seconds + PATIENCE_SECONDS
        if now_seconds < patience_ends:
            return Outcome(wake_at_seconds=patience_ends)
        self._told.add(name)
        _LOG.warning(
            "Volcano Jobs with schedulerName %r, such as %s, are left alone and nobody else leads them: these "
            "controllers lead those of %s. Start them, and the scheduler, with --scheduler-name %s too; or write one "
            "of those names into the Jobs",
            name,
            meta.key,
            ", ".join(map(repr, self._names)),
            name,
        )
        return NOTHING_TO_DO


def _is_led(job: JobDocument) -> bool:
    """Whether somebody has written its phase."""
    return job.status.state is not None and job.status.state.phase in tuple(JobPhase)
