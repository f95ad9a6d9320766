"""Guard rails for plugins that were learned: what they are shown, how much they may do, and what becomes of mistakes.

A learned plugin sees features, never the cluster, and every row it reads is counted against a budget. Whatever it
answers is cut to the bounds of its place; if it fails or overdraws, it counts as having said nothing, and the other
plugins decide. It can never make a cycle fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.core.gang import minimum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.core.columns import Column
    from allhands.core.extension import LearnedOrder, LearnedScore
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.core.view import NodeView

MAX_RANK: Final = 1 << 40
"""Ranks are from 0 to below this; who was not judged comes after all who were."""
UNKNOWN: Final = -1
"""The value of a feature that a group does not have."""


TIMED: Final = frozenset({"age", "deadline"})
"""Features that change with time alone."""


class BudgetSpentError(Exception):
    """More work was asked for than was granted."""


class Budget:
    """Counted work that a learned plugin may still do to answer one question."""

    __slots__ = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def spend(self, units: int) -> None:
        """Call it before the work. A model of several passes over the rows spends their number for each."""
        if not 0 <= units <= self.left:
            left, self.left = self.left, 0
            raise BudgetSpentError(f"{units} units of work were asked for, {left} are left")
        self.left -= units


class NodeFeatures:
    """What a learned score may know of each row, in whole numbers.

    `free:<resource>` is the share that would be left of it, `asks:<resource>` the share that the pod takes, both in
    millionths of the node; `has:<resource>` is 1 if the node has any. Each column read costs one unit a row.
    """

    KINDS: Final = ("free", "asks", "has")

    def __init__(self, view: NodeView, names: tuple[str, ...], budget: Budget) -> None:
        self._view = view
        self._budget = budget
        self.names = names
        self.size = view.size

    def column(self, name: str) -> Column:
        self._budget.spend(self.size)
        view = self._view
        kind, _, resource = name.partition(":")
        column = view.column(resource)
        if column is None:
            return np.zeros(self.size, dtype=np.int64)
        if kind == "free":
            return np.clip(view.free_share_after(column), 0, SCORE_SCALE).astype(np.int64)
        allocatable = view.columns.allocatable[column, view.rows]
        # A view may show each row several times, one after the other.
        allocatable = np.repeat(allocatable, self.size // max(1, len(allocatable)))
        if kind == "has":
            return (allocatable > 0).astype(np.int64)
        share = view.shape.requests.get(resource) * SCORE_SCALE / np.maximum(allocatable, 1)
        return np.where(allocatable > 0, np.clip(share, 0, SCORE_SCALE), 0).astype(np.int64)

    def matrix(self) -> Column:
        """All features that the model named: (features, rows)."""
        return np.array([self.column(name) for name in self.names], dtype=np.int64).reshape(-1, self.size)


class GroupFeatures:
    """What a learned order may know of each waiting group, in whole numbers.

    `priority`; `age`, `duration` and `deadline` in seconds (the last from now); `pods` and `waiting` are counts;
    `share` is the largest part of any resource of the cluster that its minimum asks for, in millionths;
    `own:<name>` is a feature that the group brings along. Each column read costs one unit a group.
    """

    def __init__(
        self, entries: Sequence[GroupEntry], snapshot: Snapshot, now: int, names: tuple[str, ...], budget: Budget
    ) -> None:
        self._entries = entries
        self._snapshot = snapshot
        self._now = now
        self._budget = budget
        self.names = names
        self.size = len(entries)

    KNOWN: Final = ("age", "deadline", "duration", "pods", "priority", "share", "waiting")

    def column(self, name: str) -> Column:
        self._budget.spend(self.size)
        value = self._reader(name)
        return np.fromiter((value(entry) for entry in self._entries), dtype=np.int64, count=self.size)

    def matrix(self) -> Column:
        """All features that the model named: (features, groups)."""
        return np.array([self.column(name) for name in self.names], dtype=np.int64).reshape(-1, self.size)

    def _reader(self, name: str) -> Callable[[GroupEntry], int]:
        now = self._now
        if name.startswith("own:"):
            own = name.removeprefix("own:")
            return lambda entry: dict(entry.group.features).get(own, UNKNOWN)
        total = dict(self._snapshot.columns.total().entries) if name == "share" else {}
        readers: dict[str, Callable[[GroupEntry], int]] = {
            "age": lambda entry: now - entry.group.created_at_seconds,
            "deadline": lambda entry: UNKNOWN if (due := entry.group.deadline_seconds) is None else max(0, due - now),
            "duration": lambda entry: UNKNOWN if (it := entry.group.expected_duration_seconds) is None else it,
            "pods": lambda entry: entry.group.required_count,
            "priority": lambda entry: entry.group.priority,
            "share": lambda entry: _share(entry, total),
            "waiting": lambda entry: sum(len(members.pods) for members in entry.pending),
        }
        return readers[name]


class GuardedScore:
    """A learned score as a Score. `units_per_row` bounds its work: one unit is one feature of one row, or one pass."""

    def __init__(self, learned: LearnedScore, units_per_row: int = 32) -> None:
        unknown = [name for name in learned.features if name.partition(":")[0] not in NodeFeatures.KINDS]
        if unknown:
            kinds = ", ".join(f"{kind}:<resource>" for kind in NodeFeatures.KINDS)
            raise ValueError(f"{learned.name}: no such features: {', '.join(unknown)}; there are {kinds}")
        self.name = learned.name
        self.failures = 0
        """How often it had nothing to say, for those who watch it."""
        self._learned = learned
        self._units_per_row = units_per_row

    def score(self, view: NodeView) -> Column:
        budget = Budget(self._units_per_row * view.size)
        features = NodeFeatures(view, self._learned.features, budget)
        judged = _asked(lambda: self._learned.judge_nodes(features, budget), view.size)
        if judged is None:
            self.failures += 1
            return np.zeros(view.size, dtype=np.int64)
        return np.clip(judged, 0, SCORE_SCALE)


class GuardedOrder:
    """A learned order as a GroupOrder. In one cycle it judges the oldest `max_groups` waiting groups, all at once."""

    def __init__(
        self, learned: LearnedOrder, max_groups: int = 1000, units_per_group: int = 32, refresh_seconds: int = 60
    ) -> None:
        unknown = [name for name in learned.features if name not in GroupFeatures.KNOWN and name[:4] != "own:"]
        if unknown:
            known = ", ".join((*GroupFeatures.KNOWN, "own:<name>"))
            raise ValueError(f"{learned.name}: no such features: {', '.join(unknown)}; there are {known}")
        self.name = learned.name
        self.failures = 0
        self._learned = learned
        self._refresh_seconds = refresh_seconds if TIMED & set(learned.features) else None
        self._max_groups = max_groups
        self._units_per_group = units_per_group
        self._latest: tuple[Snapshot, int, dict[str, int]] | None = None

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:
        latest = self._latest
        if latest is None or latest[0] is not snapshot or latest[1] != now:
            latest = self._latest = (snapshot, now, self._judge(snapshot, now))
        return latest[2].get(entry.key, MAX_RANK)

    def next_change(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int | None:
        """When it must be asked again though nothing happens: if it looks at time, every so many seconds."""
        del entry, snapshot
        return None if self._refresh_seconds is None else now + self._refresh_seconds

    def _judge(self, snapshot: Snapshot, now: int) -> dict[str, int]:
        waiting = [entry for entry in snapshot.groups.values() if entry.pending]
        waiting.sort(key=lambda entry: (entry.group.created_at_seconds, entry.key))
        chosen = waiting[: self._max_groups]
        budget = Budget(self._units_per_group * len(chosen))
        features = GroupFeatures(chosen, snapshot, now, self._learned.features, budget)
        judged = _asked(lambda: self._learned.judge_groups(features, budget), len(chosen))
        if judged is None:
            self.failures += 1
            return {}
        ranks = np.clip(judged, 0, MAX_RANK - 1).tolist()
        return {entry.key: rank for entry, rank in zip(chosen, ranks, strict=True)}


def _asked(judge: Callable[[], object], size: int) -> Column | None:
    """What the model says, if it is one whole number a row; else None."""
    try:
        judged = judge()
    except Exception:  # Whatever a model does wrong, the cycle goes on.
        return None
    if not isinstance(judged, np.ndarray) or judged.shape != (size,) or judged.dtype.kind not in "iu":
        return None
    return judged.astype(np.int64)


def _share(entry: GroupEntry, total: dict[str, int]) -> int:
    part = minimum(entry)
    takes = () if part is None else part.all_takes()
    units: dict[str, int] = {}
    for take in takes:
        for name, amount in entry.pending[take.members].shape.requests.entries:
            units[name] = units.get(name, 0) + amount * take.number
    return max(
        (min(SCORE_SCALE, amount * SCORE_SCALE // max(1, total.get(name, 0))) for name, amount in units.items()),
        default=0,
    )
