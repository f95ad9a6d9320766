"""The shell of CronJobs: they look at the Jobs they made when one comes, ends or goes, and when a minute is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.controllers.watching import controller_of, controller_uid, decoder
from allhands.lifecycle.cron_job import CRON_JOBS, JOBS, CronJob, CronsJob, reconcile
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue


class CronJobController:
    name: Final = "cron-job"

    def __init__(self, objects: Objects) -> None:
        self._crons: Informer[CronJob] = Informer(objects, CRON_JOBS, decoder(CronJob))
        self._jobs: Informer[CronsJob] = Informer(
            objects, JOBS, decoder(CronsJob), indexes={"controller": lambda job: controller_uid(job.metadata)}
        )

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._crons, self._jobs)

    def wire(self, queue: WorkQueue) -> None:
        self._crons.on_change(lambda key, _old, _new: queue.add(key))
        self._jobs.on_change(lambda _key, old, new: self._see_job(queue, old, new))

    def _see_job(self, queue: WorkQueue, old: CronsJob | None, new: CronsJob | None) -> None:
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
            controller = controller_of(job.metadata, "batch", "CronJob") if job is not None else None
            if job is not None and controller is not None:
                queue.add(f"{job.metadata.namespace}/{controller.name}")

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        cron = self._crons.get(key)
        if cron is None:
            return NOTHING_TO_DO
        own = self._jobs.by("controller", cron.metadata.uid)
        mine = {job.metadata.name for job in own}
        namespace = cron.metadata.namespace
        return reconcile(
            cron, own, now_seconds, is_taken=lambda name: name not in mine and f"{namespace}/{name}" in self._jobs
        )
