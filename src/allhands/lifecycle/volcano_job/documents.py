"""A Volcano Job as its machine reads it: what the server has accepted, with what may be left out filled in.

Only reading: nothing here decides. Templates stay as they were written.
"""

from typing import Final

import msgspec

from allhands.api.volcano.job import JOB, JobSpec, JobStatus
from allhands.lifecycle.observed import Metadata

JOBS: Final = JOB.resource


class JobDocument(msgspec.Struct, frozen=True):
    """One Job of batch.volcano.sh."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


decode_job: Final = msgspec.json.Decoder(JobDocument).decode
