"""The shell of JobTemplates: each is looked at when a Job that was made from it comes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.controllers.watching import decoder
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.job_flow.documents import JOBS, TEMPLATES, TemplateDocument
from allhands.lifecycle.job_template import PAUSE_SECONDS, reconcile, template_key
from allhands.lifecycle.observed import Metadata
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue


class _Job(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()


class JobTemplateController:
    name: Final = "job-template"

    def __init__(self, objects: Objects, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause_seconds = pause_seconds
        self._written: dict[str, float] = {}
        self._attempts: dict[str, float] = {}
        self._templates: Informer[TemplateDocument] = Informer(
            objects, TEMPLATES, decoder(TemplateDocument), optional=True
        )
        self._jobs: Informer[_Job] = Informer(
            objects, JOBS, decoder(_Job), indexes={"template": _template}, optional=True
        )

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._templates, self._jobs)

    def wire(self, queue: WorkQueue) -> None:
        self._templates.on_change(lambda key, _old, _new: queue.add(key))
        self._jobs.on_change(lambda _key, old, new: self._see_job(queue, old, new))

    def _see_job(self, queue: WorkQueue, old: _Job | None, new: _Job | None) -> None:
        before, after = (None if it is None else template_key(it.metadata) for it in (old, new))
        if before != after:
            for key in (before, after):
                if key is not None and key in self._templates:
                    queue.add(key)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        attempted = self._attempts.pop(key, None)
        if refusal is None and attempted is not None:
            self._written[key] = attempted

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        template = self._templates.get(key)
        if template is None:
            self._written.pop(key, None)
            return NOTHING_TO_DO
        names = [it.metadata.name for it in self._jobs.by("template", key)]
        written_at = self._written.get(key)
        outcome = reconcile(
            template, names, now_seconds, written_at_seconds=written_at, pause_seconds=self._pause_seconds
        )
        if outcome.instructions:
            self._attempts[key] = now_seconds
        return outcome


def _template(job: _Job) -> Sequence[str]:
    key = template_key(job.metadata)
    return () if key is None else (key,)
