"""What one cycle learned that the next can use: columns of shapes, masks, and the plan of a world that has not changed.

A memo only saves work: an empty one gives the same plan. It is handed on from cycle to cycle and belongs to the last
one that got it; using an old one again is a mistake, which is noticed only if the nodes differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from allhands.core.calendar.kinds import KindNumbers
from allhands.core.calendar.runs import Runs
from allhands.core.feasibility.static import StaticFeasibility
from allhands.core.roll import Roll
from allhands.core.room import Shares
from allhands.core.shapes import ShapeState, ShapeStates
from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.spread import order_rows
from allhands.model.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from allhands.core.actions.allocate import KeptDemand
    from allhands.core.charges import KeptCharges
    from allhands.core.columns import Column, Mask, NodeColumns
    from allhands.core.extension import KeyedScore
    from allhands.core.facts import Facts
    from allhands.core.feasibility.volumes import VolumeFeasibility
    from allhands.core.plan import Plan
    from allhands.core.policy import Policy
    from allhands.core.room import Room
    from allhands.core.snapshot import Snapshot
    from allhands.core.standstill import Calm, Standstill
    from allhands.core.work import Work
    from allhands.model.reason import Explanation
    from allhands.model.resources import ResourceVector
    from allhands.model.shape import PodShape


MAX_STATIC_PARTS: Final = 1024
MAX_KINDS: Final = 1 << 15
LONGEST_LOG: Final = 4096
FEW: Final = 8
"""Up to so many rows, plain loops are faster than arrays."""


class Memo:
    """Begin with `Memo()`."""

    def __init__(self) -> None:
        self._columns: NodeColumns | None = None
        self._policy: Policy | None = None
        self._facts: Facts | None = None
        self._shapes: ShapeStates | None = None
        self._static: StaticFeasibility | None = None
        self._topology: TopologyColumns | None = None
        self.volumes: VolumeFeasibility | None = None
        """Of the last cycle, which the next takes over from."""
        self._rank_of_row: list[int] = []
        self._log: list[int] = []
        """The rows that changed, or were tried on, in this epoch; positions of shapes point into it."""
        self._epoch = 0
        self._begun_at = 0
        self._shares: Shares | None = None
        self._static_parts: dict[Hashable, tuple[Mask, Column | int]] = {}
        self.roll: Roll
        """From the first cycle on."""
        self.kinds = KindNumbers()
        self.runs = Runs()
        self.demands: dict[int, KeptDemand] = {}
        """By kind, as long as the kinds and the charges are kept."""
        self._total: tuple[Column, ResourceVector] | None = None
        self._queues: tuple[Facts, Mapping[str, Queue]] | None = None
        self._draining: tuple[Facts, Mapping[str, Explanation]] | None = None
        self._seen_version = -1
        self.static_version = 0
        """Rises when anything of nodes changes but their pods."""
        self._last_plan: Plan | None = None
        self._last_time = self._last_rng = 0
        self._wakes_at: int | None = None
        """`_last_plan` is the plan of any later time before this one, as long as nothing changes."""
        self.standstill: Standstill | None = None
        self.calm: Calm | None = None
        self._charges: KeptCharges | None = None
        self._book_facts: Facts | None = None
        self._book_allocatable: Column | None = None

    def begin(self, snapshot: Snapshot, policy: Policy, room: Room) -> None:
        """Takes over what still holds for this snapshot; the rows that do not are noted in the room's log."""
        columns = snapshot.columns
        known = self._columns
        same_rows = known is not None and known.names is columns.names and known.layout == columns.layout
        if not same_rows or policy is not self._policy or snapshot.version < self._seen_version:
            self._forget(columns, policy)
        else:
            assert known is not None
            assert self._static is not None
            seen = self._seen_version
            changed = rows_after(columns.generation, seen)
            if changed and (moved := rows_after(columns.static_generation, seen)):
                self._static.update(columns, np.array(moved, dtype=np.int64))
                self.static_version += 1
                self._static_parts.clear()
            self._follow_log(room, changed)
        if self._topology is None or snapshot.facts is not self._facts or not same_rows:
            self._topology = None
        self.roll.follow(snapshot)
        self.runs.note(self.roll)
        if len(self.kinds.by_signature) > MAX_KINDS:
            self.kinds, self.demands = KindNumbers(), {}
            if policy.passes_over:
                self.roll.renumber(self.kinds)
        self._columns, self._policy, self._facts = columns, policy, snapshot.facts
        self._seen_version = snapshot.version

    def _follow_log(self, room: Room, changed: list[int]) -> None:
        """What the last cycle tried has not happened, so all of that counts as changed too."""
        again = sorted({*self._log[self._begun_at :], *changed})
        if len(self._log) > LONGEST_LOG + 2 * len(room.columns):
            self._log = []
            self._epoch += 1
        room.log = self._log
        room.log.extend(again)
        self._begun_at = len(room.log)

    def shares_for(self, snapshot: Snapshot) -> Shares:
        """Of the nodes' allocatable; it is replaced, never written, so its identity tells whether it is the same."""
        allocatable = snapshot.columns.allocatable
        if self._shares is None or self._shares.allocatable is not allocatable:
            self._shares = Shares(allocatable)
        return self._shares

    def total_of(self, snapshot: Snapshot) -> ResourceVector:
        """What all nodes have together."""
        if self._total is None or self._total[0] is not snapshot.columns.allocatable:
            self._total = (snapshot.columns.allocatable, snapshot.columns.total())
        return self._total[1]

    def queues_of(self, snapshot: Snapshot) -> Mapping[str, Queue]:
        """By name."""
        facts = snapshot.facts
        if self._queues is None or self._queues[0] is not facts:
            self._queues = (facts, {it.name: it for it in facts.accounts if isinstance(it, Queue)})
        return self._queues[1]

    def draining_of(
        self, snapshot: Snapshot, make: Callable[[Facts], Mapping[str, Explanation]]
    ) -> Mapping[str, Explanation]:
        """Accounts from which running groups are asked to leave, as it was made for the same accounts before."""
        if self._draining is None or self._draining[0] is not snapshot.facts:
            self._draining = (snapshot.facts, make(snapshot.facts))
        return self._draining[1]

    def end(self, work: Work, plan: Plan, rng: int) -> None:
        """The cycle is over, and nothing that it tried has happened yet."""
        self._log = work.room.log
        self._last_plan, self._last_time, self._last_rng, self._wakes_at = plan, work.now, rng, work.wakes_at

    def plan_for(self, snapshot: Snapshot, policy: Policy, now: int, rng: int) -> Plan | None:
        """The plan of the last cycle, if it would be made again."""
        same = snapshot.columns is self._columns and snapshot.version == self._seen_version
        if not same or policy is not self._policy or snapshot.facts is not self._facts or rng != self._last_rng:
            return None
        if now < self._last_time or (self._wakes_at is not None and now >= self._wakes_at):
            return None
        return self._last_plan

    @property
    def wakes_at(self) -> int | None:
        """When the last plan may be wrong even if nothing has changed; None if time alone does not matter."""
        return self._wakes_at

    def charges_for(self, snapshot: Snapshot) -> KeptCharges | None:
        """What is charged, if it is about the same accounts and the same nodes."""
        # Both are replaced, never written, so that their identity tells whether they are the same.
        same = snapshot.facts is self._book_facts and snapshot.columns.allocatable is self._book_allocatable
        return self._charges if same else None

    def keep_charges(self, snapshot: Snapshot, charges: KeptCharges) -> None:
        self._charges, self._book_facts = charges, snapshot.facts
        self.demands = {}
        self._book_allocatable = snapshot.columns.allocatable

    @property
    def _states(self) -> ShapeStates:
        assert self._shapes is not None
        return self._shapes

    def topology(self, snapshot: Snapshot) -> TopologyColumns:
        if self._topology is None:
            self._topology = TopologyColumns.build(snapshot.facts.domains, snapshot.columns.names)
            self._rank_of_row = []
        return self._topology

    def rank_of_row(self, topology: TopologyColumns) -> list[int]:
        """Where each node stands when neighbours in the network stand beside each other."""
        if not self._rank_of_row:
            rows = np.arange(len(topology.home[0]))
            ordered = order_rows(topology, rows, rows).rows
            ranks = np.empty_like(ordered)
            ranks[ordered] = rows
            self._rank_of_row = ranks.tolist()
        return self._rank_of_row

    @property
    def static(self) -> StaticFeasibility:
        assert self._static is not None
        return self._static

    def state(self, shape: PodShape, room: Room) -> ShapeState:
        """The columns of a shape, made if they are not known."""
        found = self._states.get(shape.digest)
        if found is None:
            assert self._policy is not None
            found = ShapeState(shape, room.columns.request(shape.requests), room, self._policy)
            self._set_static(found, room.columns)
            self._states.add(found)
        elif found.static_version != self.static_version:
            self._set_static(found, room.columns)
        found.begin(self._epoch)
        return found

    def _set_static(self, state: ShapeState, columns: NodeColumns) -> None:
        assert self._policy is not None
        key = self._looks_at(state.shape)
        found = None if key is None else self._static_parts.get(key)
        if found is None:
            found = self._static_part(state.shape, columns)
            if key is not None:
                if len(self._static_parts) >= MAX_STATIC_PARTS:
                    self._static_parts.clear()
                self._static_parts[key] = found
        state.set_static(*found)
        state.static_version = self.static_version

    def _static_part(self, shape: PodShape, columns: NodeColumns) -> tuple[Mask, Column | int]:
        """Where it may go, and how good that is, by what nodes are. Shared by shapes, so never written to."""
        assert self._policy is not None
        mask = self.static.mask(shape)
        for plugin in self._policy.filters:
            mask = mask & plugin.mask(shape, columns)
        score = None
        for static_score, weight in self._policy.static_scores:
            part = static_score.static_score(shape, columns) * weight
            score = part if score is None else score + part
        if score is None or not score.size:
            return mask, 0
        # Most often all nodes are equally good by what they are.
        first = score.item(0)
        return mask, first if (score == first).all() else score

    def _looks_at(self, shape: PodShape) -> Hashable:
        """All of a shape that decides about its static part; None if nobody can say."""
        assert self._policy is not None
        if self._policy.filters or not all(hasattr(plugin, "looks_at") for plugin, _ in self._policy.static_scores):
            return None
        return (
            shape.node_selector,
            shape.node_affinity.required,
            shape.tolerations,
            shape.node_name,
            shape.resource_claims,
            *(cast("KeyedScore", plugin).looks_at(shape) for plugin, _ in self._policy.static_scores),
        )

    def _forget(self, columns: NodeColumns, policy: Policy) -> None:
        self._shapes = ShapeStates(policy.shape_memory_bytes)
        self._static = StaticFeasibility(columns)
        self.roll = Roll(policy)
        if policy.passes_over:
            self.roll.renumber(self.kinds)
        self._log = []
        self._begun_at = 0
        self._epoch += 1
        self._static_parts.clear()
        self._last_plan = None
        self.standstill = self.calm = None
        self._charges = None
        self.demands = {}
        self.runs = Runs()


def rows_after(generation: Column, version: int) -> list[int]:
    """The rows that changed after that."""
    if len(generation) == 1:
        return [0] if generation.item(0) > version else []
    if len(generation) <= FEW:
        return [row for row, changed_at in enumerate(generation.tolist()) if changed_at > version]
    rows: list[int] = (generation > version).nonzero()[0].tolist()
    return rows
