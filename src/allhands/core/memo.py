"""What one cycle learned that the next can use: columns of shapes, masks, and the plan of a world that has not changed.

A memo only saves work: an empty one gives the same plan. It is handed on from cycle to cycle and belongs to the last
one that got it; using an old one again is a mistake, which is noticed only if the nodes differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.feasibility.static import StaticFeasibility
from allhands.core.shapes import ShapeState, ShapeStates
from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.spread import order_rows

if TYPE_CHECKING:
    from allhands.core.charges import KeptCharges
    from allhands.core.columns import Column, NodeColumns
    from allhands.core.facts import Facts
    from allhands.core.plan import Plan
    from allhands.core.policy import Policy
    from allhands.core.room import Room
    from allhands.core.snapshot import Snapshot
    from allhands.core.work import Work
    from allhands.model.shape import PodShape


class Memo:
    """Begin with `Memo()`."""

    def __init__(self) -> None:
        self._columns: NodeColumns | None = None
        self._policy: Policy | None = None
        self._facts: Facts | None = None
        self._shapes: ShapeStates | None = None
        self._static: StaticFeasibility | None = None
        self._topology: TopologyColumns | None = None
        self._rank_of_row: list[int] = []
        self._touched: list[int] = []
        self._seen_version = -1
        self._static_version = 0
        self._last_plan: Plan | None = None
        self._last_time = self._last_rng = 0
        self._wakes_at: int | None = None
        """`_last_plan` is the plan of any later time before this one, as long as nothing changes."""
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
            changed = np.flatnonzero(columns.generation > self._seen_version)
            moved = changed[columns.static_generation[changed] > self._seen_version]
            if moved.size:
                self._static.update(columns, moved)
                self._static_version += 1
            room.log = sorted({*self._touched, *changed.tolist()})
            for state in self._states.values():
                state.begin()
        if self._topology is None or snapshot.facts is not self._facts or not same_rows:
            self._topology = None
        self._columns, self._policy, self._facts = columns, policy, snapshot.facts
        self._seen_version = snapshot.version

    def end(self, work: Work, plan: Plan, rng: int) -> None:
        """The cycle is over, and nothing that it tried has happened yet."""
        self._touched = work.room.log
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
        elif found.static_version != self._static_version:
            self._set_static(found, room.columns)
        return found

    def _set_static(self, state: ShapeState, columns: NodeColumns) -> None:
        assert self._policy is not None
        mask = self.static.mask(state.shape)
        for plugin in self._policy.filters:
            mask = mask & plugin.mask(state.shape, columns)
        score = None
        for static_score, weight in self._policy.static_scores:
            part = static_score.static_score(state.shape, columns) * weight
            score = part if score is None else score + part
        state.set_static(mask, 0 if score is None else score)
        state.static_version = self._static_version

    def _forget(self, columns: NodeColumns, policy: Policy) -> None:
        self._shapes = ShapeStates(policy.shape_memory_bytes)
        self._static = StaticFeasibility(columns)
        self._touched = []
        self._last_plan = None
        self._charges = None
