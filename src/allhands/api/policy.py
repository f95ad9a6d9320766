"""The kind SchedulingPolicy: how a cluster wants to be scheduled, as people write it and as dialects translate to it.

It names plugins and says numbers; it holds no code and decides nothing. What is not said keeps its default; an empty
list is something said: none. `core.configuration` makes a `Policy` of it.
"""

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from allhands.model.node_groups import NodeGroupUse

API_VERSION: Final = "allhands.dev/v1alpha1"
KIND: Final = "SchedulingPolicy"

MAX_WEIGHT: Final = 1_000_000
"""Of all scores together: so much fits beside the number of a node in 64 bits."""
MAX_SECONDS: Final = 10 * 365 * 24 * 3600
MAX_BYTES: Final = 1 << 40

Name = Annotated[str, Meta(min_length=1)]
Weight = Annotated[int, Meta(ge=0, le=MAX_WEIGHT)]
Seconds = Annotated[int, Meta(ge=0, le=MAX_SECONDS)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class Backfill(enum.StrEnum):
    """Who may pass the first group that cannot start."""

    OFF = "everyone"
    """Everybody who fits. (Not written "off", which YAML reads as false.)"""
    EASY = "easy"
    """Those who do not delay the first one."""
    CONSERVATIVE = "conservative"
    """Those who delay nobody before them."""


class QueueChoice(enum.StrEnum):
    """Which queue goes next, among those of equal priority."""

    DRF = "drf"
    """The one with the smallest dominant share."""
    HIERARCHICAL_DRF = "hdrf"
    """The same, siblings with siblings, from the top of the tree down."""
    PROPORTION = "proportion"
    """The one that uses the smallest part of what it deserves."""
    FAIR = "fair"
    """The one that borrows the smallest part of what is lent, siblings with siblings."""
    PRIORITY = "priority"
    """By name."""


class PluginUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A plugin by its registered name, with its arguments (docs/plugins.md)."""

    name: Name
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ScoreUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The same with how much it counts beside the other scores. A weight of 0 leaves it out."""

    name: Name
    weight: Weight = 1
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)


class SchedulingPolicy(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, rename="camel"
):
    """Every field but the first two may be left out; then the default holds (docs/policy.md)."""

    api_version: Literal["allhands.dev/v1alpha1"]
    kind: Literal["SchedulingPolicy"]
    scores: tuple[ScoreUse, ...] | None = None
    """How good a node is; the weighted sum decides."""
    filters: tuple[PluginUse, ...] | None = None
    """Which nodes may be used at all, beyond what Kubernetes itself asks."""
    orders: tuple[PluginUse, ...] | None = None
    """Who goes first in a queue: the first criterion that tells two groups apart decides."""
    gates: tuple[PluginUse, ...] | None = None
    """Who may start at all now; every one must agree."""
    guards: tuple[PluginUse, ...] | None = None
    """Whose pods may be evicted for others; every one must agree."""
    neighbour_weight: Weight | None = None
    """How much preferred inter-pod affinity and soft spreading together count beside the scores."""
    queue_choice: QueueChoice | None = None
    node_groups: NodeGroupUse | None = None
    """What queues may use that name no node groups."""
    orders_node_groups: bool | None = None
    """Whether of the node groups that a queue prefers those that it names earlier count more."""
    backfill: Backfill | None = None
    preempts: bool | None = None
    """Whether groups may evict others of their own queue that have a lower priority."""
    reclaims: bool | None = None
    """Whether queues may take back what others use beyond what they deserve."""
    explains: bool | None = None
    """Whether waiting groups are told why they wait, and until when. Decides nothing."""
    start_timeout_seconds: Seconds | None = None
    """How long members that are bound may take to start, where the group does not say."""
    retry_base_seconds: Seconds | None = None
    """The pause after the first failed start; it doubles with each further one."""
    retry_max_seconds: Seconds | None = None
    drain_after_seconds: Seconds | None = None
    """After so long a wait the best domain is drained for a group even if no end of what runs there is known."""
    half_life_seconds: Seconds | None = None
    """After so long past use counts half."""
    max_domains_tried: Count | None = None
    max_reservations: Count | None = None
    """Of how many waiting groups the start is worked out exactly in one cycle."""
    max_victim_searches: Count | None = None
    shape_memory_bytes: Annotated[int, Meta(ge=1 << 20, le=MAX_BYTES)] | None = None
    """How much may be remembered about shapes of pods."""

    def __post_init__(self) -> None:
        for what in ("scores", "filters", "orders", "gates", "guards"):
            names = [use.name for use in getattr(self, what) or ()]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{what}: {', '.join(twice)} is listed twice")
        total = sum(use.weight for use in self.scores or ()) + (self.neighbour_weight or 0)
        if total > MAX_WEIGHT:
            raise ValueError(f"the weights add up to {total}; at most {MAX_WEIGHT} is allowed")
        base, most = self.retry_base_seconds, self.retry_max_seconds
        if base is not None and most is not None and base > most:
            raise ValueError(f"retryBaseSeconds ({base}) must not exceed retryMaxSeconds ({most})")


DEFAULTS: Final = SchedulingPolicy(api_version=API_VERSION, kind=KIND)
"""Nothing said."""
