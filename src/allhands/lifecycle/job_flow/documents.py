"""A JobFlow, its templates and its Jobs as the machine reads them, and the names that flows are known by.

Only reading: nothing here decides. Templates and patches stay as they were written.
"""

from typing import Any, Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW, OUTSIDE_JOB, FlowDependsOn
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.lifecycle.observed import Metadata

FLOWS: Final = JOB_FLOW.resource
TEMPLATES: Final = JOB_TEMPLATE.resource
JOBS: Final = JOB.resource
MADE_FROM: Final = "volcano.sh/createdByJobTemplate"
MADE_BY: Final = "volcano.sh/createdByJobFlow"
"""Both as label and annotation of a Job, with NAMESPACE.NAME; only as annotation if that is too long for a label."""
RETRIES: Final = "allhands.dev/flow-retries"
"""On a JobFlow, or on a JobTemplate, which goes first: how many times a step that has failed is made again."""
ATTEMPT: Final = "allhands.dev/flow-attempt"
"""On a Job: how many Jobs of the same step have failed before it."""
OUTSIDE: Final = OUTSIDE_JOB
COMPLETED: Final = "Completed"
LOST: Final = ("Failed", "Terminated")


class FlowPatch(msgspec.Struct, frozen=True, rename="camel"):
    job_spec: Manifest | None = None


class Step(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.depends_on.targets or ()) if self.depends_on is not None else ()


class FlowSpec(msgspec.Struct, frozen=True, rename="camel"):
    flows: tuple[Step, ...] | None = None
    job_retain_policy: str | None = None


class FlowDocument(msgspec.Struct, frozen=True):
    """`status` may be anything: nobody's mistake may stop the machine."""

    metadata: Metadata = Metadata()
    spec: FlowSpec = FlowSpec()
    status: Any = None

    @property
    def written(self) -> Manifest:
        """The status as it is, an empty one if it makes no sense."""
        return self.status if isinstance(self.status, dict) else {}

    @property
    def phase(self) -> str:
        return str(self._state.get("phase") or "")

    @property
    def reason(self) -> str:
        return str(self._state.get("reason") or "")

    @property
    def message(self) -> str:
        return str(self._state.get("message") or "")

    @property
    def _state(self) -> Manifest:
        state = self.written.get("state")
        return state if isinstance(state, dict) else {}

    def job_name(self, step: str) -> str:
        return f"{self.metadata.name}-{step}"


class TemplateDocument(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: Manifest = {}
    status: Any = None


class JobTask(msgspec.Struct, frozen=True):
    name: str = ""
    replicas: int = 0


class _JobSpec(msgspec.Struct, frozen=True):
    tasks: tuple[JobTask, ...] | None = None


class _State(msgspec.Struct, frozen=True):
    phase: str = ""


class _JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    state: _State | None = None
    task_status_count: dict[str, Manifest] | None = None
    retry_count: int | None = None
    running_duration: str | None = None


class FlowsJob(msgspec.Struct, frozen=True):
    """A Job of batch.volcano.sh as its flow sees it."""

    metadata: Metadata = Metadata()
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()

    @property
    def phase(self) -> str:
        """One that nobody has looked at yet is pending."""
        return (self.status.state.phase if self.status.state is not None else "") or "Pending"

    @property
    def is_over(self) -> bool:
        return self.phase == COMPLETED or self.phase in LOST

    @property
    def attempt(self) -> int:
        text = self.metadata.annotation(ATTEMPT)
        return int(text) if text.isdecimal() and len(text) < 6 else 0

    def count(self, task: str, phase: str) -> int:
        """How many pods of the task are in the phase."""
        phases = ((self.status.task_status_count or {}).get(task) or {}).get("phase") or {}
        return int(phases.get(phase) or 0)
