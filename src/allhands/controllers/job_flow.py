"""The shell of JobFlows: who is looked at when a Job, a template or a foreign Job changes, and who asks the pods.

What it remembers beside the API is only to be gentle: when a status was written last, which step was refused and why,
and how Jobs ended that are gone already. Losing it costs one more attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.controllers.watching import controller_of, controller_uid, decoder
from allhands.lifecycle.cron_job import JOBS as PLAIN_JOBS
from allhands.lifecycle.cron_job import CronsJob
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch
from allhands.lifecycle.job_flow.account import is_recorded, written_entries
from allhands.lifecycle.job_flow.documents import FLOWS, JOBS, OUTSIDE, TEMPLATES, FlowDocument, FlowsJob
from allhands.lifecycle.job_flow.documents import TemplateDocument as Template
from allhands.lifecycle.job_flow.machine import PAUSE_SECONDS, Refused, reconcile
from allhands.lifecycle.job_flow.plan import FlowPlan, plan_of
from allhands.runtime.informer import Informer
from allhands.runtime.probing import Prober, TrustingProbes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.errors import StatusError
    from allhands.lifecycle.job_flow.probing import Question
    from allhands.ports import Objects
    from allhands.runtime.probing import Probes
    from allhands.runtime.workqueue import WorkQueue

FIRST_PAUSE_SECONDS: Final = 10.0
LONGEST_PAUSE_SECONDS: Final = 300.0
FINAL: Final = (400, 422)
"""The server has looked at the Job and would not take the same again."""
_NO_REFUSALS: Final[dict[str, Refused]] = {}


class _Seen(msgspec.Struct, frozen=True):
    document: FlowDocument
    plan: FlowPlan


class _Attempt(msgspec.Struct, frozen=True):
    at_seconds: float
    begun: tuple[str, ...]
    writes_status: bool


class _Around(msgspec.Struct, frozen=True):
    """The other objects, from where one flow stands."""

    namespace: str
    jobs: dict[str, FlowsJob]
    refusals: dict[str, Refused]
    templates: Informer[Template]
    all_jobs: Informer[FlowsJob]
    plain: Informer[CronsJob]
    holds: Callable[[Question], bool]

    def template(self, name: str) -> Template | None:
        return self.templates.get(f"{self.namespace}/{name}")

    def outside(self, name: str) -> CronsJob | None:
        return self.plain.get(f"{self.namespace}/{name}")

    def is_taken(self, name: str) -> bool:
        return name not in self.jobs and f"{self.namespace}/{name}" in self.all_jobs


class JobFlowController:
    name: Final = "job-flow"

    def __init__(self, objects: Objects, *, probes: Probes | None = None, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause_seconds = pause_seconds
        self.prober = Prober(probes or TrustingProbes())
        self._written: dict[str, float] = {}
        self._attempts: dict[str, _Attempt] = {}
        self._refused: dict[str, dict[str, Refused]] = {}
        self._ended: dict[str, dict[str, FlowsJob]] = {}
        """By flow, how Jobs ended that are gone, until its status says so."""
        self._asleep: dict[str, None] = {}
        """Flows that are looked at again soon anyway, whatever their pods do until then."""
        self._flows: Informer[_Seen] = Informer(
            objects, FLOWS, _reader(), indexes={"template": _templates, "outside": _outside}, optional=True
        )
        self._templates: Informer[Template] = Informer(objects, TEMPLATES, decoder(Template), optional=True)
        self._jobs: Informer[FlowsJob] = Informer(
            objects,
            JOBS,
            decoder(FlowsJob),
            indexes={"controller": lambda job: controller_uid(job.metadata)},
            optional=True,
        )
        self._plain: Informer[CronsJob] = Informer(objects, PLAIN_JOBS, decoder(CronsJob), optional=True)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._flows, self._templates, self._jobs, self._plain)

    def wire(self, queue: WorkQueue) -> None:
        self.prober.wire(queue)
        self._flows.on_change(lambda key, old, new: self._see_flow(queue, key, old, new))
        self._templates.on_change(lambda key, old, new: self._see_template(queue, key, old, new))
        self._jobs.on_change(lambda _key, old, new: self._see_job(queue, old, new))
        self._plain.on_change(lambda key, old, new: self._see_plain(queue, key, old, new))

    async def run_beside(self) -> None:
        await self.prober.run()

    # -- what concerns whom

    def _see_flow(self, queue: WorkQueue, key: str, old: _Seen | None, new: _Seen | None) -> None:
        if old is not None and new is not None and old.document.spec != new.document.spec:
            self._refused.pop(key, None)
        queue.add(key)

    def _see_template(self, queue: WorkQueue, key: str, old: Template | None, new: Template | None) -> None:
        if (
            old is not None
            and new is not None
            and (old.metadata.annotations, old.spec)
            == (
                new.metadata.annotations,
                new.spec,
            )
        ):
            return
        name = key.rpartition("/")[2]
        for flow in self._flows.keys_by("template", key):
            self._refused.get(flow, {}).pop(name, None)
            queue.add(flow)

    def _see_job(self, queue: WorkQueue, old: FlowsJob | None, new: FlowsJob | None) -> None:
        """That it came, ended or went is news; what it does in between is told once in a while."""
        job = new or old
        controller = controller_of(job.metadata, FLOWS.group, "JobFlow") if job is not None else None
        if job is None or controller is None:
            return
        key = f"{job.metadata.namespace}/{controller.name}"
        if new is None and job.is_over:
            self._ended.setdefault(key, {})[job.metadata.name] = job
        is_news = old is None or new is None or old.is_over != new.is_over
        if is_news or key not in self._asleep:
            queue.add(key)

    def _see_plain(self, queue: WorkQueue, key: str, old: CronsJob | None, new: CronsJob | None) -> None:
        if old is None or new is None or old.end != new.end:
            for flow in self._flows.keys_by("outside", key):
                queue.add(flow)

    # -- looking

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        self._asleep.pop(key, None)
        seen = self._flows.get(key)
        if seen is None:
            self._forget(key)
            return NOTHING_TO_DO
        look = reconcile(
            seen.document,
            seen.plan,
            self._around(key, seen.document),
            now_seconds,
            written_at_seconds=self._written.get(key),
            pause_seconds=self._pause_seconds,
        )
        self.prober.want(key, look.questions)
        if look.gathers:
            self._asleep[key] = None
        writes = any(isinstance(it, Patch) for it in look.outcome.instructions)
        self._attempts[key] = _Attempt(now_seconds, look.begun, writes)
        return look.outcome

    def _around(self, key: str, flow: FlowDocument) -> _Around:
        uid = flow.metadata.uid
        jobs = {it.metadata.name: it for it in self._jobs.by("controller", uid)}
        gone = self._ended.get(key)
        if gone:
            entries = written_entries(flow)
            for name, job in list(gone.items()):
                controller = job.metadata.controller
                is_own = controller is not None and controller.uid == uid
                if name in jobs or not is_own or is_recorded(entries.get(name), job):
                    del gone[name]
            jobs = gone | jobs
        return _Around(
            flow.metadata.namespace,
            jobs,
            self._refused.get(key, _NO_REFUSALS),
            self._templates,
            self._jobs,
            self._plain,
            self.prober.holds,
        )

    def _forget(self, key: str) -> None:
        for memory in (self._written, self._attempts, self._refused, self._ended):
            memory.pop(key, None)
        self.prober.want(key, ())

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended. The first Job that was to be made and is not there was refused."""
        attempt = self._attempts.pop(key, None)
        seen = self._flows.get(key)
        if attempt is None or seen is None:
            return
        if refusal is None and attempt.writes_status:
            self._written[key] = attempt.at_seconds
        document, refused = seen.document, self._refused.get(key, {})
        prefix = f"{document.metadata.namespace}/"
        culprit = ""
        for step in attempt.begun:
            if prefix + document.job_name(step) in self._jobs:
                refused.pop(step, None)
            elif refusal is not None and not culprit:
                culprit = step
        if culprit and refusal is not None and _is_about_the_job(refusal):
            self._refuse(key, culprit, refusal, attempt.at_seconds)

    def _refuse(self, key: str, step: str, refusal: StatusError, now_seconds: float) -> None:
        refused = self._refused.setdefault(key, {})
        times = refused[step].times + 1 if step in refused else 1
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 30))
        refused[step] = Refused(refusal.message, now_seconds + pause, refusal.code in FINAL, times)


def _is_about_the_job(refusal: StatusError) -> bool:
    """Not that somebody was faster, that the server is busy, or that nobody knows."""
    return 400 <= refusal.code < 500 and refusal.code not in (404, 408, 429) and refusal.reason != "Conflict"


def _templates(seen: _Seen) -> Sequence[str]:
    namespace = seen.document.metadata.namespace
    return [f"{namespace}/{step.name}" for step in seen.plan.steps]


def _outside(seen: _Seen) -> Sequence[str]:
    namespace = seen.document.metadata.namespace
    return [f"{namespace}/{target.removeprefix(OUTSIDE)}" for target in seen.plan.outside]


def _reader() -> Callable[[bytes], _Seen]:
    documents = decoder(FlowDocument)

    def read(raw: bytes) -> _Seen:
        document = documents(raw)
        return _Seen(document, plan_of(document.spec))

    return read
