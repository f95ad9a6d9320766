"""How a client of an API server behaves: how patient it is, how much it takes, how many requests it has under way."""

from __future__ import annotations

from typing import Final

import msgspec

from allhands.api.kinds import Resource  # noqa: TC001 (msgspec reads the annotation)
from allhands.kube.flight import MAX_IN_FLIGHT
from allhands.kube.retrying import Patience


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is taken from a server. What is larger is refused before it fills the memory."""

    answer_bytes: int = 1024 * 1024 * 1024
    """A list without pages of a very large cluster."""
    refusal_bytes: int = 1024 * 1024
    event_bytes: int = 32 * 1024 * 1024
    """One event of a watch. An API server keeps objects of at most 1.5 MiB, as its store has them."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a client behaves; the defaults suit all parts of the system."""

    component: str = "client"
    """Who asks, as the server's logs show it."""
    patience: Patience = Patience()
    limits: Limits = Limits()
    in_flight: int = MAX_IN_FLIGHT
    packed: frozenset[Resource] = frozenset()
    """Kinds whose lists and watches are asked for in protobuf: a third of JSON's bytes, and a fraction of its cost for
    the server. They come without `managedFields`."""


DEFAULTS: Final = Settings()
