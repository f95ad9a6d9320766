"""The only room that knows everyone: it puts the parts together and hands out something that runs.

`embedded` is a whole cluster in this process, with its HTTP face on loopback; `simulated` is the same on virtual time.
Ports are filled here and nowhere else.
"""

from allhands.compose.embedded import EmbeddedCluster, embedded
from allhands.compose.machine import RandomIds, SystemClock, spare_the_collector
from allhands.compose.nodes import NodeSize, add_node, node_manifests

__all__ = [
    "EmbeddedCluster",
    "NodeSize",
    "RandomIds",
    "SystemClock",
    "add_node",
    "embedded",
    "node_manifests",
    "spare_the_collector",
]
