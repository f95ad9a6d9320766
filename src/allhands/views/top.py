"""The cluster at a glance: how full it is, node by node and queue by queue, and who fills it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.model.resources import EMPTY, ResourceVector
from allhands.views.groups import groups_of
from allhands.views.nodes import NodeRow, UseRow, cluster_uses, node_rows
from allhands.views.queues import QueueRow, queue_rows
from allhands.views.rows import GroupRow, held_by, row_of

if TYPE_CHECKING:
    from allhands.views.picture import Picture


class HoldingRow(msgspec.Struct, frozen=True):
    """A group and what it holds, in base units."""

    group: GroupRow
    held: dict[str, int]
    share_percent: int
    """Of the cluster, of the resource of which it holds the largest part."""


class Top(msgspec.Struct, frozen=True):
    """`nodes` and `jobs` are the fullest and the largest; the counts are of all."""

    cluster: tuple[UseRow, ...]
    node_count: int
    pod_count: int
    nodes: tuple[NodeRow, ...]
    queues: tuple[QueueRow, ...]
    jobs: tuple[HoldingRow, ...]


def top_of(picture: Picture, most_nodes: int, most_jobs: int) -> Top:
    nodes = node_rows(picture)
    total = EMPTY
    for node in picture.nodes:
        total = total + node.allocatable
    fullest = sorted(nodes, key=lambda it: (-_fullness(it), it.name))[:most_nodes]
    holding = []
    for group in groups_of(picture, bare_pods=True):
        held = held_by(group)
        if any(held[name] for name in held):
            share = held.dominant_share(_only(total, held))
            holding.append((share.share, HoldingRow(row_of(group), dict(held.entries), int(share.share * 100))))
    holding.sort(key=lambda it: (-it[0], it[1].group.namespace, it[1].group.label))
    return Top(
        cluster=cluster_uses(nodes),
        node_count=len(nodes),
        pod_count=sum(row.pods for row in nodes),
        nodes=tuple(fullest),
        queues=tuple(queue_rows(picture)) if picture.queues is not None else (),
        jobs=tuple(row for _, row in holding[:most_jobs]),
    )


def _fullness(row: NodeRow) -> int:
    return max((use.percent for use in row.uses), default=0)


def _only(total: ResourceVector, held: ResourceVector) -> ResourceVector:
    return ResourceVector.of({name: total.get(name) for name in held})
