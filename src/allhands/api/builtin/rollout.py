"""How workload kinds replace their pods: the update strategies of Deployment, DaemonSet and StatefulSet.

Defaults and checks of the strategy alone. A strategy shown in an error has the field names of the real server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import at_most_100_percent, int_or_percent, int_or_percent_value, negatives
from allhands.api.errors import FieldError, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest

_ROLLING: Final = "RollingUpdate"


def default_deployment_strategy(strategy: Manifest) -> None:
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
    if strategy["type"] == _ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def default_daemon_set_strategy(strategy: Manifest) -> None:
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
    if strategy["type"] == _ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def default_stateful_set_strategy(strategy: Manifest) -> None:
    if not strategy.get("type"):
        strategy["type"] = _ROLLING
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == _ROLLING and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)


def deployment_strategy_errors(strategy: Manifest, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")]
    if kind != _ROLLING:
        return [not_supported(path, _shown_surge_strategy(strategy), ("Recreate", _ROLLING))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")]
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += int_or_percent(surge, f"{path}.maxSurge")
    if int_or_percent_value(unavailable) == 0 and int_or_percent_value(surge) == 0:
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_100_percent(unavailable, f"{path}.maxUnavailable")


def daemon_set_strategy_errors(strategy: Manifest, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != _ROLLING:
        return [not_supported(path, _shown_surge_strategy(strategy), (_ROLLING, "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += int_or_percent(surge, f"{path}.maxSurge")
    errors += at_most_100_percent(unavailable, f"{path}.maxUnavailable")
    errors += at_most_100_percent(surge, f"{path}.maxSurge")
    has_unavailable, has_surge = int_or_percent_value(unavailable) != 0, int_or_percent_value(surge) != 0
    if has_unavailable and has_surge:
        errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not has_unavailable and not has_surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def stateful_set_strategy_errors(strategy: Manifest, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    shown: Json = rolling and {
        "Partition": rolling.get("partition", 0),
        "MaxUnavailable": rolling.get("maxUnavailable"),
    }
    if kind == "OnDelete":
        if rolling is None:
            return []
        why = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{path}.rollingUpdate", shown or {"Partition": 0, "MaxUnavailable": None}, why)]
    if kind != _ROLLING:
        why = "must be 'RollingUpdate' or 'OnDelete'"
        return [invalid(path, {"Type": kind, "RollingUpdate": shown}, why)]
    if rolling is None:
        return []
    path = f"{path}.rollingUpdate"
    errors = negatives(rolling, ("partition",), path)
    if "maxUnavailable" in rolling:
        unavailable = rolling["maxUnavailable"]
        path = f"{path}.maxUnavailable"
        errors += int_or_percent(unavailable, path)
        if int_or_percent_value(unavailable) == 0:
            errors.append(invalid(path, unavailable, "cannot be 0"))
        errors += at_most_100_percent(unavailable, path)
    return errors


def _shown_surge_strategy(strategy: Manifest) -> Json:
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        rolling = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return {"Type": strategy.get("type", ""), "RollingUpdate": rolling}
