"""The cluster that a trace is replayed on: so many processors or GPUs, in one pool or on nodes.

In a pool, a job is one pod that takes its width of the one node there is. On nodes, it is a gang of pods with one
processor or GPU each, which may spread over any of them. Either way a job starts whole or not at all.
"""

from __future__ import annotations

from typing import Final

import msgspec

from allhands.model.node import Node
from allhands.model.resources import CPU, PODS, ResourceVector

GPU: Final = "nvidia.com/gpu"
MOST_UNITS: Final = 1 << 31
MOST_NODES: Final = 100_000
_CPU_MILLIS: Final = 1000


class Machine(msgspec.Struct, frozen=True):
    units: int
    """Processors or GPUs altogether."""
    nodes: int = 1
    resource: str = CPU

    def __post_init__(self) -> None:
        if not 1 <= self.units <= MOST_UNITS:
            raise ValueError(f"a machine has 1 to {MOST_UNITS} processors or GPUs, not {self.units}")
        if not 1 <= self.nodes <= MOST_NODES:
            raise ValueError(f"a machine has 1 to {MOST_NODES} nodes, not {self.nodes}")
        if self.units % self.nodes:
            raise ValueError(f"{self.units} processors or GPUs cannot be spread evenly over {self.nodes} nodes")

    @property
    def is_pool(self) -> bool:
        return self.nodes == 1

    def requests(self, units: int) -> ResourceVector:
        return ResourceVector.of({self.resource: units * _CPU_MILLIS if self.resource == CPU else units})

    def pods_of(self, width: int) -> tuple[int, ResourceVector]:
        """How many pods a job of that width has, and what each asks for."""
        return (1, self.requests(width)) if self.is_pool else (width, self.requests(1))

    def all_nodes(self) -> list[Node]:
        digits = len(str(self.nodes - 1))
        amounts = self.requests(self.units // self.nodes).entries
        allocatable = ResourceVector.of({**dict(amounts), PODS: 1 << 20})
        return [Node(f"node-{number:0{digits}d}", ready=True, allocatable=allocatable) for number in range(self.nodes)]
