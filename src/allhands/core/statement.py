"""What is tried before it is decided: placements, evictions and charges that can be taken back to the bit.

A cycle has one Statement. Who tries something sets a mark, and either leaves what came after it, or rolls back to it.
Nothing here judges whether an operation is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.core.columns import Request
    from allhands.core.room import Room
    from allhands.core.shapes import ShapeState

Undo: TypeAlias = "Callable[[], None]"


class _Placement(NamedTuple):
    """Pods that were placed. A value and not a function: there is one for every pod of a large cycle, and what a
    function remembers is several objects more for the collector to walk."""

    by: Statement
    state: ShapeState
    picks: Sequence[int]
    noticed: bool


class Statement:
    def __init__(self, room: Room, placed: Callable[[ShapeState, int, int], None]) -> None:
        self._room = room
        self._placed = placed
        """Told of every pod of a shape that depends on others, or on which others may depend: (shape, row, ±1)."""
        self._undo: list[Undo | _Placement] = []

    def over(self, room: Room) -> Statement:
        """The same statement for those who work in another room: what is done through either is taken back in order."""
        other = Statement(room, self._placed)
        other._undo = self._undo
        return other

    def mark(self) -> int:
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Takes back everything since the mark, last first."""
        while len(self._undo) > mark:
            last = self._undo.pop()
            if isinstance(last, _Placement):
                last.by._unplace(last)
            else:
                last()

    def place(self, state: ShapeState, picks: Sequence[int], *, noticed: bool) -> None:
        """One pod of the shape on each of these rows. `noticed`: somebody counts where such pods are."""
        self._room.take(state.request, picks)
        if noticed:
            for row in picks:
                self._placed(state, row, 1)
        self._undo.append(_Placement(self, state, picks, noticed))

    def release(self, request: Request, rows: Sequence[int], after: Undo | None = None) -> None:
        """Gives the room of running pods back, one on each row."""
        self._room.take(request, rows, -1)

        def undo() -> None:
            self._room.take(request, rows)
            if after is not None:
                after()

        self._undo.append(undo)

    def done(self, undo: Undo) -> None:
        """Something else was done (a charge, a count): how to take it back."""
        self._undo.append(undo)

    def close(self) -> None:
        """The cycle is over: nothing is taken back any more, and nothing is kept alive for that."""
        self._undo.clear()
        self._placed = _nobody_counts

    def _unplace(self, placement: _Placement) -> None:
        _, state, picks, noticed = placement
        self._room.take(state.request, picks, -1)
        if noticed:
            for row in reversed(picks):
                self._placed(state, row, -1)


def _nobody_counts(state: ShapeState, row: int, sign: int) -> None:
    """In place of the cycle's own count once the cycle is over."""
