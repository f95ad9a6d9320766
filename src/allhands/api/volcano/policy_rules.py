"""Which lifecycle policies of a Job or a task make sense, alone and beside each other, with the path of each field.

Pure. A list of policies must leave no doubt about what is done: each event and each exit code has one answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.api.builtin.cron import duration_error
from allhands.api.errors import FieldError, forbidden, invalid, not_supported, required
from allhands.api.volcano.lifecycle_policy import ACTIONS_OF_USERS, EVENTS_OF_USERS, Action, Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.api.document import Manifest


HIGHEST_EXIT_CODE: Final = 255


def policy_errors(policies: Sequence[Manifest], path: str, no_parts: str = "") -> list[FieldError]:
    """What is wrong with a list of policies. `no_parts`: why there are no partitions to restart, "" if there are."""
    errors: list[FieldError] = []
    answered: dict[Any, str] = {}
    wildcard = ""
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        errors += _own_errors(policy, where)
        if no_parts and policy.get("action") == Action.RESTART_PARTITION:
            errors.append(invalid(f"{where}.action", policy["action"], f"{no_parts}; RestartPod restarts one pod"))
        for event, place in _events(policy, where):
            if event in answered and answered[event] != where:
                errors.append(invalid(place, event, f"{answered[event]} says already what is done then"))
            answered.setdefault(event, where)
            if event == Event.ANY:
                wildcard = wildcard or place
        code = policy.get("exitCode")
        if code is not None:
            if ("code", code) in answered:
                errors.append(invalid(f"{where}.exitCode", code, f"{answered['code', code]} says already what is done"))
            answered.setdefault(("code", code), where)
    if wildcard and any(isinstance(key, str) and key != Event.ANY for key in answered):
        errors.append(invalid(wildcard, Event.ANY.value, "* is every event: no other policy may name one beside it"))
    return errors


def _own_errors(policy: Manifest, where: str) -> Iterator[FieldError]:
    """What is wrong with one policy, whatever others there are."""
    events = list(_events(policy, where))
    code = policy.get("exitCode")
    if events and code is not None:
        yield forbidden(f"{where}.exitCode", "a policy is about events or about an exit code, not about both")
    elif not events and code is None:
        yield required(f"{where}.event", "a policy must name an event, several events, or an exitCode")
    for event, place in events:
        if event not in EVENTS_OF_USERS:
            yield not_supported(place, event, sorted(EVENTS_OF_USERS))
    if code == 0:
        yield invalid(f"{where}.exitCode", 0, "0 is no failure; name TaskCompleted for tasks that end well")
    elif code is not None and not 0 < code <= HIGHEST_EXIT_CODE:
        yield invalid(f"{where}.exitCode", code, f"no process ends with it; from 1 to {HIGHEST_EXIT_CODE} is allowed")
    action = policy.get("action")
    if not action:
        yield required(f"{where}.action", f"one of {', '.join(sorted(ACTIONS_OF_USERS))}")
    elif action not in ACTIONS_OF_USERS:
        yield not_supported(f"{where}.action", action, sorted(ACTIONS_OF_USERS))
    timeout = policy.get("timeout")
    if timeout is not None:
        yield from duration_errors(timeout, f"{where}.timeout")


def duration_errors(text: str, path: str) -> list[FieldError]:
    """A span of time such as 1h30m, not below zero."""
    if why := duration_error(text):
        return [invalid(path, text, f"{why}; write it as 90s, 10m or 1h30m")]
    return [invalid(path, text, "must not be negative")] if text.startswith("-") else []


def _events(policy: Manifest, where: str) -> Iterator[tuple[str, str]]:
    """Each event that a policy names, once, with its path."""
    seen: set[str] = set()
    for index, event in enumerate(policy.get("events") or ()):
        if event not in seen:
            seen.add(event)
            yield event, f"{where}.events[{index}]"
    event = policy.get("event")
    if event and event not in seen:
        yield event, f"{where}.event"
