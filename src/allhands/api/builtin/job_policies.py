"""What a Job says about failed pods (`podFailurePolicy`) and about early success (`successPolicy`).

Only the two policies and the index lists they share with a Job's status; the rest of a Job is in `batch`.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import NEGATIVE
from allhands.api.errors import (
    OMITTED,
    FieldError,
    duplicate,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from allhands.api.names import qualified_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest

_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_MAX_CONDITION_PATTERNS: Final = 20
_MAX_SUCCEEDED_INDEXES_BYTES: Final = 64 * 1024
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_INTEGER: Final = re.compile("[+-]?[0-9]+")
_MAX_INTEGER_DIGITS: Final = 19


class IndexesError(ValueError):
    """A list of indexes like `1,3-5` that is not one; carries the text for the client."""


def default_pod_failure_policy(policy: Manifest) -> None:
    for rule in policy.get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def pod_failure_policy_errors(spec: Manifest, path: str) -> list[FieldError]:
    rules: Sequence[Manifest] = spec["podFailurePolicy"].get("rules") or ()
    errors = []
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    pod_spec = spec.get("template", {}).get("spec", {})
    names = {container.get("name", "") for container in pod_spec.get("containers") or ()}
    names |= {container.get("name", "") for container in pod_spec.get("initContainers") or ()}
    for index, rule in enumerate(rules):
        errors += _failure_rule_errors(rule, f"{path}.rules[{index}]", names, "backoffLimitPerIndex" in spec)
    return errors


def _failure_rule_errors(rule: Manifest, path: str, container_names: set[str], per_index: bool) -> list[FieldError]:
    errors = []
    action = rule.get("action", "")
    if not action:
        errors.append(required(f"{path}.action", _valid_values(_ACTIONS)))
    elif action == "FailIndex":
        if not per_index:
            errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", action, _ACTIONS))
    exit_codes = rule.get("onExitCodes")
    patterns = rule.get("onPodConditions")
    if exit_codes is not None:
        errors += _exit_code_errors(exit_codes, f"{path}.onExitCodes", container_names)
    if patterns:
        errors += _condition_pattern_errors(patterns, f"{path}.onPodConditions")
    if exit_codes is not None and patterns:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if exit_codes is None and not patterns:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _exit_code_errors(requirement: Manifest, path: str, container_names: set[str]) -> list[FieldError]:
    errors = []
    operator = requirement.get("operator", "")
    if not operator:
        errors.append(required(f"{path}.operator", _valid_values(_OPERATORS)))
    elif operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    name = requirement.get("containerName")
    if name is not None and name not in container_names:
        why = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", name, why))
    codes: list[int] = requirement.get("values") or []
    if not codes:
        errors.append(invalid(f"{path}.values", requirement.get("values"), "at least one value is required"))
    elif len(codes) > _MAX_EXIT_CODES:
        errors.append(too_many(f"{path}.values", len(codes), _MAX_EXIT_CODES))
    seen: set[int] = set()
    for index, code in enumerate(codes):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{path}.values[{index}]", code, "must not be 0 for the In operator"))
        if code in seen:
            errors.append(duplicate(f"{path}.values[{index}]", code))
        seen.add(code)
    if any(before > after for before, after in pairwise(codes)):
        errors.append(invalid(f"{path}.values", codes, "must be ordered"))
    return errors


def _condition_pattern_errors(patterns: list[Manifest], path: str) -> list[FieldError]:
    errors = []
    if len(patterns) > _MAX_CONDITION_PATTERNS:
        errors.append(too_many(path, len(patterns), _MAX_CONDITION_PATTERNS))
    for index, pattern in enumerate(patterns):
        condition = pattern.get("type", "")
        errors += [invalid(f"{path}[{index}].type", condition, text) for text in qualified_name(condition)]
        status = pattern.get("status", "")
        if not status:
            errors.append(required(f"{path}[{index}].status", _valid_values(_STATUSES)))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{path}[{index}].status", status, _STATUSES))
    return errors


def _valid_values(choices: Sequence[str]) -> str:
    return f"valid values: [{' '.join(go_quote(choice) for choice in choices)}]"


def success_policy_errors(spec: Manifest, path: str) -> list[FieldError]:
    rules: Sequence[Manifest] = spec["successPolicy"].get("rules") or ()
    errors = []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", why))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _success_rule_errors(rule, f"{path}.rules[{index}]", spec.get("completions"))
    return errors


def _success_rule_errors(rule: Manifest, path: str, completions: int | None) -> list[FieldError]:
    errors = []
    indexes: str | None = rule.get("succeededIndexes")
    count: int | None = rule.get("succeededCount")
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if completions is None:
        # That completions are required is said elsewhere; nothing below can be judged without them.
        return errors
    total = 0
    if indexes is not None:
        if len(indexes) > _MAX_SUCCEEDED_INDEXES_BYTES:
            errors.append(too_long(f"{path}.succeededIndexes", _MAX_SUCCEEDED_INDEXES_BYTES))
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as malformed:
            why = f"error parsing succeededIndexes: {malformed}"
            errors.append(invalid(f"{path}.succeededIndexes", indexes, why))
    if count is not None:
        if count < 0:
            errors.append(invalid(f"{path}.succeededCount", count, NEGATIVE))
        if count > completions:
            why = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(f"{path}.succeededCount", count, why))
        if indexes is not None and count > total:
            why = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(f"{path}.succeededCount", count, why))
    return errors


def count_indexes(indexes: str, completions: int) -> int:
    """How many indexes `1,3-5` names; raises IndexesError when it is not an ordered list below completions."""
    if not indexes:
        return 0
    last = -1
    total = 0
    for text in indexes.split(","):
        first, end = index_interval(text, completions)
        if last >= 0 and last >= first:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def index_interval(text: str, completions: int) -> tuple[int, int]:
    """First and last index of `3` or `3-5`."""
    limits = text.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {go_quote(text)} violates the requirement that an index interval can have at most two "
            "parts separated by '-'"
        )
    first = _index(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _index(limits[1], completions)
    if first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > _MAX_INTEGER_DIGITS:
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}")
    number = int(text)
    if number >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return number
