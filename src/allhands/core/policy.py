"""How a cluster wants to be scheduled: the plugins with their weights and the switches of the cycle, as one value.

It is built by whoever composes the system, from a configuration (`core.configuration`). Nothing in it changes while it
is used; a new configuration is a new Policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.policy import DEFAULTS, Backfill, QueueChoice, SchedulingPolicy
from allhands.core.guards import DEFAULT_GUARDS
from allhands.core.orders import Creation, Deadline, Priority
from allhands.core.scores.allocated import BinPack
from allhands.core.scores.balanced import Balanced
from allhands.core.scores.image_locality import ImageLocality
from allhands.core.scores.node_affinity import NodeAffinity
from allhands.core.scores.scarce import Scarce
from allhands.core.scores.taints import Taints
from allhands.model.node_groups import NodeGroupUse

if TYPE_CHECKING:
    from allhands.core.extension import GroupOrder, Score, StartGate, StartLimit, StaticFilter, StaticScore, VictimGuard

__all__ = ["DEFAULT", "Backfill", "Policy", "QueueChoice"]


class Policy(msgspec.Struct, frozen=True, eq=False):
    scores: tuple[tuple[Score, int], ...] = ()
    static_scores: tuple[tuple[StaticScore, int], ...] = ()
    filters: tuple[StaticFilter, ...] = ()
    orders: tuple[GroupOrder, ...] = ()
    gates: tuple[StartGate, ...] = ()
    guards: tuple[VictimGuard, ...] = ()
    neighbour_weight: int = 2
    """Of preferred inter-pod affinity and soft spreading together."""
    queue_choice: QueueChoice = QueueChoice.DRF
    node_groups: NodeGroupUse = NodeGroupUse.FREE
    """Whoever feeds the world completes pods by it; the core itself looks at no queue's nodes."""
    orders_node_groups: bool = False
    backfill: Backfill = Backfill.EASY
    preempts: bool = True
    reclaims: bool = True
    explains: bool = True
    """Whether waiting groups are told why they wait, and until when. Without it a plan has no `waits`; all else is the
    same. For simulations that nobody asks."""
    tells_promises: bool = True
    """Whether a silent plan says what the calendar promises. Without it, promises are worked out only where somebody
    comes who could take them away: for a runtime that explains from time to time and decides in between."""
    start_timeout_seconds: int = 300
    """For members that are bound and never start, where the group does not say."""
    retry_base_seconds: int = 10
    retry_max_seconds: int = 600
    drain_after_seconds: int = 3600
    """After so long a wait the best domain is drained for a group even if no end of what runs there is known."""
    half_life_seconds: int = 7 * 24 * 3600
    max_domains_tried: int = 16
    max_reservations: int = 64
    """Of how many waiting groups the start is worked out exactly; counted work, never time."""
    max_victim_searches: int = 64
    shape_memory_bytes: int = 512 * 1024 * 1024
    limits: tuple[StartLimit, ...] = ()
    configuration: SchedulingPolicy | None = None
    """What it was built from: `core.configuration.build_policy` makes the same policy of it. None if it was not."""

    @property
    def passes_over(self) -> bool:
        """Whether groups need not be asked of which it is plain that they are refused: nothing more comes of it."""
        return not self.explains and not self.limits


DEFAULT: Final = Policy(
    scores=((BinPack(), 2), (Balanced(), 1)),
    static_scores=((NodeAffinity(), 2), (Taints(), 3), (ImageLocality(), 1), (Scarce(), 2)),
    orders=(Priority(), Deadline(), Creation()),
    guards=DEFAULT_GUARDS,
    configuration=DEFAULTS,
)
"""What holds where a configuration says nothing."""
