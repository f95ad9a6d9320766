"""Volcano's scheduler configuration (volcano-scheduler.conf), translated into a SchedulingPolicy, with warnings.

Its actions, tiers, plugins, arguments and switches are all understood, each with what its row says; a word that Volcano
does not have is an error that lists those it has. All errors are found at once. It reads decoded documents only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.configuration import ConfigurationError, listed, read
from allhands.api.errors import Fault, FieldError, invalid
from allhands.api.policy import API_VERSION, KIND, PluginUse, SchedulingPolicy
from allhands.dialects.volcano_actions import ACTIONS, REMOVED_ACTIONS
from allhands.dialects.volcano_document import ActionArguments, Notice, SchedulerConfiguration, Use, typed
from allhands.dialects.volcano_effects import EFFECTS, Outcome, set_domains
from allhands.dialects.volcano_plugins import PLUGINS, SWITCHES
from allhands.dialects.volcano_rows import ActionRow, PluginRow, Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ACTION: Final = {row.name: row for row in ACTIONS}
_PLUGIN: Final = {row.name: row for row in PLUGINS}
_BY_GANG: Final = frozenset({"gangpreempt", "gangreclaim"})
_BY_TASK: Final = frozenset({"preempt", "reclaim"})
_IN_ORDER: Final = ("enqueue", "allocate", "backfill", "preempt", "gangpreempt", "reclaim", "gangreclaim")
_ALWAYS_ON: Final = {
    "gang": "groups start whole or not at all, even though gang is not listed",
    "predicates": "all filters are kept, even though predicates is not listed",
    "conformance": "pods of the system are never evicted, even though conformance is not listed",
}


class Translated(msgspec.Struct, frozen=True):
    policy: SchedulingPolicy
    warnings: tuple[Notice, ...] = ()


def translate(document: object) -> Translated:
    """Of a decoded document, or a ConfigurationError."""
    configuration = read(document, SchedulerConfiguration)
    outcome = Outcome()
    actions = _actions(configuration.actions, outcome)
    for index, given in enumerate(configuration.configurations or ()):
        _action_arguments(given, f"configurations[{index}]", actions, outcome)
    _plugins(configuration, outcome)
    if configuration.metrics:
        outcome.warn("metrics", "is not read: real load is not measured here")
    if not outcome.errors:
        try:
            return Translated(_policy(actions, outcome), tuple(outcome.warnings))
        except ValueError as error:
            outcome.errors.append(FieldError(Fault.INVALID, "tiers", detail=str(error)))
    raise ConfigurationError(outcome.errors)


def _policy(actions: Sequence[str], outcome: Outcome) -> SchedulingPolicy:
    if outcome.prefers_groups and not any(it.name == "nodeaffinity" for it in outcome.scores):
        outcome.add_score("nodeaffinity", 1, "nodegroup")
    return SchedulingPolicy(
        api_version=API_VERSION,
        kind=KIND,
        scores=tuple(outcome.scores),
        orders=(*outcome.orders, PluginUse("creation")),
        queue_choice=outcome.queue_choice,
        preempts=bool({"preempt", "gangpreempt"} & set(actions)),
        reclaims=bool({"reclaim", "gangreclaim"} & set(actions)),
        **outcome.numbers,
    )


# -- actions


def _actions(text: str, outcome: Outcome) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        row = _ACTION.get(name)
        if row is None:
            outcome.errors.append(_unknown("actions", name, "action", _ACTION, REMOVED_ACTIONS.get(name, "")))
        elif row.verdict is Verdict.REFUSED:
            outcome.errors.append(_refusal("actions", row))
        elif row.verdict is Verdict.OURS:
            outcome.warn("actions", f"{name}: {row.note}")
    if "allocate" not in names:
        outcome.errors.append(FieldError(Fault.REQUIRED, "actions", detail="without allocate nothing would start"))
    mixed = sorted(_BY_GANG & set(names)) and sorted(_BY_TASK & set(names))
    if mixed:
        detail = f"{listed(_BY_GANG & set(names))} must not be mixed with {listed(mixed)}"
        outcome.errors.append(FieldError(Fault.FORBIDDEN, "actions", detail=detail))
    if twice := sorted({name for name in names if names.count(name) > 1}):
        outcome.warn("actions", f"{listed(twice)} is listed twice, which makes no difference")
    known = [name for name in dict.fromkeys(names) if name in _IN_ORDER]
    if known != sorted(known, key=_IN_ORDER.index):
        outcome.warn("actions", "the order is fixed: free room is used first, then groups preempt, then queues reclaim")
    return names


def _action_arguments(given: ActionArguments, path: str, actions: Sequence[str], outcome: Outcome) -> None:
    row = _ACTION.get(given.name)
    if row is None:
        outcome.errors.append(_unknown(f"{path}.name", given.name, "action", _ACTION))
        return
    if given.name not in actions:
        outcome.warn(path, f"has no effect, because {given.name} is not among the actions")
    arguments = _arguments(given.arguments, row.arguments, frozenset(), f"{path}.arguments", outcome)
    set_domains(outcome, arguments.get("maxDomains"))


# -- plugins


def _plugins(configuration: SchedulerConfiguration, outcome: Outcome) -> None:
    names: dict[str, str] = {}
    for number, tier in enumerate(configuration.tiers or ()):
        for index, entry in enumerate(tier.plugins or ()):
            path = f"tiers[{number}].plugins[{index}]"
            use = _use(entry, path, outcome)
            if use is None:
                continue
            if use.name in names:
                outcome.errors.append(FieldError(Fault.DUPLICATE, f"{path}.name", use.name))
                continue
            names[use.name] = path
            if use.name in EFFECTS:
                EFFECTS[use.name](use, outcome)
    if "proportion" in names and outcome.hierarchical:
        detail = "conflicts with drf and enableHierarchy: true; use one of the two"
        outcome.errors.append(FieldError(Fault.FORBIDDEN, names["proportion"], detail=detail))
    if "proportion" in names and "capacity" in names:
        detail = "proportion and capacity cannot be used together"
        outcome.errors.append(FieldError(Fault.FORBIDDEN, names["capacity"], detail=detail))
    for name, text in _ALWAYS_ON.items():
        if name not in names:
            outcome.warn("tiers", text)


def _use(entry: dict[str, Any], path: str, outcome: Outcome) -> Use | None:
    """The plugin with its arguments and switches, checked; None if it is not to be used."""
    name = entry.get("name")
    row = _PLUGIN.get(name) if isinstance(name, str) else None
    if row is None:
        outcome.errors.append(_unknown(f"{path}.name", name, "plugin", _PLUGIN))
        return None
    if row.verdict is Verdict.REFUSED:
        outcome.errors.append(_refusal(path, row))
        return None
    if row.verdict is Verdict.OURS:
        outcome.warn(path, f"{row.name}: {row.note}")
    errors = len(outcome.errors)
    switches = _switches(entry, row, path, outcome)
    off = frozenset(switch for switch, is_on in switches.items() if not is_on)
    arguments = _arguments(entry.get("arguments"), row.arguments, off, f"{path}.arguments", outcome)
    return Use(path, row.name, arguments, switches) if len(outcome.errors) == errors else None


def _switches(entry: dict[str, Any], row: PluginRow, path: str, outcome: Outcome) -> dict[str, bool]:
    meaning = {switch.name: switch for switch in row.switches}
    found: dict[str, bool] = {}
    for key, value in entry.items():
        if key in ("name", "arguments"):
            continue
        here = f"{path}.{key}"
        if key not in SWITCHES:
            outcome.errors.append(_unknown_switch(key, row, here))
        elif not isinstance(value, bool):
            outcome.errors.append(invalid(here, str(value)[:40], "expected true or false"))
        else:
            found[key] = value
            _judge_switch(meaning.get(key), value, row, here, outcome)
    return found


def _judge_switch(switch: Row | None, value: bool, row: PluginRow, path: str, outcome: Outcome) -> None:
    if switch is None:
        # Only words that were meant to do something deserve one.
        if value is (path.endswith("enableHierarchy")):
            outcome.warn(path, f"has no effect: {row.name} has nothing to switch there")
    elif value or switch.name == "enableHierarchy":
        return
    elif switch.verdict is Verdict.REFUSED:
        outcome.errors.append(FieldError(Fault.FORBIDDEN, path, detail=switch.note))
    elif switch.verdict is Verdict.OURS:
        outcome.warn(path, f"cannot be switched off: {switch.note}")


def _arguments(given: object, rows: Iterable[Row], off: frozenset[str], path: str, outcome: Outcome) -> dict[str, Any]:
    """The arguments that may be used, by name, with what is to be said about each."""
    found: dict[str, Any] = {}
    if given is None:
        return found
    if not isinstance(given, dict):
        outcome.errors.append(FieldError(Fault.TYPE_INVALID, path, detail="expected a mapping"))
        return found
    rows = tuple(rows)
    for key, raw in given.items():
        here = f"{path}[{key}]"
        row = next((row for row in rows if isinstance(key, str) and row.matches(key)), None)
        if row is None:
            outcome.errors.append(_unknown(here, key, "argument", (row.name for row in rows)))
            continue
        value = typed(raw, row.type, here)
        if isinstance(value, FieldError):
            outcome.errors.append(value)
        elif row.verdict is Verdict.SAME or row.is_neutral(value) or row.unless_off in off:
            found[key] = value
        elif row.verdict is Verdict.REFUSED:
            outcome.errors.append(FieldError(Fault.FORBIDDEN, here, detail=row.note))
        else:
            outcome.warn(here, row.note)
    return found


# -- what to say


def _refusal(path: str, row: ActionRow | PluginRow) -> FieldError:
    return FieldError(Fault.FORBIDDEN, path, detail=f"{row.name}: {row.note}")


def _unknown(path: str, name: object, what: str, known: Iterable[str], why: str = "") -> FieldError:
    shown = name[:60] if isinstance(name, str) else "not a name"
    names = tuple(known)
    if not why and shown.lower() in names:
        why = f'names are in lower case: "{shown.lower()}"'
    elif not why and shown.lower().replace("-", "") in {it.replace("-", "") for it in names}:
        meant = next(it for it in names if it.replace("-", "") == shown.lower().replace("-", ""))
        why = f'it is spelled "{meant}"'
    return FieldError(
        Fault.NOT_SUPPORTED,
        path,
        shown,
        f"there is no such {what}{f' ({why})' if why else ''}; there are {listed(names)}",
    )


def _unknown_switch(key: object, row: PluginRow, path: str) -> FieldError:
    name = str(key)[:60]
    if any(argument.matches(name) for argument in row.arguments):
        return FieldError(Fault.FORBIDDEN, path, detail="it belongs under arguments")
    bare = name.removeprefix("enabled").removeprefix("enable")
    meant = [switch for switch in SWITCHES if switch.removeprefix("enabled").removeprefix("enable") == bare]
    why = f'it is spelled "{meant[0]}"' if meant else f"there are {listed(('name', 'arguments', *SWITCHES))}"
    return FieldError(Fault.FORBIDDEN, path, detail=f"there is no such field; {why}")
