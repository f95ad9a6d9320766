"""The shell of CronJobs: they look at the Jobs they made when one comes, ends or goes, and when a minute is due.

One for each group that has CronJobs: the types that it is given say which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from allhands.controllers.watching import Refusals, controller_of, controller_uid, decoder
from allhands.lifecycle.cron_job import CronJob, CronsJob, MadeJob, reconcile
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.volcano_cron_job import VolcanoCronJob, VolcanoCronsJob
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

C = TypeVar("C", bound=CronJob)
J = TypeVar("J", bound=MadeJob)


class _Shell(Generic[C, J]):
    def __init__(self, objects: Objects, cron_type: type[C], job_type: type[J], *, optional: bool) -> None:
        self._group = cron_type.of.crons.group
        self._refusals = Refusals()
        self._crons: Informer[C] = Informer(objects, cron_type.of.crons, decoder(cron_type), optional=optional)
        self._jobs: Informer[J] = Informer(
            objects,
            cron_type.of.jobs,
            decoder(job_type),
            indexes={"controller": lambda job: controller_uid(job.metadata)},
            optional=optional,
        )

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._crons, self._jobs)

    def wire(self, queue: WorkQueue) -> None:
        self._crons.on_change(lambda key, _old, _new: queue.add(key))
        self._jobs.on_change(lambda _key, old, new: self._see_job(queue, old, new))

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._refusals.hear(key, refusal, None)

    def _see_job(self, queue: WorkQueue, old: J | None, new: J | None) -> None:
        """The many small changes of a Job that only runs are nothing to its CronJob."""
        if old is not None and new is not None:
            same_life = (old.metadata.uid, old.end, old.metadata.is_going) == (
                new.metadata.uid,
                new.end,
                new.metadata.is_going,
            )
            if same_life and old.metadata.owner_references == new.metadata.owner_references:
                return
        for job in (old, new):
            controller = controller_of(job.metadata, self._group, "CronJob") if job is not None else None
            if job is not None and controller is not None:
                queue.add(f"{job.metadata.namespace}/{controller.name}")

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        cron = self._crons.get(key)
        if cron is None:
            self._refusals.hear(key, None, None)
            return NOTHING_TO_DO
        own = self._jobs.by("controller", cron.metadata.uid)
        mine = {job.metadata.name for job in own}
        namespace, refusal = cron.metadata.namespace, self._refusals.of(key)
        return reconcile(
            cron,
            own,
            now_seconds,
            is_taken=lambda name: name not in mine and f"{namespace}/{name}" in self._jobs,
            refusal="" if refusal is None else refusal.message,
        )


class CronJobController(_Shell[CronJob, CronsJob]):
    name: Final = "cron-job"

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, CronJob, CronsJob, optional=False)


class VolcanoCronJobController(_Shell[VolcanoCronJob, VolcanoCronsJob]):
    name: Final = "volcano-cron-job"

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, VolcanoCronJob, VolcanoCronsJob, optional=True)
