"""Everything that one cycle works with, in one place: the room, the quotas, the trees, and how pods are put on nodes.

Actions decide who and when; this says only where, and keeps every count right while they try. It lives for one cycle.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.core.feasibility.neighbours import Neighbours
from allhands.core.filling import Fillings
from allhands.core.in_turn import InTurn
from allhands.core.rivals import rivals_of
from allhands.core.room import Room
from allhands.core.shapes import INFEASIBLE, ROW_BITS, ShapeState
from allhands.core.statement import Statement
from allhands.model.affinity import NO_POD_AFFINITY
from allhands.model.reason import Explanation, Reason

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from allhands.core.columns import Mask, Rows
    from allhands.core.memo import Memo
    from allhands.core.plan_volumes import PrepareVolume
    from allhands.core.policy import Policy
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.core.topology.columns import TopologyColumns
    from allhands.model.shape import PodShape

_AS_IT_IS: Final = nullcontext()
FILTERED: Final = "None of {nodes} nodes that the pod could use is left by the policy ({filters})."


class Work:
    def __init__(self, snapshot: Snapshot, policy: Policy, memo: Memo, now: int) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.memo = memo
        self.now = now
        self.room = Room(snapshot.columns, memo.shares_for(snapshot))
        memo.begin(snapshot, policy, self.room)
        self._neighbours: Neighbours | None = None
        self.rivals = rivals_of(snapshot)
        """Pods that other schedulers have nominated; None where there are none."""
        self.nobody_looks = snapshot.pods.looking == () and not memo.roll.has_looking
        """Whether no pod has terms about others, neither one that is there nor one that waits."""
        self.statement = Statement(self.room, self._count)
        self.fillings = Fillings()
        self._states: dict[str, ShapeState] = {}
        self.in_turn = InTurn(self.room)
        self.total = memo.total_of(snapshot)
        self.queues = memo.queues_of(snapshot)
        self.wakes_at: int | None = None
        """When time alone changes something."""
        self.stirs_at: int | None = None
        """When time alone may let somebody start who waits."""

    @property
    def neighbours(self) -> Neighbours:
        """Made when somebody asks: in most clusters most pods ask nothing of others."""
        if self._neighbours is None:
            memo = self.memo
            waiting = memo.roll.looking()
            self._neighbours = Neighbours(
                self.snapshot, self.room, memo.static, memo.volumes, waiting, rivals=self.rivals
            )
            memo.volumes = self._neighbours.volumes
        return self._neighbours

    def seen_by(self, entry: GroupEntry) -> AbstractContextManager[None]:
        """In here, room is what the group sees of it: it looks past nominated pods that it outranks."""
        if self.rivals is None:
            return _AS_IT_IS
        return self.rivals.seen_by(entry.group.priority, self.room, lambda: self.neighbours.volumes)

    def is_dynamic(self, shape: PodShape) -> bool:
        """Whether where it may go changes as pods come and go."""
        return not (self.nobody_looks and _asks_nothing(shape)) and self.neighbours.is_dynamic(shape)

    @property
    def topology(self) -> TopologyColumns:
        return self.memo.topology(self.snapshot)

    def state(self, shape: PodShape) -> ShapeState:
        found = self._states.get(shape.digest)
        if found is None:
            found = self._states[shape.digest] = self.memo.state(shape, self.room)
            if self.nobody_looks and _asks_nothing(shape):
                found.is_dynamic = found.is_noticed = False
                return found
            if self.neighbours.volumes.concerns(shape) and not found.exists_nowhere:
                self._limit_to_reach(found)
            found.is_dynamic = self.neighbours.is_dynamic(shape)
            found.is_noticed = self.neighbours.is_noticed(shape)
        return found

    def usable_nodes(self, shape: PodShape) -> Mask:
        """Where it may go by its own conditions and by the policy's filters."""
        columns = self.snapshot.columns
        mask = self.memo.static.mask(shape)
        for plugin in self.policy.filters:
            mask = mask & plugin.mask(shape, columns)
        return mask

    def _limit_to_reach(self, state: ShapeState) -> None:
        """To where the volumes of its bound claims are, which may have changed since the memo last saw the shape."""
        static = self.usable_nodes(state.shape) & self.neighbours.volumes.reach(state.shape)
        if not np.array_equal(static, state.static):
            state.set_static(static, state._static_score)

    def place(self, state: ShapeState, count: int, within: Rows | None = None, *, partly: bool = False) -> list[int]:
        """Puts `count` pods on the best nodes and says which; the empty list, and nothing placed, if they do not fit.

        With `partly`, as many as fit.
        """
        if state.is_dynamic:
            return self._place_one_by_one(state, count, within, partly=partly)
        if count == 1 and within is None and (row := self.in_turn.row_for(state)) >= 0:
            picks = [row]
        else:
            picks = state.picks(self.room, count, within)
        if len(picks) < count and not partly:
            state.refuse_picks()
            return []
        self.statement.place(state, picks, noticed=state.is_noticed)
        return picks

    def fits(self, state: ShapeState, count: int, within: Rows | None = None) -> int:
        """How many of `count` pods would fit now."""
        mark = self.statement.mark()
        fitting = len(self.place(state, count, within, partly=True))
        self.statement.rollback(mark)
        return fitting

    def in_rank_order(self, picks: list[int]) -> list[int]:
        """The same rows so that neighbours in rank get neighbours in the network."""
        if not len(self.topology):
            return sorted(picks)
        return sorted(picks, key=self.memo.rank_of_row(self.topology).__getitem__)

    def size_of(self, shape: PodShape) -> int:
        """How large a shape is, for deciding what to place first: its largest share of the cluster, in millionths."""
        return max(
            (units * SCORE_SCALE // max(1, self.total.get(name)) for name, units in shape.requests.entries), default=0
        )

    def wake_at(self, seconds: int, *, lets_start: bool = True) -> None:
        """Something is due then, even if nothing else happens; where it does not let anybody start, it only makes
        another plan of what is decided now."""
        if self.wakes_at is None or seconds < self.wakes_at:
            self.wakes_at = seconds
        if lets_start and (self.stirs_at is None or seconds < self.stirs_at):
            self.stirs_at = seconds

    def why_no_node(self, shape: PodShape) -> Explanation:
        """Which of a shape's own conditions no node meets; if some meets all, that the policy's filters leave none."""
        static = self.memo.static
        possible = int(static.mask(shape).sum())
        if not possible:
            return static.why(shape)[0]
        filters = ", ".join(plugin.name for plugin in self.policy.filters)
        numbers = (("filters", filters), ("nodes", possible))
        return Explanation(Reason.NO_MATCHING_NODE, FILTERED, numbers)

    def prepare(self, shape: PodShape, picks: list[int]) -> list[PrepareVolume]:
        """What must be done before pods of the shape are bound to these nodes."""
        return [step for row in picks for step in self.neighbours.prepare(shape, row)]

    def _place_one_by_one(self, state: ShapeState, count: int, within: Rows | None, *, partly: bool) -> list[int]:
        mark = self.statement.mark()
        picks: list[int] = []
        for _ in range(count):
            row = self._best_row(state, within)
            if row < 0:
                if not partly:
                    self.statement.rollback(mark)
                    return []
                break
            self.statement.place(state, [row], noticed=True)
            picks.append(row)
        return picks

    def _best_row(self, state: ShapeState, within: Rows | None) -> int:
        state.refresh(self.room)
        bonus = self.neighbours.score(state.shape) * self.policy.neighbour_weight
        allowed = self.neighbours.mask(state.shape) & (state.key >= 0)
        keys = np.where(allowed, state.key + (bonus << ROW_BITS), INFEASIBLE)
        if within is None:
            row = int(keys.argmax()) if keys.size else -1
        else:
            row = int(within[int(keys[within].argmax())]) if within.size else -1
        return row if row >= 0 and keys[row] >= 0 else -1

    def _count(self, state: ShapeState, row: int, sign: int) -> None:
        self.neighbours.placed(state.shape, row, sign)


def _asks_nothing(shape: PodShape) -> bool:
    """Whether it has nothing by which it could look at other pods, or be in their way beyond resources."""
    if shape.claims or shape.volumes or shape.host_ports or shape.spread:
        return False
    return shape.pod_affinity is NO_POD_AFFINITY or shape.pod_affinity.is_empty
