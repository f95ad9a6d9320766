"""How close to each other pods must be in the network, as Volcano's kinds say it.

Types and documentation only; Jobs, their partitions and PodGroups share it.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.field_types import Count
from allhands.api.schema.of_structs import RULES

TWO_TIERS: Final = "the highest tier is said by highestTierAllowed or by highestTierName, not by both"
NO_TIER: Final = (
    "with mode hard, highestTierAllowed or highestTierName must say how far apart pods may be; without either there is "
    "no limit to keep (use mode soft for as close as possible)"
)


class NetworkTopologyMode(enum.StrEnum):
    """Whether the limit must be kept, or should be."""

    HARD = "hard"
    SOFT = "soft"


class NetworkTopology(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How far apart pods may be: all of them below one HyperNode of a tier."""

    mode: Annotated[
        NetworkTopologyMode,
        Meta(description="hard: rather wait than be further apart; soft: as close as there is room."),
    ] = NetworkTopologyMode.HARD
    highest_tier_allowed: Annotated[
        Count | None, Meta(description="The highest tier that they may span, as a number; lower is closer.")
    ] = None
    highest_tier_name: Annotated[
        str,
        Meta(max_length=253, description="The highest tier that they may span, by its name. Not with the number."),
    ] = ""


TopologyLimit = Annotated[
    NetworkTopology,
    Meta(
        extra_json_schema={
            RULES: [
                {
                    "rule": "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''",
                    "message": TWO_TIERS,
                },
                {
                    "rule": "self.mode != 'hard' || has(self.highestTierAllowed) || "
                    "(has(self.highestTierName) && self.highestTierName != '')",
                    "message": NO_TIER,
                    "fieldPath": ".highestTierAllowed",
                },
            ]
        }
    ),
]
"""As a field of a kind: with the rules that a server checks by itself."""
