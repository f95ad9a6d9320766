"""What the status of a Job may say: counters, conditions that exclude or need each other, and steps that are final.

A rule is applied only when a field it speaks about changes, so that an old status that breaks it can still be updated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import negatives
from allhands.api.builtin.job_policies import IndexesError, count_indexes, index_interval
from allhands.api.errors import OMITTED, FieldError, duplicate, invalid, required

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_NO_CONDITIONS: Final[frozenset[str]] = frozenset()
_FINAL: Final = frozenset({"Complete", "Failed"})
_MORE_THAN_COUNTED: Final = ("conditions", "startTime", "completionTime", "completedIndexes", "failedIndexes")
_COUNTERS: Final = ("active", "succeeded", "failed", "ready", "terminating")


def has_condition(status: Manifest, condition_type: str, value: str = "True") -> bool:
    return any(
        condition.get("type") == condition_type and condition.get("status") == value
        for condition in status.get("conditions") or ()
    )


def _true_conditions(status: Manifest) -> frozenset[str]:
    conditions = status.get("conditions")
    if not conditions:
        return _NO_CONDITIONS
    return frozenset(condition.get("type", "") for condition in conditions if condition.get("status") == "True")


class _Change:
    """The two statuses of one update, and which parts of them differ."""

    def __init__(self, new: Manifest, old: Manifest) -> None:
        self.spec: Manifest = new.get("spec", {})
        self.new: Manifest = new.get("status") or {}
        self.old: Manifest = old.get("status") or {}
        self._changed = {field for field in (*self.new, *self.old) if self.new.get(field) != self.old.get(field)}
        self.now = _true_conditions(self.new)
        self.before = _true_conditions(self.old)
        self.complete = "Complete" in self.now
        self.failed = "Failed" in self.now
        self.failure_target = "FailureTarget" in self.now
        self.success_met = "SuccessCriteriaMet" in self.now
        self.finished = self.complete or self.failed
        self.complete_changed = self.condition_differs("Complete")
        self.failed_changed = self.condition_differs("Failed")
        self.finished_changed = self.finished == self.before.isdisjoint(_FINAL)

    def differs(self, *fields: str) -> bool:
        return not self._changed.isdisjoint(fields)

    def condition_differs(self, condition_type: str) -> bool:
        return (condition_type in self.now) != (condition_type in self.before)


def validate_job_status(new: Manifest, old: Manifest) -> list[FieldError]:
    if (counting := _counting_errors(new, old)) is not None:
        return counting
    change = _Change(new, old)
    if change.new == change.old:
        return []
    errors = negatives(change.new, _COUNTERS, "status")
    errors += _uncounted_errors(change.new.get("uncountedTerminatedPods"))
    errors += _completion_errors(change)
    errors += _finished_errors(change)
    errors += _index_errors(change)
    errors += _pod_count_errors(change)
    errors += _success_errors(change)
    return errors + _transition_errors(change)


def _counting_errors(new: Manifest, old: Manifest) -> list[FieldError] | None:
    """The same where nothing but counters may have changed, which is nearly always so; else None."""
    after, before = new.get("status") or {}, old.get("status") or {}
    for field in _MORE_THAN_COUNTED:
        if after.get(field) != before.get(field):
            return None
    if after.get("conditions"):
        return None
    if after == before:
        return []
    errors = negatives(after, _COUNTERS, "status")
    errors += _uncounted_errors(after.get("uncountedTerminatedPods"))
    if after.get("ready") != before.get("ready") or after.get("active") != before.get("active"):
        errors += _ready_errors(after)
    return errors + _decrease_errors(after, before, new.get("spec", {}))


def _uncounted_errors(uncounted: Manifest | None) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for group in ("succeeded", "failed"):
        for index, uid in enumerate((uncounted or {}).get(group) or ()):
            path = f"status.uncountedTerminatedPods.{group}[{index}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _condition_error(why: str) -> FieldError:
    return invalid("status.conditions", OMITTED, why)


def _completion_errors(change: _Change) -> list[FieldError]:
    errors = []
    completion, start = change.new.get("completionTime"), change.new.get("startTime")
    completion_changed = change.complete_changed or change.differs("completionTime")
    if (change.complete_changed or change.failed_changed) and change.complete and change.failed:
        errors.append(_condition_error("cannot set Complete=True and Failed=true conditions"))
    target_changed = change.condition_differs("FailureTarget")
    if (change.complete_changed or target_changed) and change.complete and change.failure_target:
        errors.append(_condition_error("cannot set Complete=True and FailureTarget=true conditions"))
    if completion_changed and completion and not change.complete:
        why = "cannot set completionTime when there is no Complete=True condition"
        errors.append(invalid("status.completionTime", completion, why))
    if completion_changed and not completion and change.complete:
        errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    # Times in normal form (UTC, whole seconds) sort as texts.
    if change.differs("startTime", "completionTime") and start and completion and completion < start:
        errors.append(invalid("status.completionTime", completion, "must be equal to or after `startTime`"))
    if (change.failed_changed or change.differs("failedIndexes")) and change.failed and not change.failure_target:
        errors.append(_condition_error("cannot set Failed=True condition without the FailureTarget=true condition"))
    success_changed = change.complete_changed or change.condition_differs("SuccessCriteriaMet")
    if success_changed and change.complete and not change.success_met:
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_condition_error(why))
    return errors


def _finished_errors(change: _Change) -> list[FieldError]:
    if not change.finished:
        return []
    errors = []
    active = change.new.get("active", 0)
    if (change.finished_changed or change.differs("active")) and active > 0:
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    never_ran = change.spec.get("suspend") is True and change.spec.get("completions") == 0
    start_changed = change.finished_changed or change.differs("startTime")
    if start_changed and not never_ran and not change.new.get("startTime"):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = change.new.get("uncountedTerminatedPods")
    if (change.finished_changed or change.differs("uncountedTerminatedPods")) and uncounted:
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        if shown["Succeeded"] or shown["Failed"]:
            errors.append(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    return errors


def _index_errors(change: _Change) -> list[FieldError]:
    completed_changed, failed_changed = change.differs("completedIndexes"), change.differs("failedIndexes")
    if not completed_changed and not failed_changed:
        return []
    errors = []
    completions: int | None = change.spec.get("completions")
    completed: str = change.new.get("completedIndexes", "")
    failed: str | None = change.new.get("failedIndexes")
    per_index = "backoffLimitPerIndex" in change.spec
    if completed_changed and completions is not None:
        errors += _malformed("completedIndexes", completed, completions)
    if failed_changed and completions is not None and per_index and failed is not None:
        errors += _malformed("failedIndexes", failed, completions)
    if completed_changed and completed and change.spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, why))
    if failed_changed and failed is not None and not per_index:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, why))
    if completions is not None and failed is not None:
        overlap = _first_overlap(completed, failed, completions)
        if overlap is not None:
            why = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            errors.append(invalid("status.failedIndexes", failed, why))
    return errors


def _malformed(field: str, indexes: str, completions: int) -> list[FieldError]:
    try:
        count_indexes(indexes, completions)
    except IndexesError as malformed:
        return [invalid(f"status.{field}", indexes, f"error parsing {field}: {malformed}")]
    return []


def _intervals(indexes: str, completions: int) -> list[tuple[int, int]]:
    intervals = []
    for text in indexes.split(",") if indexes else ():
        try:
            intervals.append(index_interval(text, completions))
        except IndexesError:
            # The check of the format reports it.
            continue
    return intervals


def _first_overlap(completed: str, failed: str, completions: int) -> int | None:
    done, lost = _intervals(completed, completions), _intervals(failed, completions)
    i = j = 0
    while i < len(done) and j < len(lost):
        first, second = done[i], lost[j]
        if first[0] <= second[1] and second[0] <= first[1]:
            return max(first[0], second[0])
        if first[0] <= second[0]:
            i += 1
        else:
            j += 1
    return None


def _pod_count_errors(change: _Change) -> list[FieldError]:
    errors = []
    terminating = change.new.get("terminating", 0)
    if (change.finished_changed or change.differs("terminating")) and terminating > 0 and change.finished:
        errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if change.differs("ready", "active"):
        errors += _ready_errors(change.new)
    return errors


def _ready_errors(status: Manifest) -> list[FieldError]:
    ready = status.get("ready", 0)
    if ready <= status.get("active", 0) or "ready" not in status:
        return []
    return [invalid("status.ready", ready, "cannot set more ready pods than active")]


def _success_errors(change: _Change) -> list[FieldError]:
    errors = []
    if change.success_met and change.failed:
        errors.append(_condition_error("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if change.success_met and change.failure_target:
        errors.append(_condition_error("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if "successPolicy" in change.spec and not change.success_met and change.complete:
        why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_condition_error(why))
    return errors


def _decrease_errors(new: Manifest, old: Manifest, spec: Manifest) -> list[FieldError]:
    errors = []
    if new.get("failed", 0) < old.get("failed", 0):
        errors.append(invalid("status.failed", new.get("failed", 0), "cannot decrease the failed counter"))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and new.get("succeeded", 0) < old.get("succeeded", 0):
        errors.append(invalid("status.succeeded", new.get("succeeded", 0), "cannot decrease the succeeded counter"))
    return errors


def _transition_errors(change: _Change) -> list[FieldError]:
    new, old, spec = change.new, change.old, change.spec
    errors = [
        _condition_error(f"cannot disable the terminal {condition_type}=True condition")
        for condition_type in ("Failed", "Complete", "FailureTarget")
        if condition_type in change.before and condition_type not in change.now
    ]
    errors += _decrease_errors(new, old, spec)
    completion = new.get("completionTime")
    if completion and old.get("completionTime") and change.differs("completionTime"):
        errors.append(invalid("status.completionTime", completion, "field is immutable"))
    resuming = "Suspended" in change.before and has_condition(new, "Suspended", "False")
    if old.get("startTime") and change.differs("startTime") and not resuming and not spec.get("suspend"):
        why = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", new.get("startTime"), why))
    if "SuccessCriteriaMet" in change.before and not change.success_met:
        errors.append(_condition_error("cannot disable the SuccessCriteriaMet=True condition"))
    if "Complete" in change.before and "SuccessCriteriaMet" not in change.before and change.success_met:
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(_condition_error(why))
    return errors
