"""What nodes and pods use, for people: the port behind `kubectl top`, and one that asks the agents of all nodes.

Measuring happens when somebody asks and only then: an agent that nobody asks does nothing for it. What does not run
uses nothing and is not in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime


class InUse(msgspec.Struct, frozen=True, gc=False):
    """An amount in use."""

    cpu_nanos: int = 0
    """Billionths of a processor."""
    memory_bytes: int = 0

    def __add__(self, other: InUse) -> InUse:
        return InUse(self.cpu_nanos + other.cpu_nanos, self.memory_bytes + other.memory_bytes)

    def at_least(self, other: InUse) -> InUse:
        return InUse(max(self.cpu_nanos, other.cpu_nanos), max(self.memory_bytes, other.memory_bytes))


NOTHING = InUse()


def total(usages: Iterable[InUse]) -> InUse:
    return sum(usages, NOTHING)


class NodeUsage(msgspec.Struct, frozen=True):
    usage: InUse
    measured_at: datetime
    window_seconds: float = 0.0
    """Over how long, up to then; 0 is the moment itself."""


class PodUsage(msgspec.Struct, frozen=True):
    containers: Mapping[str, InUse]
    """Of those that run, by name; at least one."""
    measured_at: datetime
    window_seconds: float = 0.0


class Usages(Protocol):
    """Who can say what is used."""

    async def of_nodes(self, names: Sequence[str]) -> Mapping[str, NodeUsage]:
        """Of those of these nodes that it serves."""

    async def of_pods(self, keys: Sequence[str]) -> Mapping[str, PodUsage]:
        """Of those of these pods (`namespace/name`) that run on nodes that it serves."""


class UsagesOfAgents:
    """Asks every agent; each answers for its own nodes. Agents come and go, so the list is that of the moment."""

    def __init__(self, agents: Mapping[str, Usages]) -> None:
        self._agents = agents

    async def of_nodes(self, names: Sequence[str]) -> Mapping[str, NodeUsage]:
        found: dict[str, NodeUsage] = {}
        for agent in list(self._agents.values()):
            found |= await agent.of_nodes(names)
        return found

    async def of_pods(self, keys: Sequence[str]) -> Mapping[str, PodUsage]:
        found: dict[str, PodUsage] = {}
        for agent in list(self._agents.values()):
            found |= await agent.of_pods(keys)
        return found
