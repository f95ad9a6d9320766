"""From stored objects to what a DaemonSet looks at: a node's labels and taints, and the node that a pod is for."""

from typing import Final

import msgspec

from allhands.lifecycle.daemon_set.kinds import DaemonNode
from allhands.model.affinity import NAME_FIELD
from allhands.model.affinity_document import AffinityDocument, node_affinity_of
from allhands.model.node import Taint


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str] | None = None


class _NodeSpec(msgspec.Struct, frozen=True):
    taints: tuple[Taint, ...] | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _NodeSpec = _NodeSpec()


class _PodSpec(msgspec.Struct, frozen=True):
    affinity: AffinityDocument | None = None


class _Pod(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


_nodes: Final = msgspec.json.Decoder(_Node)
_pods: Final = msgspec.json.Decoder(_Pod)


def read_node(raw: bytes) -> DaemonNode:
    node = _nodes.decode(raw)
    return DaemonNode(node.metadata.name, node.metadata.labels or {}, node.spec.taints or ())


def target_of(raw: bytes) -> str:
    """Which node a pod that is not bound yet was made for; "" if it does not say, or not clearly."""
    for term in node_affinity_of(_pods.decode(raw).spec.affinity).required or ():
        for field in term.match_fields:
            if field.key == NAME_FIELD and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else ""
    return ""
