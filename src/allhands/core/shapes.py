"""What is known of one shape of pods over all nodes: where it may go, how good each node is, where the next k would go.

Everything is a column, refreshed only for the rows that the room's log names since the last look. The k best places
for k equal pods are found in one pass and are the same as placing one by one (`greedy`).
"""

from __future__ import annotations

from collections import OrderedDict
from operator import mul
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from allhands.core.greedy import greedy_picks
from allhands.core.view import Asks, NodeView, StepsView
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

    from allhands.core.columns import Column, Mask, Request, Rows
    from allhands.core.extension import KeyedScore, ScoreOfOne
    from allhands.core.node_classes import NodeClasses
    from allhands.core.policy import Policy
    from allhands.core.room import Room
    from allhands.model.shape import PodShape

ROW_BITS: Final = 20
"""A sort key is a score and, below it, the row: so many bits, for at most a million nodes."""
MAX_NODES: Final = 1 << ROW_BITS
INFEASIBLE: Final = -1
UNLIMITED: Final = 1 << 30
MAX_PREFETCH: Final = 4096
FEW_ROWS: Final = 16
"""Up to so many rows, plain numbers are faster than arrays."""
FEW_STEPS: Final = 8
"""The same for so many pods on one node."""
ALL: Final = slice(None)
_NOT_ASKED: Final = object()


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
        self._is_allowed_everywhere = False
        self.goes_by_classes = False
        """Whether the best node is the best of some class of nodes that are alike."""
        self.key: Column = np.zeros(0, dtype=np.int64)
        self.epoch = -1
        """Positions in the log mean nothing in another epoch."""
        self._static_score: Column | int = 0
        self._tie: Column = room.shares.tie
        self._nowhere: Column = room.shares.nowhere
        self._fit: Column | None = None
        self._best: int | None = None
        """The best of all keys, if that is known."""
        self._sequence: list[int] = []
        self._cursor = 0
        self._expected_log = -1
        self._prefetch = 0
        self._policy = policy
        self.changes_scores = bool(policy.scores)
        """Whether a node may become better or worse by a pod that is put there."""
        self.takes_first = False
        """Whether all nodes are equally good, so that the first with room is the best."""
        self._scores_of_one: list[tuple[Callable[[Sequence[float]], int], int]] | None = None
        self._knows_one: bool | None = None
        self._looked_at: Hashable = _NOT_ASKED
        self._ranked: tuple[NodeClasses, list[tuple[int, int]]] | None = None
        """Classes of nodes with their keys, as they were found."""

    def set_static(self, mask: Mask, static_score: Column | int) -> None:
        """What the node's labels, taints and the like say; makes all else stale."""
        self.static = np.zeros_like(mask) if self.exists_nowhere else mask
        self._is_allowed_everywhere = bool(self.static.all())
        self.goes_by_classes = (
            isinstance(static_score, int) and self._is_allowed_everywhere and self._is_scored_one_by_one()
        )
        self._static_score = static_score
        self.takes_first = not self.changes_scores and isinstance(static_score, int)
        self.key = self._nowhere
        self._fit = None
        self._best = None
        self._ranked = None
        self.position = -1

    def begin(self, epoch: int) -> None:
        """A new cycle with a new room, whose log goes on where the last one's ended, unless there is a new epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.position = -1
        self._expected_log = -1

    def refresh(self, room: Room) -> None:
        """Brings the columns up to date with the room."""
        end = len(room.log)
        if self.position == end or not self.key.size:
            return
        size = len(self.key)
        touched: Collection[int] = room.touched_since(self.position) if self.position >= 0 else range(size)
        if len(touched) * 2 >= size > FEW_ROWS:
            self._compute_all(room)
            self._best = None
            self.position = end
            return
        if self.position < 0:
            self.key = np.full(size, INFEASIBLE, dtype=np.int64)
        if len(touched) <= FEW_ROWS and self._is_scored_one_by_one():
            self._note_best(touched, self._compute_few(room, touched))
        else:
            self._note_best(touched, self._compute_some(room, np.array(list(touched), dtype=np.int64)))
        self.position = end

    def best_row(self, room: Room) -> int:
        """The best node for one more pod, -1 if there is none."""
        if self.position != len(room.log) and (key := self.best_key_by_classes(room)) is not None:
            return self.row_of(key)
        self.refresh(room)
        if self._best is None:
            self._best = int(self.key.max()) if self.key.size else INFEASIBLE
        return self.row_of(self._best)

    def row_of(self, key: int) -> int:
        """No two nodes have the same key, since the row is part of it. -1 if it is no node's."""
        return len(self.key) - 1 - (key & (MAX_NODES - 1)) if key >= 0 else -1

    def best_key_by_classes(self, room: Room, without: Collection[int] = ()) -> int | None:
        """The best key of all nodes but these, found without the columns of the shape, which stay as they are; None
        where that is not possible, or not worth it."""
        if not self.goes_by_classes or (classes := room.classes()) is None:
            return None
        best = self.best_untouched(room, classes, without)
        if len(classes.open) > FEW_ROWS:
            return None
        for row in classes.open:
            if row not in without and (key := self._key_of(room, row, room.free[:, row].tolist())) > best:
                best = key
        return best

    def _rank_classes(self, room: Room, classes: NodeClasses) -> list[tuple[int, int]]:
        """The classes whose nodes have room for one such pod as they were: their keys without the row, best first."""
        # What stands for others is as it was; the others of these are no more than touched nodes by now, or are so too.
        if len(classes.rows) <= FEW_ROWS:
            amounts = room.free.take(classes.rows, axis=1).T.tolist()
            keys = [self._key_of(room, row, free) for row, free in zip(classes.rows.tolist(), amounts, strict=True)]
            ranked = [(key & -MAX_NODES, number) for number, key in enumerate(keys) if key >= 0]
        else:
            view = NodeView(self.shape, self.request, room, classes.rows)
            scores = (self._usage_score(view) + self._static_score) << ROW_BITS
            ranked = [(int(scores[number]), number) for number in view.fits().nonzero()[0].tolist()]
        return sorted(ranked, key=_first, reverse=True)

    def best_untouched(self, room: Room, classes: NodeClasses, without: Collection[int] = ()) -> int:
        """The best key of the nodes that are as they were when the classes were found, but for these. Only where all
        goes by classes."""
        ranked = self._ranked
        if ranked is None or ranked[0] is not classes:
            classes.ask(self.request, room.free)
            ranked = self._ranked = (classes, self._rank_classes(room, classes))
        best, last = INFEASIBLE, len(self.key) - 1
        for key, number in ranked[1]:
            if key + MAX_NODES <= best:
                break  # not even the first of all nodes would be better there
            row = classes.first_untouched(number, without)
            if row >= 0 and key | (last - row) > best:
                best = key | (last - row)
        return best

    def looked_at(self) -> Hashable:
        """Of shapes with the same of this, the policy's scores see no difference but in the amounts that would be left;
        None if nobody can say."""
        if self._looked_at is _NOT_ASKED:
            scores = [plugin for plugin, _ in self._policy.scores]
            if all(hasattr(plugin, "looks_at") for plugin in scores):
                asked = tuple(column for column, _ in self.request)
                self._looked_at = (asked, *(cast("KeyedScore", plugin).looks_at(self.shape) for plugin in scores))
            else:
                self._looked_at = None
        return self._looked_at

    def _note_best(self, touched: Collection[int], key: int) -> None:
        """Of the touched rows, the best has this key now; no other has a better one than the best that is known."""
        best = self._best
        if best is None:
            return
        if best < 0 or len(self.key) - 1 - (best & (MAX_NODES - 1)) not in touched:
            self._best = max(best, key)
        else:
            self._best = key if key >= best else None

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
            return greedy_picks(self, room, count, within)
        if self.takes_first and len(self.key) == 1:
            return self._picks_of_the_only_node(room, count)
        if self._expected_log == len(room.log) and self._cursor + count <= len(self._sequence):
            picks = self._sequence[self._cursor : self._cursor + count]
        elif room.holds_none(self.request):
            return []
        elif count == 1 and self._expected_log != len(room.log):
            # Others were placed in between, and will be again: only the next is worth looking for.
            row = self.best_row(room)
            self._sequence, self._cursor, self._prefetch = [], 0, self._prefetch // 4
            picks = [row] if row >= 0 else []
            self._expected_log = len(room.log) + len(picks)
            return picks
        else:
            picks = self._new_sequence(room, count)
        self._cursor += len(picks)
        self._expected_log = len(room.log) + len(picks)
        return picks

    def _picks_of_the_only_node(self, room: Room, count: int) -> list[int]:
        """Where there is one node, and nothing to compare it by."""
        free = room.most()
        for column, units in self.request:
            count = min(count, free[column] // units)
        return [0] * count if self.static.item(0) else []

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

    def keys_of_row_after(self, room: Room, row: int, steps: int) -> Column:
        """The same for one row: (steps,)."""
        score: Column = self._usage_score(StepsView(self.shape, self.request, room, row, steps))
        score = score + (self._static_score if isinstance(self._static_score, int) else self._static_score.item(row))
        return (score << ROW_BITS) | (len(self.key) - 1 - row)

    def worst_key_after(self, room: Room, row: int, steps: int) -> int:
        """The worst of them. All of these pods have room there."""
        if steps > FEW_STEPS or not self._is_scored_one_by_one():
            return int(self.keys_of_row_after(room, row, steps).min())
        free: list[int] = room.free[:, row].tolist()
        return min([self._key_of(room, row, free) for _ in range(steps)])

    def keys_in(self, view: NodeView, tie: Column | int, static_score: Column) -> Column:
        """Sort keys of shapes that are looked at like this one and may go anywhere: (rows, shapes)."""
        keys = ((self._usage_score(view).reshape(-1, len(static_score)) + static_score) << ROW_BITS) | tie
        keys[~view.fits().reshape(keys.shape)] = INFEASIBLE
        return keys

    @property
    def static_score(self) -> Column | int:
        """A number if it is the same for all nodes."""
        return self._static_score

    def _new_sequence(self, room: Room, count: int) -> list[int]:
        used_up = self._expected_log == len(room.log)
        if count == 1 and len(self.key) <= FEW_ROWS:
            self._prefetch = 0
        elif used_up:
            self._prefetch = min(MAX_PREFETCH, max(64, 2 * self._prefetch, 2 * count))
        elif self._cursor * 2 < len(self._sequence):
            self._prefetch //= 4
        self._sequence = greedy_picks(self, room, count + self._prefetch, None)
        self._cursor = 0
        return self._sequence[:count]

    def _compute_all(self, room: Room) -> None:
        """For all rows; where most nodes are alike, each kind of node is looked at once."""
        classes = room.classes()
        if classes is None:
            self._compute(room, ALL)
            return
        view = NodeView(self.shape, self.request, room, classes.rows)
        of_class = self._usage_score(view)
        static = self._static_score
        if isinstance(static, int):
            of_class = (of_class + static) << ROW_BITS
            of_class[~view.fits()] = INFEASIBLE
            keys = of_class.take(classes.of_row)
            keys |= self._tie  # which changes nothing where it is infeasible: there all bits are set
            if not self._is_allowed_everywhere:
                keys[~self.static] = INFEASIBLE
        else:
            of_class[~view.fits()] = INFEASIBLE
            keys = of_class.take(classes.of_row)
            feasible = (keys >= 0) & self.static
            keys += static
            keys <<= ROW_BITS
            keys |= self._tie
            keys[~feasible] = INFEASIBLE
        self.key = keys
        self._fit = None
        if classes.touched:
            self._compute_some(room, np.array(list(classes.touched), dtype=np.int64))

    def _compute_some(self, room: Room, rows: Rows) -> int:
        """For some rows, and the best key among them. Most have no room as a rule, since pods were put there."""
        allowed = self.static.take(rows)
        for column, units in self.request:
            allowed &= room.free[column].take(rows) >= units
        able = rows[allowed]
        self.key[rows] = INFEASIBLE
        if self._fit is not None:
            self._fit[rows] = 0
        if not able.size:
            return INFEASIBLE
        if able.size <= FEW_ROWS and self._is_scored_one_by_one():
            return self._compute_few(room, able.tolist())
        self._compute(room, able)
        return int(self.key[able].max())

    def _compute(self, room: Room, rows: Rows | slice) -> None:
        view = NodeView(self.shape, self.request, room, rows)
        allowed = view.fits() & self.static[rows]
        static = self._static_score if isinstance(self._static_score, int) else self._static_score[rows]
        keys = ((self._usage_score(view) + static) << ROW_BITS) | self._tie[rows]
        keys[~allowed] = INFEASIBLE
        if isinstance(rows, slice):
            self.key = keys
        else:
            self.key[rows] = keys
        if self._fit is not None:
            self._fit[rows] = np.where(allowed, room.fit(self.request, rows, UNLIMITED), 0)

    def _compute_few(self, room: Room, rows: Collection[int]) -> int:
        """The same for a few rows, in plain numbers; the best key among them."""
        keys, fits, best = self.key, self._fit, INFEASIBLE
        for row in rows:
            free: list[int] = room.free[:, row].tolist()
            if fits is not None:
                fit = min(free[column] // units for column, units in self.request)
                fits[row] = min(max(fit, 0), UNLIMITED) if self.static.item(row) else 0
            keys[row] = key = self._key_of(room, row, free)
            if key > best:
                best = key
        return best

    def _key_of(self, room: Room, row: int, free: list[int]) -> int:
        """The sort key of a row that has so much free; none if it has no room. The pod is taken off `free`."""
        for column, units in self.request:
            left = free[column] - units
            if left < 0:
                return INFEASIBLE
            free[column] = left
        if not self.static.item(row):
            return INFEASIBLE
        if min(free) < 0:
            # A node that others have overfilled is full, not fuller than full.
            free = [max(left, 0) for left in free]
        shares = list(map(mul, free, room.shares.of_row(row)))
        score = 0
        for score_of_one, weight in self._scores_of_one or self._make_scores_of_one(room):
            score += score_of_one(shares) * weight
        static_score = self._static_score
        if score < 0:
            score = 0
        score += static_score if isinstance(static_score, int) else static_score.item(row)
        return (score << ROW_BITS) | (len(self.key) - 1 - row)

    def _is_scored_one_by_one(self) -> bool:
        """Whether all of the policy's scores can be asked about one node at a time."""
        if self._knows_one is None:
            self._knows_one = all(hasattr(plugin, "score_of_one") for plugin, _ in self._policy.scores)
        return self._knows_one

    def _make_scores_of_one(self, room: Room) -> list[tuple[Callable[[Sequence[float]], int], int]]:
        asks = Asks(self.shape, self.request, room.columns)
        made = [(cast("ScoreOfOne", plugin).score_of_one(asks), weight) for plugin, weight in self._policy.scores]
        self._scores_of_one = made
        return made

    def _usage_score(self, view: NodeView) -> Column:
        total: Column | None = None
        for plugin, weight in self._policy.scores:
            part = plugin.score(view) * weight if weight != 1 else plugin.score(view)
            total = part if total is None else total + part
        # A node that others have overfilled may score below zero; it must not look infeasible for that.
        return np.zeros(view.size, dtype=np.int64) if total is None else np.maximum(total, 0)


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


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
