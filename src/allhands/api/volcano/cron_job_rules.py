"""What is refused of a CronJob of Volcano, with the path of each field. Pure: it never asks what time it is.

The Jobs that it would make are looked at as well, so that a mistake shows now and not at three in the morning; queues
are not, since they may be there by then.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from allhands.api.builtin.cron_job import schedule_errors, time_zone_errors
from allhands.api.errors import FieldError, invalid, required
from allhands.api.names import qualified_name
from allhands.api.volcano.job_defaults import complete_spec
from allhands.api.volcano.job_rules import spec_errors

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.surroundings import Surroundings

LONGEST_NAME: Final = 52
"""Names of Jobs have 63 characters, and the time needs eleven of them."""


def cron_job_errors(cron_job: Manifest, old: Manifest | None, around: Surroundings) -> list[FieldError]:
    """Why a CronJob that is new, or has changed, is refused."""
    spec, name = cron_job.get("spec") or {}, cron_job["metadata"].get("name", "")
    before = None if old is None else old.get("spec") or {}
    if spec == before:
        return []
    errors = [required("spec.schedule")] if not spec.get("schedule") else schedule_errors(spec, before)
    if spec.get("timeZone") is not None:
        errors += time_zone_errors(spec["timeZone"])
    if len(name) > LONGEST_NAME:
        detail = f"must be no more than {LONGEST_NAME} characters: its Jobs are called by it and the time"
        errors.append(invalid("metadata.name", name, detail))
    errors += [invalid("metadata.name", name, fault) for fault in qualified_name(name)]
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    if before is None or template != ((before.get("jobTemplate") or {}).get("spec") or {}):
        completed = copy.deepcopy(template)
        complete_spec(completed, around.scheduler_name)
        errors += spec_errors(completed, "spec.jobTemplate.spec", "", around.plugins)
    return errors
