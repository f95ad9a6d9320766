"""Asks the guards of the policy about each possible victim, and remembers who is protected by what, to say so."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from allhands.core.guards.disruptionbudget import RationingGuard
from allhands.core.guards.minruntime import protected_until

if TYPE_CHECKING:
    from allhands.core.actions.victims import VictimTable
    from allhands.core.guards.disruptionbudget import Allowance
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work


class Allowances:
    """What the guards have left to give, in one cycle. Guards that ration nothing are not asked again, and nobody is
    before somebody wants to evict: it may cost a look at every group."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._protection = ""

    @functools.cached_property
    def left(self) -> list[Allowance]:
        found: list[Allowance] = []
        for guard in self._work.policy.guards:
            if isinstance(guard, RationingGuard) and (allowance := guard.allowance(self._work.snapshot)) is not None:
                found.append(allowance)
                self._protection = getattr(guard, "protection", guard.name)
        return found

    def protection(self, table: VictimTable, group: int) -> str:
        """What protects the group if none of its pods may go by what is rationed; "" if one may."""
        if not self.left:
            return ""
        rows = table.pod[table.positions(group)].tolist()
        may_go = all(any(allowance.allows([row]) for row in rows) for allowance in self.left)
        return "" if may_go else self._protection

    def keeps_some(self, table: VictimTable, group: int) -> str:
        """What does not let all pods of the group go together by what is rationed; "" if all may go."""
        if not self.left:
            return ""
        rows = table.pod[table.positions(group)].tolist()
        return "" if all(allowance.allows(rows) for allowance in self.left) else self._protection


class Consents:
    """For one group that asks for room."""

    def __init__(self, work: Work, preemptor: GroupEntry, table: VictimTable, allowances: Allowances) -> None:
        self._work = work
        self._preemptor = preemptor
        self._table = table
        self._allowances = allowances
        self._protection: dict[int, str] = {}
        """Of all who were asked; "" for those who may go."""

    def may_evict(self, group: int) -> bool:
        found = self._protection.get(group)
        if found is None:
            found = self._protection[group] = self._ask(group)
        return not found

    @property
    def asked(self) -> int:
        return len(self._protection)

    def counts(self) -> dict[str, int]:
        """By what how many are protected."""
        counts: dict[str, int] = {}
        for protection in self._protection.values():
            if protection:
                counts[protection] = counts.get(protection, 0) + 1
        return counts

    def counts_in_part(self) -> dict[str, int]:
        """Of how many only some pods may go, by what."""
        counts: dict[str, int] = {}
        for group, protection in self._protection.items():
            if not protection and (keeper := self._allowances.keeps_some(self._table, group)):
                counts[keeper] = counts.get(keeper, 0) + 1
        return counts

    def _ask(self, group: int) -> str:
        work, victim = self._work, self._table.entries[group]
        if victim.group.min_run_seconds and (until := protected_until(victim, work.snapshot)) > work.now:
            work.wake_at(until)
        for guard in work.policy.guards:
            if not guard.may_evict(victim, self._preemptor, work.snapshot, work.now):
                return str(getattr(guard, "protection", guard.name))
        return self._allowances.protection(self._table, group)
