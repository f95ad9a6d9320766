"""Rules of the kinds in batch/v1."""

from __future__ import annotations

from typing import Final

from allhands.api.builtin.cron_job import default_cron_job, validate_cron_job, validate_cron_job_update
from allhands.api.builtin.job import default_job, prepare_job, prepare_job_update, validate_job, validate_job_update
from allhands.api.builtin.job_status import validate_job_status
from allhands.api.rules import Rules, leave

RULES: Final = {
    "Job": Rules(
        default=default_job,
        default_status=leave,
        prepare_create=prepare_job,
        validate_create=validate_job,
        prepare_update=prepare_job_update,
        validate_update=validate_job_update,
        validate_status=validate_job_status,
    ),
    "CronJob": Rules(
        default=default_cron_job,
        validate_create=validate_cron_job,
        validate_update=validate_cron_job_update,
    ),
}
