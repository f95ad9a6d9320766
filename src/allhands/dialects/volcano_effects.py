"""What the plugins of Volcano's scheduler become: scores with weights, orders, and numbers of a SchedulingPolicy.

Only plugins that change something have a function here; what is said about the others is in their rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from allhands.api.configuration import ConfigurationError, read
from allhands.api.errors import FieldError, invalid
from allhands.api.policy import MAX_SECONDS, MAX_WEIGHT, PluginUse, QueueChoice, ScoreUse
from allhands.dialects.volcano_document import Notice, Use, seconds_of
from allhands.model.node_groups import NodeGroupUse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NODE_ORDER: Final = (
    ("leastrequested.weight", "leastallocated", 1),
    ("mostrequested.weight", "mostallocated", 0),
    ("nodeaffinity.weight", "nodeaffinity", 2),
    ("balancedresource.weight", "balanced", 1),
    ("tainttoleration.weight", "taints", 3),
    ("imagelocality.weight", "imagelocality", 1),
)
"""Volcano's argument, our score, and the weight where nothing is said."""
NEIGHBOURS: Final = (("podaffinity.weight", 2), ("podtopologyspread.weight", 2))


class Outcome:
    """What has been understood so far."""

    def __init__(self) -> None:
        self.scores: list[ScoreUse] = []
        self.orders: list[PluginUse] = []
        self.numbers: dict[str, Any] = {"neighbour_weight": 0}
        self.hierarchical = False
        """Whether drf compares the levels of the tree."""
        self.proportional = False
        """Whether what queues deserve orders them."""
        self.prefers_groups = False
        """Whether nodes of some groups are to be preferred, whatever scores there are."""
        self.errors: list[FieldError] = []
        self.warnings: list[Notice] = []

    def warn(self, path: str, text: str) -> None:
        self.warnings.append(Notice(path, text))

    @property
    def queue_choice(self) -> QueueChoice:
        if self.proportional:
            return QueueChoice.PROPORTION
        return QueueChoice.HIERARCHICAL_DRF if self.hierarchical else QueueChoice.DRF

    def add_score(self, name: str, weight: int, path: str, arguments: Mapping[str, Any] | None = None) -> None:
        if not 0 <= weight <= MAX_WEIGHT:
            self.errors.append(invalid(path, weight, f"must be between 0 and {MAX_WEIGHT}"))
        elif weight:
            self.scores.append(ScoreUse(name, weight, arguments or {}))


def _priority(use: Use, outcome: Outcome) -> None:
    if use.is_on("enableJobOrder"):
        outcome.orders.append(PluginUse("priority"))


def _drf(use: Use, outcome: Outcome) -> None:
    outcome.hierarchical = use.is_on("enableHierarchy")


def _shares(use: Use, outcome: Outcome) -> None:
    if use.is_on("enableQueueOrder"):
        outcome.proportional = True
    if use.name == "capacity" and not use.is_on("enableHierarchy"):
        outcome.warn(f"{use.path}.enableHierarchy", "is not true, but the parents that queues name always count")


def _nodeorder(use: Use, outcome: Outcome) -> None:
    if not use.is_on("enableNodeOrder"):
        return
    for argument, score, default in NODE_ORDER:
        outcome.add_score(score, use.number(argument, default), f"{use.path}.arguments[{argument}]")
    weights = [use.number(argument, default) for argument, default in NEIGHBOURS]
    for (argument, _), weight in zip(NEIGHBOURS, weights, strict=True):
        if not 0 <= weight <= MAX_WEIGHT:
            path = f"{use.path}.arguments[{argument}]"
            outcome.errors.append(invalid(path, weight, f"must be between 0 and {MAX_WEIGHT}"))
    outcome.numbers["neighbour_weight"] = max(weights)
    if weights[0] != weights[1]:
        text = f"pod affinity and spreading have one weight together; it is {max(weights)}, the larger of the two"
        outcome.warn(f"{use.path}.arguments", text)


def _binpack(use: Use, outcome: Outcome) -> None:
    if not use.is_on("enableNodeOrder"):
        return
    listed = _names(use.arguments.get("binpack.resources", ""))
    weights = {name: use.number(f"binpack.resources.{name}", 1) for name in listed}
    weights |= {name: use.number(f"binpack.{name}", 1) for name in ("cpu", "memory")}
    for argument in use.arguments:
        name = argument.removeprefix("binpack.resources.")
        if name != argument and name not in weights:
            path = f"{use.path}.arguments[{argument}]"
            outcome.warn(path, f'has no effect, because binpack.resources does not list "{name}"')
    resources = {name: weight if weight >= 0 else 1 for name, weight in weights.items()}
    path = f"{use.path}.arguments[binpack.weight]"
    outcome.add_score("binpack", use.number("binpack.weight", 1), path, {"resources": resources})


class _Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weight: int = 1


class _Scarce(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    enable: bool = False
    resources: str = ""
    weight: int = 0
    resource_weight: dict[str, int] = {}


def _resource_strategy_fit(use: Use, outcome: Outcome) -> None:
    if not use.is_on("enableNodeOrder"):
        return
    path = f"{use.path}.arguments"
    weight = use.number("resourceStrategyFitWeight", 10)
    try:
        strategies = read(use.arguments.get("resources") or {}, dict[str, _Strategy], f"{path}.resources")
        scarce = read(use.arguments.get("sra") or {}, _Scarce, f"{path}.sra")
    except ConfigurationError as error:
        outcome.errors += error.errors
        return
    resources: dict[str, Any] = {}
    for name, it in strategies.items():
        if "*" in name and (name.count("*") > 1 or not name.endswith("*") or name == "*"):
            outcome.warn(
                f"{path}.resources[{name}]", 'is passed over: only one "*" at the end of a beginning is allowed'
            )
        else:
            resources[name] = {"type": it.type, "weight": max(1, it.weight)}
    arguments = {"resources": resources} if strategies else {}
    outcome.add_score("resourcestrategy", weight if weight >= 0 else 10, f"{path}.resourceStrategyFitWeight", arguments)
    if scarce.enable:
        weights = {name: max(-1, scarce.resource_weight.get(name, 1)) for name in _names(scarce.resources)}
        arguments = {"resources": {name: it if it >= 0 else 1 for name, it in weights.items()}}
        if scarce.weight <= 0:
            outcome.warn(f"{path}.sra.weight", "is not more than 0, so sra has no effect")
        outcome.add_score("scarce", max(0, scarce.weight), f"{path}.sra.weight", arguments)


def _network_topology(use: Use, outcome: Outcome) -> None:
    set_domains(outcome, use.arguments.get("hypernode.gradient.evict.max-hypernodes"))


def _nodegroup(use: Use, outcome: Outcome) -> None:
    is_strict = use.arguments.get("strict", True)
    outcome.numbers["node_groups"] = NodeGroupUse.STRICT if is_strict else NodeGroupUse.APART
    if use.arguments.get("enablePreferredOrder", False):
        outcome.numbers["orders_node_groups"] = True
    if use.is_on("enableNodeOrder"):
        outcome.prefers_groups = True


def _sla(use: Use, outcome: Outcome) -> None:
    if use.is_on("enableJobOrder"):
        # Deadlines count from the beginning, not only when they come near.
        outcome.orders.append(PluginUse("deadline", {"withinSeconds": MAX_SECONDS}))
    waiting = use.arguments.get("sla-waiting-time")
    seconds = None if waiting is None else seconds_of(waiting)
    if seconds is not None and use.is_on("enableJobPipelined"):
        outcome.numbers["drain_after_seconds"] = min(seconds, MAX_SECONDS)


def set_domains(outcome: Outcome, domains: int | None) -> None:
    """Volcano takes its own default for what is not more than 0; of several numbers the largest counts."""
    if domains is not None and domains > 0:
        known = outcome.numbers.get("max_domains_tried", 0)
        outcome.numbers["max_domains_tried"] = max(known, min(domains, 1_000_000))


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


EFFECTS: Final[Mapping[str, Callable[[Use, Outcome], None]]] = {
    "priority": _priority,
    "drf": _drf,
    "proportion": _shares,
    "capacity": _shares,
    "nodeorder": _nodeorder,
    "binpack": _binpack,
    "resource-strategy-fit": _resource_strategy_fit,
    "network-topology-aware": _network_topology,
    "nodegroup": _nodegroup,
    "sla": _sla,
}
