"""The work of a cycle in another room: the same nodes, pods and rules, with other amounts free.

So the code that puts groups on nodes serves for what-ifs and for rooms that are kept, unchanged and as fast. What is
tried here is in the cycle's one Statement, and is rolled back with it. Never told to the memo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.in_turn import InTurn
from allhands.core.room import Room
from allhands.core.shapes import ShapeState
from allhands.core.work import Work

if TYPE_CHECKING:
    from allhands.core.feasibility.neighbours import Neighbours
    from allhands.model.shape import PodShape


class OtherRoom(Room):
    """A room of the same nodes, at first with the same amounts free, and with a log of its own."""

    def __init__(self, main: Room) -> None:
        self.columns = main.columns
        self.shares = main.shares
        self.free = main.free.copy()
        self.log = []
        self._most = self._together = None
        self._forget_recent()

    def classes(self) -> None:
        """What is free is written without a word in the log, so nothing is kept of it."""


class WorkElsewhere(Work):
    """`work`, but in `room`."""

    def __init__(self, work: Work, room: Room) -> None:
        vars(self).update(vars(work))
        self.main = work
        self.room = room
        self.statement = work.statement.over(room)
        self._states = {}
        self.in_turn = InTurn(room)

    def state(self, shape: PodShape) -> ShapeState:
        found = self._states.get(shape.digest)
        if found is None:
            found = self._states[shape.digest] = _StateElsewhere(self.main.state(shape), self.room, self)
        return found

    @property
    def neighbours(self) -> Neighbours:
        return self.main.neighbours

    def wake_at(self, seconds: int, *, lets_start: bool = True) -> None:
        self.main.wake_at(seconds, lets_start=lets_start)

    def forget_columns(self) -> None:
        """So many rows changed that looking at all of them is cheaper."""
        for state in self._states.values():
            state.position = -1
        self.room.log.append(0)


class _StateElsewhere(ShapeState):
    """The columns of a shape in another room; what does not depend on the room is shared."""

    def __init__(self, known: ShapeState, room: Room, work: Work) -> None:
        super().__init__(known.shape, None if known.exists_nowhere else known.request, room, work.policy)
        self.is_dynamic, self.is_noticed = known.is_dynamic, known.is_noticed
        self.set_static(known.static, known._static_score)
        self._scores_of_one = known._scores_of_one
