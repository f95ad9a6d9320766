"""Lets nobody pass: once a group did not start, none that comes after it in the order does, in any queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.gates.maxrunning import runs
from allhands.model.reason import Explanation, Reason

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot

SENTENCE = "Nobody passes {first}, which comes before it and cannot start yet."


class InOrder:
    name = "inorder"

    def tally(self, snapshot: Snapshot, now: int) -> OrderTally:  # noqa: ARG002
        return OrderTally()


class OrderTally:
    def __init__(self) -> None:
        self._asked = ""

    def refusal(self, entry: GroupEntry) -> Explanation | None:
        if runs(entry):
            return None
        if self._asked:
            return Explanation(Reason.BEHIND_OTHERS, SENTENCE, (("first", self._asked),))
        self._asked = entry.group.key
        return None

    def started(self, entry: GroupEntry) -> None:
        if entry.group.key == self._asked:
            self._asked = ""
