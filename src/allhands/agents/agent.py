"""What every node agent is to the rest: something that runs until it is cancelled, and leaves nothing behind.

The label below says on the Node object which kind of agent plays its kubelet; a node without it is simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

PODS: Final = Resource("", "v1", "pods")
NODES: Final = Resource("", "v1", "nodes")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases")
LEASE_NAMESPACE: Final = "kube-node-lease"

AGENT_LABEL: Final = "allhands.dev/agent"
SIMULATED: Final = "simulated"
PROCESS: Final = "process"


class NodeAgent(Protocol):
    """The kubelet of one node or of many."""

    async def run(self) -> None:
        """Serves its nodes until cancelled. When it returns, nothing that it started is left."""


def is_simulated(name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node is played by the simulated kubelets, by its label."""
    del name
    return labels.get(AGENT_LABEL, SIMULATED) == SIMULATED
