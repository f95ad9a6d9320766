"""What can be evicted in one scenario, cut into units: one surplus member each, or a whole gang; and what each costs.

| what is evicted | rank |
|---|---|
| the rest of a gang that is broken already, since some of it is leaving | 0 |
| a member of a gang that stays whole without it | 1 |
| a whole gang | from 2, by the priority of its queue (across queues), then its own priority, lowest first |
| a whole gang with a pod that nobody would make again | after all others |

Units are numbered by importance: rank, then work lost (of each pod the seconds that it has run times its share of the
cluster), then the youngest, then the key. The price of a unit is its number of pods, weighted by rank, and, below
that, the work lost: so lower ranks go first, then fewer pods, then less work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.core.actions.victims import VictimTable
    from allhands.core.columns import Column, Mask

BROKEN: Final = 0
SURPLUS: Final = 1
WHOLE: Final = 2

RANK_FACTOR: Final = 8
MOST_STEPS: Final = 8
LOST_BITS: Final = 12
MOST_PODS_PRICE: Final = 1 << 38


class Candidates(NamedTuple):
    """Groups that may be evicted for somebody, by importance."""

    groups: Column
    rank: Column
    """Of each of them as a whole."""
    is_elastic: Mask
    """Whether it might lose some members and stay whole."""

    @property
    def least_rank(self) -> Column:
        return np.where(self.is_elastic, SURPLUS, self.rank)


def rank_candidates(table: VictimTable, groups: Sequence[int], queue_priority: dict[str, int]) -> Candidates:
    """`queue_priority` counts only between queues; leave it empty within one."""
    numbers = np.array(groups, dtype=np.int64)
    of_queue = np.array([queue_priority.get(table.entries[group].group.queue, 0) for group in groups], dtype=np.int64)
    keys = np.array([table.is_bare[numbers].astype(np.int64), of_queue, table.priority[numbers]])
    _, place = np.unique(keys, axis=1, return_inverse=True)
    rank = np.where(table.is_broken[numbers], BROKEN, place.reshape(-1) + WHOLE)
    # Groups are numbered by their keys.
    order = np.lexsort((numbers, -table.began[numbers], table.lost_of_group[numbers], rank))
    is_elastic = (table.spare_most > table.gone_of_group)[numbers] & ~table.is_broken[numbers]
    return Candidates(numbers[order], rank[order], is_elastic[order])


class Unit(NamedTuple):
    """Pods of one group that go together, by their positions in the table of victims."""

    group: int
    positions: tuple[int, ...]
    rank: int


class Pool:
    """Units by number. What unit u frees on nodes are the entries `first[u] : first[u + 1]`, one for each node."""

    def __init__(self, table: VictimTable, group: Column, rank: Column, spare: dict[int, int], pods: _Pods) -> None:
        """`spare` is surplus unit -> group; the core of a gang is its other unit, if it has one here."""
        self.table = table
        self.group = group
        self.rank = rank
        order = np.lexsort((pods.position, table.node[pods.position], pods.unit))
        self._position = pods.position[order]
        unit, node = pods.unit[order], table.node[self._position]
        self._first_position: Column = np.searchsorted(unit, np.arange(len(group) + 1))
        begins = np.ones(len(node), dtype=np.bool_)
        begins[1:] = (node[1:] != node[:-1]) | (unit[1:] != unit[:-1])
        starts = np.flatnonzero(begins)
        self.unit: Column = unit[starts]
        self.row: Column = node[starts]
        amounts = table.units[:, table.shape[self._position]]
        self.amounts: Column = np.add.reduceat(amounts, starts, axis=1) if len(starts) else amounts
        """(R, entries)"""
        self.first: Column = np.searchsorted(self.unit, np.arange(len(group) + 1))
        core_of_group = (
            {int(group[number]): number for number in np.flatnonzero(rank != SURPLUS).tolist()} if spare else {}
        )
        self.core_of = {unit: core_of_group[of] for unit, of in spare.items() if of in core_of_group}
        """Surplus unit -> the unit that is the rest of its gang, if that may be evicted too."""
        self.surplus_of: dict[int, list[int]] = {}
        for surplus, core in self.core_of.items():
            self.surplus_of.setdefault(core, []).append(surplus)
        self.price: Column = self._prices(unit)

    def __len__(self) -> int:
        return len(self.group)

    def entries(self, unit: int) -> slice:
        return slice(int(self.first[unit]), int(self.first[unit + 1]))

    def positions(self, unit: int) -> list[int]:
        """Its pods, in the table of victims."""
        found: list[int] = self._position[self._first_position[unit] : self._first_position[unit + 1]].tolist()
        return found

    def unit_at(self, number: int) -> Unit:
        return Unit(int(self.group[number]), tuple(self.positions(number)), int(self.rank[number]))

    def can_spare(self, units: Iterable[int]) -> bool:
        """Whether the gangs of these surplus units stay whole without all of them."""
        lost: dict[int, list[int]] = {}
        for unit in units:
            if self.rank[unit] == SURPLUS and unit not in self.core_of:
                lost.setdefault(int(self.group[unit]), []).extend(self.positions(unit))
        return all(len(self.table.spare(group, positions)) == len(positions) for group, positions in lost.items())

    def pod_rows(self, unit: int) -> list[int]:
        """Its pods, in the table of pods."""
        rows: list[int] = self.table.pod[self.positions(unit)].tolist()
        return rows

    def cost(self, chosen: Iterable[int]) -> tuple[int, int]:
        """What is compared between scenarios: the highest rank that is touched, then the sum of prices."""
        units = list(chosen)
        return (int(self.rank[units].max(initial=-1)), sum(self.price[units].tolist()))

    def _prices(self, unit: Column) -> Column:
        pods = np.bincount(unit, minlength=len(self.group))
        for core, surplus in self.surplus_of.items():
            # Who evicts the rest of a gang evicts its surplus too.
            pods[core] += len(surplus)
        lost = np.zeros(len(self.group), dtype=np.int64)
        np.add.at(lost, unit, self.table.lost[self._position])
        # Work lost only decides between equals: it is brought below one pod, whatever its size.
        step = max(1, int(lost.max(initial=0)) >> (LOST_BITS - 1))
        steps = np.clip(self.rank - WHOLE + 1, 0, MOST_STEPS)
        weight = np.where(self.rank == BROKEN, 0, np.int64(RANK_FACTOR) ** steps)
        prices: Column = np.minimum(pods * weight, MOST_PODS_PRICE) << LOST_BITS
        return prices + lost // step + 1


class _Pods(NamedTuple):
    """Which pods belong to which unit."""

    position: Column
    unit: Column


def build_pool(
    table: VictimTable, candidates: Candidates, limit: int, useful: Mask, helps: Mask, *, everywhere: bool
) -> Pool:
    """The units up to a rank. `useful` are the nodes where room is wanted: gangs with no member on any of them are
    left out, unless `everywhere`, and surplus members there go before others; `helps` are the pods each of which
    frees a place all by itself."""
    groups, rank, is_elastic = candidates
    kept = np.ones(len(groups), dtype=np.bool_)
    if not everywhere:
        inside = np.zeros(len(table), dtype=np.bool_)
        inside[table.group[useful[table.node] & ~table.gone]] = True
        kept = inside[groups]
    elastic = groups[kept & is_elastic].tolist() if limit >= SURPLUS else []
    # Where no whole gang may go, any member may be the one that its gang can spare; else it is settled which ones.
    any_member = limit == SURPLUS
    spares = [
        position
        for group in elastic
        for position in _spares(table, group, useful, helps, any_member=any_member)
        if everywhere or useful[table.node[position]]
    ]
    staying = ~table.gone
    staying[spares] = False
    if any_member:
        kept = kept & ~is_elastic
    whole = kept & (rank <= limit) & (np.bincount(table.group[staying], minlength=len(table))[groups] > 0)
    cores, core_ranks = groups[whole], rank[whole]
    broken = int(np.count_nonzero(core_ranks == BROKEN))
    spares.sort(key=lambda at: _importance(table, at))
    number_of_core = np.arange(len(cores)) + np.where(np.arange(len(cores)) < broken, 0, len(spares))
    core_number = np.full(len(table), -1, dtype=np.int64)
    core_number[cores] = number_of_core
    positions = np.flatnonzero(staying & (core_number[table.group] >= 0))
    spare_numbers = np.arange(broken, broken + len(spares))
    spare_at = np.array(spares, dtype=np.int64)
    pods = _Pods(
        np.concatenate((positions, spare_at)), np.concatenate((core_number[table.group[positions]], spare_numbers))
    )
    group_of_unit = np.concatenate((cores[:broken], table.group[spare_at], cores[broken:]))
    ranks = np.concatenate((core_ranks[:broken], np.full(len(spares), SURPLUS, dtype=np.int64), core_ranks[broken:]))
    spare_groups = dict(zip(spare_numbers.tolist(), table.group[spare_at].tolist(), strict=True))
    return Pool(table, group_of_unit, ranks, spare_groups, pods)


def _importance(table: VictimTable, position: int) -> tuple[object, ...]:
    """Of one member that its gang can spare."""
    priority, since = int(table.priority[table.group[position]]), int(table.since[position])
    return (priority, int(table.lost[position]), -since, table.name(position))


def _spares(table: VictimTable, group: int, useful: Mask, helps: Mask, *, any_member: bool) -> list[int]:
    positions = table.positions(group)
    return list(positions) if any_member else table.spare(group, _preferred(table, positions, useful, helps))


def _preferred(table: VictimTable, positions: Sequence[int], useful: Mask, helps: Mask) -> list[int]:
    """Those on nodes where room is wanted, those that help by themselves, many on one node before few, the youngest."""
    node = table.node
    on_node: dict[int, int] = {}
    for position in positions:
        on_node[int(node[position])] = on_node.get(int(node[position]), 0) + 1
    return sorted(
        positions,
        key=lambda at: (
            not useful[node[at]],
            not helps[at],
            -on_node[int(node[at])],
            int(node[at]),
            -int(table.since[at]),
            table.name(at),
        ),
    )
