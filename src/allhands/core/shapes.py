"""What is known of one shape of pods over all nodes: where it may go, how good each node is, where the next k would go.

Everything is a column, refreshed only for the rows that the room's log names since the last look. The k best places
for k equal pods are found in one pass and are the same as placing one by one (`greedy`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.greedy import greedy_picks
from allhands.core.view import NodeView
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from allhands.core.columns import Column, Mask, Request, Rows
    from allhands.core.policy import Policy
    from allhands.core.room import Room
    from allhands.model.shape import PodShape

ROW_BITS: Final = 20
"""A sort key is a score and, below it, the row: so many bits, for at most a million nodes."""
MAX_NODES: Final = 1 << ROW_BITS
INFEASIBLE: Final = -1
UNLIMITED: Final = 1 << 30
MAX_PREFETCH: Final = 4096
ALL: Final = slice(None)


class ShapeState:
    """The columns of one shape. Belongs to one memo; knows nothing of groups and queues."""

    def __init__(self, shape: PodShape, request: Request | None, room: Room, policy: Policy) -> None:
        self.shape = shape
        self.request: Request = request or ((room.columns.column_by_resource[PODS], 1),)
        self.exists_nowhere = request is None
        """It asks for a resource that no node has."""
        self.is_dynamic = False
        """Where it may go depends on where other pods are, beyond resources: placed one at a time."""
        self.is_noticed = False
        """Where others may go depends on where such pods are."""
        self.position = -1
        self.static_version = -1
        self.static: Mask = np.zeros(0, dtype=np.bool_)
        self.key: Column = np.zeros(0, dtype=np.int64)
        self._static_score: Column | int = 0
        self._tie: Column = np.arange(len(room.columns) - 1, -1, -1, dtype=np.int64)
        self._fit: Column | None = None
        self._sequence: list[int] = []
        self._cursor = 0
        self._expected_log = -1
        self._prefetch = 0
        self._policy = policy

    def set_static(self, mask: Mask, static_score: Column | int) -> None:
        """What the node's labels, taints and the like say; makes all else stale."""
        self.static = np.zeros_like(mask) if self.exists_nowhere else mask
        self._static_score = static_score
        self.key = np.full(len(mask), INFEASIBLE, dtype=np.int64)
        self._fit = None
        self.position = -1

    def begin(self) -> None:
        """A new cycle with a new room: its log names, from the start, all rows that changed since the last one."""
        self.position = min(self.position, 0)
        self._expected_log = -1

    def refresh(self, room: Room) -> None:
        """Brings the columns up to date with the room."""
        end = len(room.log)
        if self.position == end:
            return
        touched = set(room.log[self.position :]) if self.position >= 0 else ()
        if touched and len(touched) * 2 < len(self.key):
            self._compute(room, np.array(list(touched), dtype=np.int64))
        else:
            self._compute(room, ALL)
        self.position = end

    def fit(self, room: Room) -> Column:
        """How many of these pods fit on each node, by everything that does not depend on other pods."""
        self.refresh(room)
        if self._fit is None:
            self._fit = np.where(self.key >= 0, room.fit(self.request, ALL, UNLIMITED), 0)
        return self._fit

    def picks(self, room: Room, count: int, within: Rows | None = None) -> list[int]:
        """Rows for `count` more pods, best first, fewer if there is not enough room. Nothing is placed.

        The answer may be used as it is, or not at all: whoever places the picks must place all of them, in order.
        """
        if within is not None:
            self.refresh(room)
            return greedy_picks(self, room, count, within)
        if self._expected_log == len(room.log) and self._cursor + count <= len(self._sequence):
            picks = self._sequence[self._cursor : self._cursor + count]
        else:
            picks = self._new_sequence(room, count)
        self._cursor += len(picks)
        self._expected_log = len(room.log) + len(picks)
        return picks

    def refuse_picks(self) -> None:
        """The last picks were not placed: what was to follow them does not hold."""
        self._expected_log = -1

    def keys_after(self, room: Room, rows: Rows, steps: int) -> Column:
        """Sort keys of the 1st to `steps`-th further pod on each of these rows: (rows, steps)."""
        view = NodeView(self.shape, self.request, room, rows, steps)
        score: Column = self._usage_score(view)
        static = self._static_score if isinstance(self._static_score, int) else self._static_score[rows, None]
        keys = score.reshape(len(rows), steps) + static
        return (keys << ROW_BITS) | self._tie[rows, None]

    def _new_sequence(self, room: Room, count: int) -> list[int]:
        used_up = self._expected_log == len(room.log)
        if used_up:
            self._prefetch = min(MAX_PREFETCH, max(64, 2 * self._prefetch, 2 * count))
        elif self._cursor * 2 < len(self._sequence):
            self._prefetch //= 4
        self.refresh(room)
        self._sequence = greedy_picks(self, room, count + self._prefetch, None)
        self._cursor = 0
        return self._sequence[:count]

    def _compute(self, room: Room, rows: Rows | slice) -> None:
        view = NodeView(self.shape, self.request, room, rows)
        allowed = view.fits() & self.static[rows]
        static = self._static_score if isinstance(self._static_score, int) else self._static_score[rows]
        keys = ((self._usage_score(view) + static) << ROW_BITS) | self._tie[rows]
        keys[~allowed] = INFEASIBLE
        self.key[rows] = keys
        if self._fit is not None:
            self._fit[rows] = np.where(allowed, room.fit(self.request, rows, UNLIMITED), 0)

    def _usage_score(self, view: NodeView) -> Column:
        total: Column | None = None
        for plugin, weight in self._policy.scores:
            part = plugin.score(view) * weight if weight != 1 else plugin.score(view)
            total = part if total is None else total + part
        # A node that others have overfilled may score below zero; it must not look infeasible for that.
        return np.zeros(view.size, dtype=np.int64) if total is None else np.maximum(total, 0)


class ShapeStates:
    """The shapes that a memo remembers, least recently used ones dropped beyond a memory bound."""

    def __init__(self, max_bytes: int) -> None:
        self._states: OrderedDict[str, ShapeState] = OrderedDict()
        self._max_bytes = max_bytes

    def get(self, digest: str) -> ShapeState | None:
        state = self._states.get(digest)
        if state is not None:
            self._states.move_to_end(digest)
        return state

    def add(self, state: ShapeState) -> None:
        self._states[state.shape.digest] = state
        per_state = 32 * max(1, len(state.static))
        while len(self._states) > 1 and len(self._states) * per_state > self._max_bytes:
            self._states.popitem(last=False)

    def values(self) -> list[ShapeState]:
        return list(self._states.values())

    def clear(self) -> None:
        self._states.clear()
