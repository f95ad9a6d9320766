"""How close to each other pods must be in the network, as Volcano's kinds say it.

Types and documentation only; Jobs, their partitions and PodGroups share it.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from allhands.api.field_types import Count


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
        str, Meta(description="The highest tier that they may span, by its name. Not together with the number.")
    ] = ""
