"""All groups that hold room, with their pods as columns: who could be evicted, what that frees, and what would be lost.

Made once a cycle, when the first group asks for room. It knows nothing of rights, prices or places; it only remembers
which pods were already chosen in this cycle, so that nobody is evicted twice or counted as a victim of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.columns import ABSURD_UNITS
from allhands.core.snapshot import PodFlag
from allhands.model.queue import ANY_FLAVOR
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from allhands.core.columns import Column, Mask, NodeColumns, Request
    from allhands.core.quota.bill import Demand
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.podgroup import Slot
    from allhands.model.shape import PodShape

MOST_LOST: Final = 1 << 42
"""Of one pod, so that sums over a million pods stay exact."""


class VictimTable:
    """Groups by number, pods by position: those of group g are at `first[g] : first[g + 1]`, as in its `bound`."""

    def __init__(self, work: Work, decided: Collection[str] = ()) -> None:
        """`decided` are the keys of groups of which some pods are bound or evicted in this cycle anyhow."""
        snapshot, pods = work.snapshot, work.snapshot.pods
        # A group that is set aside keeps what it has: a slip of the pen must not end running work.
        self.entries = [
            entry
            for entry in snapshot.groups.values()
            if entry.bound and entry.problem is None and entry.key not in decided
        ]
        lengths = [len(entry.bound) for entry in self.entries]
        self.first: Column = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self.pod: Column = np.fromiter((row for entry in self.entries for row in entry.bound), dtype=np.int64)
        self.group: Column = np.repeat(np.arange(len(lengths)), lengths)
        self.node: Column = pods.node[self.pod].astype(np.int64)
        self.shape: Column = pods.shape[self.pod].astype(np.int64)
        self.since: Column = pods.since[self.pod]
        self.gone: Mask = np.zeros(len(self.pod), dtype=np.bool_)
        """Chosen as victims in this cycle."""
        self.priority: Column = np.array([entry.group.priority for entry in self.entries], dtype=np.int64)
        self.is_bare: Mask = self._any((pods.flags[self.pod] & PodFlag.BARE) != 0)
        self.is_broken: Mask = np.array([bool(it.leaving) and not it.is_whole for it in self.entries], dtype=np.bool_)
        """Some of it is leaving and the rest does not suffice: what it did is lost already."""
        self.spare_most: Column = np.array([_spare_most(entry) for entry in self.entries], dtype=np.int64)
        """How many members it can lose at most and still be whole."""
        sizes = np.array([min(max(1, work.size_of(it)), 1 << 20) for it in pods.shapes] or [1], dtype=np.int64)
        run = np.maximum(work.now - self.since, 0).clip(max=MOST_LOST >> 20)
        self.lost: Column = np.minimum(sizes[self.shape].clip(max=1 << 20) * run, MOST_LOST)
        """Of each pod: seconds that it has run, times its largest share of the cluster in millionths."""
        self.by_queue: dict[str, list[int]] = {}
        for number, entry in enumerate(self.entries):
            self.by_queue.setdefault(entry.group.queue, []).append(number)
        self.lowest = {queue: int(self.priority[numbers].min()) for queue, numbers in self.by_queue.items()}
        self._work = work
        self.charged = Charged(work)
        whole_at = np.array([entry.status.started_at_seconds or 0 for entry in self.entries], dtype=np.int64)
        self.began: Column = np.maximum(self._reduced(np.minimum, self.since), whole_at)
        self.lost_of_group: Column = self._reduced(np.add, self.lost)
        """The work that is lost with all that a group still has."""
        self.gone_of_group: Column = np.zeros(len(lengths), dtype=np.int64)
        self.occupied = [occupied(shape, snapshot.columns) for shape in pods.shapes]
        self.units: Column = np.zeros((len(snapshot.columns.resources), max(1, len(pods.shapes))), dtype=np.int64)
        """(R, S): what a pod of each shape takes of its node."""
        for shape, request in enumerate(self.occupied):
            for column, units in request:
                self.units[column, shape] = units

    def _any(self, of_pods: Mask) -> Mask:
        if not len(self.pod):
            return np.zeros(0, dtype=np.bool_)
        found: Mask = np.logical_or.reduceat(of_pods, self.first[:-1])
        return found

    def _reduced(self, how: np.ufunc, of_pods: Column) -> Column:
        """One number a group, of those of its pods."""
        return how.reduceat(of_pods, self.first[:-1]) if len(self.pod) else np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.entries)

    def positions(self, group: int) -> Sequence[int]:
        """Of the pods that it still has."""
        every = range(int(self.first[group]), int(self.first[group + 1]))
        return [at for at in every if not self.gone[at]] if self.gone_of_group[group] else every

    def name(self, position: int) -> tuple[str, str]:
        """Decides between equal pods: their rows depend on the order in which they were seen."""
        row, pods = int(self.pod[position]), self._work.snapshot.pods
        return pods.keys[row], pods.uids[row]

    def take(self, positions: Sequence[int]) -> None:
        """They are victims from here on."""
        at = np.array(positions, dtype=np.int64)
        self.gone[at] = True
        np.add.at(self.gone_of_group, self.group[at], 1)
        np.subtract.at(self.lost_of_group, self.group[at], self.lost[at])

    def spare(self, group: int, preferred: Sequence[int]) -> list[int]:
        """The positions, the preferred first, that the group can lose one after the other and still be whole, and each
        of its sub-groups that is: what starts whole or not at all is not taken apart, even if it need not be there."""
        entry = self.entries[group]
        members, first = entry.group.members, int(self.first[group])
        gone = [int(at) for at in np.flatnonzero(self.gone[first : self.first[group + 1]])]
        if not members.children and not members.task_minimums:
            return list(preferred[: max(0, int(self.spare_most[group]) - len(gone))])
        return self._spare_in_parts(entry, first, gone, preferred)

    def _spare_in_parts(self, entry: GroupEntry, first: int, gone: list[int], preferred: Sequence[int]) -> list[int]:
        counts = entry.present_counts
        slots: dict[str, list[Slot]] = {}
        for slot in counts:
            slots.setdefault(slot.subgroup, []).append(slot)
        # Of a bound pod only the sub-group is known; where that has several tasks, nobody can say which one would lose.
        only = {part: found[0] for part, found in slots.items() if len(found) == 1}
        for at in gone:
            if (part := entry.bound_parts[at]) in only:
                counts[only[part]] -= 1
        members = entry.group.members
        around = {
            part: [it for it in members.walk() if it is not members and any(part == inner.name for inner in it.walk())]
            for part in only
        }
        spare = []
        for position in preferred:
            if (part := entry.bound_parts[position - first]) not in only:
                continue
            whole = [members, *(it for it in around[part] if it.is_whole(counts))]
            counts[only[part]] -= 1
            if all(it.is_whole(counts) for it in whole):
                spare.append(position)
            else:
                counts[only[part]] += 1
        return spare

    def demand(self, positions: Iterable[int]) -> Demand:
        """What these pods are charged for."""
        return self.charged.demand(self.pod[list(positions)].tolist())


class Charged:
    """What bound pods are charged for, as `charges` has it: in the flavor of their node, where flavors count."""

    def __init__(self, work: Work) -> None:
        self._pods = work.snapshot.pods
        facts = work.snapshot.facts
        used = {quota.flavor for account in facts.accounts for quota in account.quotas} - {ANY_FLAVOR}
        flavors = [flavor for flavor in facts.flavors if flavor.name in used]
        self._flavor_of_node: list[str] | None = None
        if flavors:
            nodes = work.snapshot.columns.nodes
            self._flavor_of_node = [
                next((flavor.name for flavor in flavors if flavor.holds(node.labels)), ANY_FLAVOR) for node in nodes
            ]

    def demand(self, rows: Iterable[int]) -> Demand:
        """Of pods by their rows in the table of pods."""
        pods, flavor_of_node = self._pods, self._flavor_of_node
        counts: dict[tuple[str, int], int] = {}
        for row in rows:
            flavor = ANY_FLAVOR if flavor_of_node is None else flavor_of_node[int(pods.node[row])]
            kind = (flavor, int(pods.shape[row]))
            counts[kind] = counts.get(kind, 0) + 1
        units: dict[tuple[str, str], int] = {}
        for (flavor, shape), count in counts.items():
            for name, amount in (*pods.shapes[shape].requests.entries, (PODS, 1)):
                units[flavor, name] = units.get((flavor, name), 0) + amount * count
        return tuple((flavor, name, amount) for (flavor, name), amount in sorted(units.items()))


def _spare_most(entry: GroupEntry) -> int:
    members = entry.group.members
    # Nearly every group: a minimum and nothing else.
    least = members.required_count if members.children or members.task_minimums else members.min_count
    return max(0, sum(count for _, count in entry.present) - least)


def occupied(shape: PodShape, columns: NodeColumns) -> Request:
    """What a bound pod takes of its node, as the world counted it: resources that no node knows are nowhere counted."""
    found = [(columns.column_by_resource[PODS], 1)]
    for name, units in shape.requests.entries:
        column = columns.column_by_resource.get(name)
        if column is not None and units > 0:
            found.append((column, min(units, ABSURD_UNITS)))
    return tuple(sorted(found))
