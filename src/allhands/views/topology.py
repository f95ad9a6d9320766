"""The cluster as a tree of domains (region, zone, rack, as labels of nodes say), and as another by HyperNodes if there
are any: what is free where, what is ill, and who sits where.

It counts what pods request, as schedulers do; nothing is free on a node where nothing can start.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.core.topology.columns import TopologyColumns
from allhands.dialects.hyper_nodes import EVERYTHING, hyper_tree
from allhands.dialects.hyper_nodes import TREE as HYPER_TREE
from allhands.dialects.topology_labels import DEFAULT_LABELS, domains_of
from allhands.model.domain import DomainTree
from allhands.views.groups import groups_of
from allhands.views.nodes import node_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allhands.model.domain import Domain
    from allhands.views.nodes import NodeRow
    from allhands.views.picture import Picture

READY: Final = "Ready"
WHOLE: Final = "cluster"


class RoomRow(msgspec.Struct, frozen=True):
    """One resource, in base units."""

    resource: str
    free: int
    total: int


class Seat(msgspec.Struct, frozen=True):
    """A job, and how many of its pods are there."""

    job: str
    """`namespace/kind/name`."""
    pods: int


class TopologyNode(msgspec.Struct, frozen=True):
    name: str
    state: str
    """`Ready`, or why nothing starts there."""
    room: tuple[RoomRow, ...]
    jobs: tuple[Seat, ...]


class TopologyDomain(msgspec.Struct, frozen=True):
    """`nodes` are those directly in it; the counts are of all that are in it, however deep."""

    name: str
    tier: str
    """What kind of domain: `rack`, `tier 1 (switch)`."""
    label: str
    """The nodes' label that makes it one; "" for HyperNodes."""
    node_count: int
    ready_count: int
    unhealthy: dict[str, str]
    """Nodes where nothing can start now, and why."""
    room: tuple[RoomRow, ...]
    jobs: tuple[Seat, ...]
    domains: tuple[TopologyDomain, ...] = ()
    nodes: tuple[TopologyNode, ...] = ()
    set_aside: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a whole tree: domains and nodes that are in no place of it, and why."""
    trees: tuple[TopologyDomain, ...] = ()
    """Of the whole cluster: the same nodes in other trees of domains."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the top of a tree, and no domain in it."""
        return self.tier == WHOLE


def topology_of(picture: Picture, labels: Sequence[str] = DEFAULT_LABELS) -> TopologyDomain:
    """The whole cluster; `labels` from the closest to the widest. Nodes without any of them are directly in it."""
    rows = {row.name: row for row in node_rows(picture)}
    seats = _seats(picture)
    whole = _Growing(DomainTree.build(domains_of(picture.nodes, tuple(labels))), rows, seats).whole("all")
    if not picture.hyper_nodes:
        return whole
    tree, set_aside = _by_hyper_nodes(picture)
    other = _Growing(tree, rows, seats).whole(HYPER_TREE)
    return msgspec.structs.replace(whole, trees=(msgspec.structs.replace(other, set_aside=set_aside),))


def _by_hyper_nodes(picture: Picture) -> tuple[DomainTree, dict[str, str]]:
    """As the scheduler sees them: what makes no sense is set aside, with the reason."""
    found = hyper_tree(picture.hyper_nodes, picture.nodes)
    names = tuple(sorted(it.name for it in picture.nodes))
    columns = TopologyColumns.build(found.domains, names)
    homes: dict[int, list[str]] = defaultdict(list)
    for row, home in enumerate(columns.home[0].tolist() if len(columns) else []):
        homes[home].append(names[row])
    domains = [
        msgspec.structs.replace(it, nodes=tuple(homes[number]), parent=None if it.parent == EVERYTHING else it.parent)
        for number, it in enumerate(columns.domains)
        if it.name != EVERYTHING
    ]
    broken = {**found.problems, **{name: str(why) for name, why in columns.set_aside.items()}}
    broken |= {name: str(why) for name, why in columns.nodes_set_aside.items()}
    return DomainTree.build(domains), dict(sorted(broken.items()))


def find_domain(whole: TopologyDomain, name: str) -> TopologyDomain | None:
    """By its name, or by the last part of it if only one is called so. The name of a tree is that of all of it."""
    found = [it for it in (*whole.trees, *all_domains(whole)) if it.name == name]
    found = found or [it for it in all_domains(whole) if it.name.rpartition("/")[2] == name]
    return found[0] if len(found) == 1 else None


def all_domains(whole: TopologyDomain) -> Iterable[TopologyDomain]:
    """Wider before closer, without the whole itself; then those of the other trees."""
    for domain in whole.domains:
        yield domain
        yield from all_domains(domain)
    for tree in whole.trees:
        yield from all_domains(tree)


class _Growing:
    def __init__(self, tree: DomainTree, rows: Mapping[str, NodeRow], seats: Mapping[str, Mapping[str, int]]) -> None:
        self._tree = tree
        self._rows = rows
        self._seats = seats

    def whole(self, name: str) -> TopologyDomain:
        outside = [name for name in self._rows if name not in self._tree.home_by_node]
        domains = tuple(self._domain(self._tree.domains[name]) for name in sorted(self._tree.roots))
        return self._counted(name, WHOLE, "", list(self._rows), domains, outside)

    def _domain(self, domain: Domain) -> TopologyDomain:
        below = tuple(self._domain(self._tree.domains[name]) for name in sorted(self._tree.children[domain.name]))
        inside = self._tree.nodes_under(domain.name)
        if domain.tree == HYPER_TREE:
            tier, label = f"tier {domain.tier}" + (f" ({domain.tier_name})" if domain.tier_name else ""), ""
        else:
            tier, label = domain.tier_name.rpartition("/")[2], domain.tier_name
        return self._counted(domain.name, tier, label, inside, below, domain.nodes)

    def _counted(
        self,
        name: str,
        tier: str,
        label: str,
        inside: Sequence[str],
        domains: tuple[TopologyDomain, ...],
        nodes: Iterable[str],
    ) -> TopologyDomain:
        states = {it: self._rows[it].state for it in sorted(inside)}
        ill = {it: state for it, state in states.items() if state != READY}
        return TopologyDomain(
            name,
            tier,
            label,
            len(inside),
            len(inside) - len(ill),
            ill,
            self._room(inside),
            self._jobs(inside),
            domains,
            tuple(self._node(self._rows[it]) for it in sorted(nodes)),
        )

    def _node(self, row: NodeRow) -> TopologyNode:
        return TopologyNode(row.name, row.state, self._room([row.name]), self._jobs([row.name]))

    def _room(self, nodes: Iterable[str]) -> tuple[RoomRow, ...]:
        free: dict[str, int] = {}
        total: dict[str, int] = {}
        for row in map(self._rows.__getitem__, nodes):
            for use in row.uses:
                left = max(0, use.allocatable - use.used) if row.state == READY else 0
                free[use.resource] = free.get(use.resource, 0) + left
                total[use.resource] = total.get(use.resource, 0) + use.allocatable
        return tuple(RoomRow(name, free[name], total[name]) for name in sorted(total))

    def _jobs(self, nodes: Iterable[str]) -> tuple[Seat, ...]:
        """Those with the most pods there first."""
        counts: dict[str, int] = defaultdict(int)
        for node in nodes:
            for job, pods in self._seats.get(node, {}).items():
                counts[job] += pods
        return tuple(Seat(job, pods) for job, pods in sorted(counts.items(), key=lambda it: (-it[1], it[0])))


def _seats(picture: Picture) -> dict[str, dict[str, int]]:
    """By node and job, how many pods hold something there."""
    seats: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for group in groups_of(picture, bare_pods=True):
        for seen in group.pods:
            if seen.record.pod.holds_resources:
                seats[seen.record.pod.node_name][f"{group.namespace}/{group.label}"] += 1
    return seats
