"""Makes a Policy of a SchedulingPolicy. All that is wrong with it is said at once, each with its path.

It reads no file and decodes no text; that is done outside. The same configuration always makes the same policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.configuration import ConfigurationError, read
from allhands.api.errors import Fault, FieldError
from allhands.api.policy import MAX_WEIGHT, PluginUse, SchedulingPolicy, ScoreUse
from allhands.core.plugins import PLUGINS, Plugins, Point
from allhands.core.policy import DEFAULT, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

SCORE_POINTS: Final = (Point.SCORE, Point.STATIC_SCORE)
GATE_POINTS: Final = (Point.GATE, Point.LIMIT)

_LISTS: Final = ("scores", "filters", "orders", "gates", "guards")
_NOT_NUMBERS: Final = frozenset({"api_version", "kind", *_LISTS})


def load_policy(document: object, plugins: Plugins = PLUGINS) -> Policy:
    """Of a decoded document (YAML or JSON), or a ConfigurationError."""
    return build_policy(read(document, SchedulingPolicy), plugins)


def build_policy(configuration: SchedulingPolicy, plugins: Plugins = PLUGINS) -> Policy:
    building = _Building(plugins)
    changes: dict[str, Any] = {
        name: value
        for name in SchedulingPolicy.__struct_fields__
        if name not in _NOT_NUMBERS and (value := getattr(configuration, name)) is not None
    }
    if configuration.scores is not None:
        scored = building.weighed(configuration.scores)
        for name, point in (("scores", Point.SCORE), ("static_scores", Point.STATIC_SCORE)):
            changes[name] = tuple((plugin, weight) for where, plugin, weight in scored if where is point)
    if configuration.gates is not None:
        built = building.plain("gates", configuration.gates, GATE_POINTS)
        changes["gates"] = tuple(plugin for point, plugin in built if point is Point.GATE)
        changes["limits"] = tuple(plugin for point, plugin in built if point is Point.LIMIT)
    for name, point in (("filters", Point.FILTER), ("orders", Point.ORDER), ("guards", Point.GUARD)):
        uses: Sequence[PluginUse] | None = getattr(configuration, name)
        if uses is not None:
            changes[name] = tuple(plugin for _, plugin in building.plain(name, uses, (point,)))
    if not building.errors:
        policy = msgspec.structs.replace(DEFAULT, **changes, configuration=configuration)
        building.check(policy)
        if not building.errors:
            return policy
    raise ConfigurationError(building.errors)


class _Building:
    """The plugins by name, and what went wrong so far."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self.errors: list[FieldError] = []

    def weighed(self, uses: Sequence[ScoreUse]) -> list[tuple[Point, Any, int]]:
        built = [(use, self._built("scores", index, use, SCORE_POINTS)) for index, use in enumerate(uses)]
        return [(it[0], it[1], use.weight) for use, it in built if it is not None and use.weight > 0]

    def plain(self, what: str, uses: Sequence[PluginUse], points: tuple[Point, ...]) -> list[tuple[Point, Any]]:
        built = [self._built(what, index, use, points) for index, use in enumerate(uses)]
        return [it for it in built if it is not None]

    def _built(
        self, what: str, index: int, use: PluginUse | ScoreUse, points: tuple[Point, ...]
    ) -> tuple[Point, Any] | None:
        path = f"{what}[{index}]"
        try:
            plugin = self._plugins.find(use.name, points, f"{path}.name")
            return plugin.point, plugin.build(use.arguments, f"{path}.arguments")
        except ConfigurationError as error:
            self.errors += error.errors
            return None

    def check(self, policy: Policy) -> None:
        """What only the whole can break: said numbers beside defaults."""
        if policy.retry_base_seconds > policy.retry_max_seconds:
            detail = f"must not exceed retryMaxSeconds, which is {policy.retry_max_seconds}"
            self.errors.append(FieldError(Fault.INVALID, "retryBaseSeconds", policy.retry_base_seconds, detail))
        weights = [weight for _, weight in (*policy.scores, *policy.static_scores)]
        if (total := sum(weights) + policy.neighbour_weight) > MAX_WEIGHT:
            detail = f"the weights add up to {total}; at most {MAX_WEIGHT} is allowed"
            self.errors.append(FieldError(Fault.INVALID, "scores", detail=detail))
