"""A CronJob of Volcano: the machine of all CronJobs, over Jobs of batch.volcano.sh.

Only what is different is here: the group, the annotation with the minute, and how a Job tells its end. A Job that was
terminated has ended without success, so it is one of those that the history of failures keeps.
"""

import math
from typing import ClassVar, Final

import msgspec

from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.job import JOB
from allhands.lifecycle.cron_job import CronJob, CronKind
from allhands.lifecycle.observed import Metadata, Timestamp, seconds_of

VOLCANO: Final = CronKind(CRON_JOB.resource, JOB.resource, "volcano.sh/cronjob-scheduled-timestamp")
_ENDS: Final = {"Completed": "Complete", "Failed": "Failed", "Terminated": "Failed"}


class VolcanoCronJob(CronJob, frozen=True):
    of: ClassVar[CronKind] = VOLCANO


class _State(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    last_transition_time: Timestamp | None = None


class _Status(msgspec.Struct, frozen=True):
    state: _State | None = None


class VolcanoCronsJob(msgspec.Struct, frozen=True):
    """A Job of batch.volcano.sh as its CronJob sees it. An aborted one may be resumed: it has not ended."""

    metadata: Metadata = Metadata()
    status: _Status = _Status()

    @property
    def end(self) -> str:
        return "" if self.status.state is None else _ENDS.get(self.status.state.phase, "")

    @property
    def started_seconds(self) -> float:
        return self.metadata.created_seconds or math.inf

    @property
    def succeeded_seconds(self) -> float:
        return 0.0 if self.status.state is None else seconds_of(self.status.state.last_transition_time)
