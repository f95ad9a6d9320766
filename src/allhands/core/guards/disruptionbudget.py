"""Keeps disruption budgets: of no budget more pods are evicted than it still allows, all evictions together.

A budget is about pods, by their labels or by a limit that their group sets itself, and every eviction uses some of it
up. So beside the question of every guard it hands out an allowance, from which whoever chooses victims takes pod by
pod. Labels that no pod and no budget selects by are not in the shapes of pods; a budget sees those that are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.core.facts import DisruptionBudget
    from allhands.core.snapshot import GroupEntry, PodTable, Snapshot

MOST_ALLOWED: Final = 1 << 53


class Allowance(Protocol):
    """How many evictions are left, for all preemptors of a cycle."""

    def allows(self, rows: Sequence[int]) -> bool:
        """Whether these pods, by their rows in the table, may be evicted beside all that was taken."""

    def take(self, rows: Iterable[int], sign: int = 1) -> None:
        """They are; with the sign -1 they are not after all."""


@runtime_checkable
class RationingGuard(Protocol):
    """A guard whose consent is used up."""

    def allowance(self, snapshot: Snapshot) -> Allowance | None:
        """None if nothing is rationed."""


class DisruptionBudgets:
    name = "disruptionbudget"
    protection = "their disruption budgets"

    def may_evict(self, victim: GroupEntry, preemptor: GroupEntry, snapshot: Snapshot, now: int) -> bool:
        """Nobody is protected by a budget once and for all: what is left of it decides, and that is the allowance's."""
        del victim, preemptor, snapshot, now
        return True

    def allowance(self, snapshot: Snapshot) -> Allowance | None:
        limited = [it for it in snapshot.groups.values() if it.group.disruption_limit is not None]
        return BudgetsLeft(snapshot, limited) if snapshot.facts.budgets or limited else None


class BudgetsLeft:
    """`limited`: groups that set a limit themselves."""

    def __init__(self, snapshot: Snapshot, limited: Sequence[GroupEntry]) -> None:
        self._pods: PodTable = snapshot.pods
        self._budgets = snapshot.facts.budgets
        allowed = [*(it.allowed for it in self._budgets), *(_allowed(it) for it in limited)]
        self._left = np.array([min(max(0, it), MOST_ALLOWED) for it in allowed], dtype=np.int64)
        self._of_kind: dict[tuple[str, int], tuple[int, ...]] = {}
        self._of_group = {
            row: (number,) for number, entry in enumerate(limited, len(self._budgets)) for row in entry.bound
        }

    def allows(self, rows: Sequence[int]) -> bool:
        asked: dict[int, int] = {}
        for row in rows:
            for budget in self._covering(row):
                asked[budget] = asked.get(budget, 0) + 1
        return all(count <= self._left[budget] for budget, count in asked.items())

    def take(self, rows: Iterable[int], sign: int = 1) -> None:
        for row in rows:
            for budget in self._covering(row):
                self._left[budget] -= sign

    def _covering(self, row: int) -> tuple[int, ...]:
        """The budgets that a pod is under: by its labels, which equal pods share, and by its group."""
        namespace = self._pods.keys[row].partition("/")[0]
        kind = (namespace, int(self._pods.shape[row]))
        found = self._of_kind.get(kind)
        if found is None:
            labels = dict(self._pods.shapes[kind[1]].labels)
            found = self._of_kind[kind] = tuple(
                number for number, budget in enumerate(self._budgets) if _covers(budget, namespace, labels)
            )
        return found + self._of_group.get(row, ())


def _allowed(entry: GroupEntry) -> int:
    """Members that are bound and have not begun to run are missing, as are those that wait or are leaving."""
    assert entry.group.disruption_limit is not None
    waiting = sum(len(it.pods) for it in entry.pending) + sum(count for _, count in entry.gated)
    ended = max(0, sum(count for _, count in entry.present) - len(entry.bound))
    members = waiting + len(entry.bound) + len(entry.leaving) + ended
    return entry.group.disruption_limit.allowed(members, len(entry.bound) - entry.unstarted, ended)


def _covers(budget: DisruptionBudget, namespace: str, labels: dict[str, str]) -> bool:
    return budget.namespace == namespace and budget.selector.matches(labels)
