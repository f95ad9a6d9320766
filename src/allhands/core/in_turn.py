"""Places for pods of different shapes that come one after the other, as long as all of them go where the last one went.

Packing fills one node after the other, whoever comes. So it is worked out in one pass which of those who are next in
line would choose that node, each with those before it in place: exactly as if each were asked alone. That only saves
work. Whoever comes in place of who was expected is asked alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.view import ShapesView, TurnsView

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from allhands.core.columns import Column
    from allhands.core.node_classes import NodeClasses
    from allhands.core.room import Room
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry

MOST_AHEAD: Final = 128
FEWEST_AHEAD: Final = 4
"""For fewer, asking each alone is as fast."""
MOST_OPEN: Final = 64
LONGEST_PAUSE: Final = 64
NOT_KNOWN: Final = -1
ANYTHING: Final = np.iinfo(np.int64).max


def nobody(_: int) -> Sequence[GroupEntry]:
    """In place of a line, where it is not known who comes next."""
    return ()


class InTurn:
    """Lives for one cycle, for one room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.upcoming: Callable[[int], Sequence[GroupEntry]] = nobody
        """The next so many groups in line, or fewer."""
        self._alike: dict[Hashable, _Alike] = {}
        self._alike_of: dict[str, _Alike | None] = {}
        """By a shape's digest, of those that have come; None for shapes that can only be asked alone."""
        self._expected: list[ShapeState] = []
        """Whose pods come next and go to `_row`, from `_cursor` on, if the log is `_expected_log` long by then."""
        self._row = NOT_KNOWN
        self._cursor = 0
        self._expected_log = -1
        self._last: ShapeState | None = None
        self._pause = self._paused = 0
        """How many are asked alone before looking ahead is tried again, and how many of them were."""

    def row_for(self, state: ShapeState) -> int:
        """The best node for one more pod, which must be placed there; NOT_KNOWN if the shape itself is to be asked."""
        length = len(self._room.log)
        if length == self._expected_log:
            cursor = self._cursor
            if cursor < len(self._expected) and self._expected[cursor] is state:
                self._cursor = cursor + 1
                self._expected_log = length + 1
                return self._row
        last, self._last = self._last, state
        if last is state or last is None or self.upcoming is nobody:
            return NOT_KNOWN
        if state.shape.digest not in self._alike_of:
            self._note(state)
            return NOT_KNOWN
        if self._paused < self._pause:
            self._paused += 1
            return NOT_KNOWN
        return self._look_ahead(state)

    def _note(self, state: ShapeState) -> None:
        looked_at = state.looked_at() if state.goes_by_classes else None
        alike = None
        if looked_at is not None:
            alike = self._alike.get(looked_at)
            if alike is None:
                alike = self._alike[looked_at] = _Alike(len(state.request))
            alike.add(state)
        self._alike_of[state.shape.digest] = alike

    def _look_ahead(self, state: ShapeState) -> int:
        room, alike = self._room, self._alike_of[state.shape.digest]
        if alike is None or not room.log:
            return NOT_KNOWN
        row = room.log[-1]
        most = room.fit_of_row(state.request, row, MOST_AHEAD)
        if most < FEWEST_AHEAD:
            return NOT_KNOWN
        classes = room.classes()
        numbers = self._in_line(state, alike, most) if classes is not None else []
        staying = 0
        if classes is not None and len(numbers) >= FEWEST_AHEAD:
            staying = alike.staying(numbers, room, row, classes)
        self._paused = 0
        if staying < FEWEST_AHEAD:
            self._pause = min(LONGEST_PAUSE, 2 * self._pause + 1)
            return NOT_KNOWN
        self._pause = 0
        states = alike.states
        self._expected = [states[number] for number in numbers[:staying]]
        self._row, self._cursor, self._expected_log = row, 1, len(room.log) + 1
        return row

    def _in_line(self, state: ShapeState, alike: _Alike, most: int) -> list[int]:
        """This one and those who come after it, as far as all can be looked at together."""
        known = alike.number_by_digest
        found = [known[state.shape.digest]]
        for entry in self.upcoming(most - 1):
            if len(entry.pending) != 1 or len(entry.pending[0].pods) > 1:
                break
            number = known.get(entry.pending[0].shape.digest)
            if number is None:
                break
            found.append(number)
        return found


class _Alike:
    """Shapes that the policy's scores look at alike, and that may go anywhere: what they ask for, as columns."""

    def __init__(self, resources: int) -> None:
        self.states: list[ShapeState] = []
        self.number_by_digest: dict[str, int] = {}
        self._units: Column = np.zeros((resources, 64), dtype=np.int64)
        """(resources, shapes)."""
        self._static_score: Column = np.zeros(64, dtype=np.int64)
        self._bound: Column = np.full(64, ANYTHING, dtype=np.int64)
        """No node that is as it was when `_classes` were found has a better key. As more are touched it stays right."""
        self._classes: NodeClasses | None = None

    def add(self, state: ShapeState) -> None:
        number = len(self.states)
        if number == len(self._bound):
            self._units = np.concatenate((self._units, np.zeros_like(self._units)), axis=1)
            self._static_score = np.concatenate((self._static_score, np.zeros_like(self._static_score)))
            self._bound = np.concatenate((self._bound, np.full_like(self._bound, ANYTHING)))
        self.states.append(state)
        self.number_by_digest[state.shape.digest] = number
        self._units[:, number] = [units for _, units in state.request]
        self._static_score[number] = state.static_score

    def staying(self, numbers: list[int], room: Room, row: int, classes: NodeClasses) -> int:
        """How many of these, from the first on, find no node better than this one, if each is put there."""
        if classes is not self._classes:
            self._classes = classes
            self._bound.fill(ANYTHING)
        if self._bound[numbers].max() == ANYTHING:
            self._look_for_others(numbers, room, classes)  # before the open nodes are looked at: they are of who asked
        if len(classes.open) > MOST_OPEN:
            return 0
        keys, rivals = self._keys(numbers, room, row, [other for other in classes.open if other != row])
        leaves = keys <= np.maximum(rivals, self._bound[numbers])
        if (leaves & (keys > rivals)).any():
            # What was the best of the others when it was looked for may be taken by now.
            self._look_for_others(numbers, room, classes)
            leaves = keys <= np.maximum(rivals, self._bound[numbers])
        return int(leaves.argmax()) if leaves.any() else len(numbers)

    def _look_for_others(self, numbers: list[int], room: Room, classes: NodeClasses) -> None:
        for number in dict.fromkeys(numbers):
            self._bound[number] = self.states[number].best_untouched(room, classes)

    def _keys(self, numbers: list[int], room: Room, row: int, others: list[int]) -> tuple[Column, Column | int]:
        """Of each with those before it in place on the row, and of each alone on the best of the other rows."""
        first, tie = self.states[numbers[0]], room.shares.tie
        units, static_score = self._units[:, numbers], self._static_score[numbers]
        keys = first.keys_in(TurnsView(first.shape, first.request, units, room, row), tie.item(row), static_score)[0]
        if not others:
            return keys, NOT_KNOWN
        rows = np.array(others, dtype=np.int64)
        view = ShapesView(first.shape, first.request, units, room, rows)
        return keys, first.keys_in(view, tie[rows, None], static_score).max(axis=0)
