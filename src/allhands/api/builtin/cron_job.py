"""Rules of CronJob: defaults, its schedule and time zone, and the Job template it stamps out.

The grammar of the schedule is in `cron`; this module never asks what time it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.api.builtin.cron import schedule_error
from allhands.api.builtin.fieldchecks import negatives, shown_selector
from allhands.api.builtin.job import job_spec_errors
from allhands.api.builtin.job_policies import default_pod_failure_policy
from allhands.api.builtin.podspec import default_pod_template
from allhands.api.builtin.timezones import location_error
from allhands.api.errors import FieldError, invalid, not_supported, required

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_MAX_CRON_JOB_NAME_BYTES: Final = 52
_ZONE_PART_RE: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_CONCURRENCY_POLICIES: Final = ("Allow", "Forbid", "Replace")


def default_cron_job(cron_job: Manifest) -> None:
    spec = cron_job.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    job_spec = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    if "podFailurePolicy" in job_spec:
        default_pod_failure_policy(job_spec["podFailurePolicy"])
    default_pod_template(job_spec.setdefault("template", {}))


def validate_cron_job(cron_job: Manifest) -> list[FieldError]:
    errors = _cron_spec_errors(cron_job["spec"], None)
    name = cron_job["metadata"].get("name", "")
    if len(name) > _MAX_CRON_JOB_NAME_BYTES:
        errors.append(invalid("metadata.name", name, f"must be no more than {_MAX_CRON_JOB_NAME_BYTES} characters"))
    return errors


def validate_cron_job_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return _cron_spec_errors(new["spec"], old["spec"])


def _cron_spec_errors(spec: Manifest, old_spec: Manifest | None) -> list[FieldError]:
    errors = []
    if not spec.get("schedule"):
        errors.append(required("spec.schedule"))
    else:
        errors += schedule_errors(spec, old_spec)
    errors += negatives(spec, ("startingDeadlineSeconds",), "spec")
    zone = spec.get("timeZone")
    if zone is not None and (old_spec is None or old_spec.get("timeZone") != zone):
        errors += time_zone_errors(zone)
    policy = spec.get("concurrencyPolicy", "")
    if policy not in _CONCURRENCY_POLICIES:
        errors.append(not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY_POLICIES))
    errors += _job_template_errors(spec["jobTemplate"]["spec"])
    return errors + negatives(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")


def schedule_errors(spec: Manifest, old_spec: Manifest | None) -> list[FieldError]:
    schedule = spec["schedule"]
    why = schedule_error(schedule)
    errors = [invalid("spec.schedule", schedule, why)] if why else []
    if "TZ" in schedule:
        if old_spec is None or "TZ" not in old_spec.get("schedule", ""):
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, why))
        elif "timeZone" in spec:
            why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid("spec.schedule", schedule, why))
    return errors


def time_zone_errors(zone: str) -> list[FieldError]:
    if not zone:
        return [invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART_RE.fullmatch(part):
            return [invalid("spec.timeZone", zone, f"unknown time zone {zone}")]
    errors = []
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid("spec.timeZone", zone, why))
    if why := location_error(zone):
        errors.append(invalid("spec.timeZone", zone, why))
    return errors


def _job_template_errors(spec: Manifest) -> list[FieldError]:
    path = "spec.jobTemplate.spec"
    errors = job_spec_errors(spec, path)
    if "selector" in spec:
        errors.append(
            invalid(f"{path}.selector", shown_selector(spec["selector"]), "`selector` will be auto-generated")
        )
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    return errors
