"""Sorts all groups by where they stand: begun, admitted, waiting, whole, or not to be placed now, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.core.explain import why_incomplete
from allhands.model.queue import Queue
from allhands.model.reason import Reason, explain
from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allhands.core.facts import Facts
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.reason import Explanation


class Census(NamedTuple):
    begun: list[GroupEntry]
    """Some members are on nodes, and fewer than the minimum."""
    admitted: list[GroupEntry]
    """Its room was promised, and its pods are being made."""
    waiting: Sequence[GroupEntry]
    whole: list[GroupEntry]
    """At their minimum; they may have members to add. Without those for which nothing is to be done."""
    not_now: list[tuple[GroupEntry, Explanation]]
    drained: list[tuple[GroupEntry, Explanation]]
    """They hold room and are asked to leave, since their queue is being emptied."""
    is_in_order: bool = False
    """Whether those who wait are in the order of the policy already."""
    is_draining: bool = False
    """Whether some queue is being emptied."""


def take_census(work: Work) -> Census:
    draining = work.memo.draining_of(work.snapshot, _draining)
    if draining:
        return _asked_about(work.snapshot.groups.values(), work, draining)._replace(is_draining=True)
    roll = work.memo.roll
    if not roll.open and not work.policy.explains:
        return Census([], [], roll.line(), [], [], [], is_in_order=True)
    found = _asked_about([roll.open[key] for key in sorted(roll.open)], work, draining)
    line = roll.line()
    if found.waiting:
        return found._replace(waiting=[*found.waiting, *line[:]])
    return found._replace(waiting=line[:] if work.policy.explains else line, is_in_order=True)


def _asked_about(entries: Iterable[GroupEntry], work: Work, draining: Mapping[str, Explanation]) -> Census:
    waiting: list[GroupEntry] = []
    census = Census([], [], waiting, [], [], [])
    for entry in entries:
        if draining and entry.problem is None and (emptied := _drained(entry, draining)) is not None:
            if entry.bound:
                census.drained.append((entry, emptied))
            if entry.pending or entry.gated or not entry.is_whole:
                census.not_now.append((entry, emptied))
            continue
        if not entry.pending and not entry.gated and entry.is_whole and (entry.bound or entry.problem is None):
            if entry.unstarted:
                census.whole.append(entry)
            continue
        why = _why_not_now(entry, work)
        if why is not None:
            census.not_now.append((entry, why))
        elif entry.present and entry.is_whole:
            census.whole.append(entry)
        elif entry.bound:
            census.begun.append(entry)
        elif entry.status.admitted_at_seconds is not None:
            census.admitted.append(entry)
        else:
            waiting.append(entry)
    return census


def _draining(facts: Facts) -> dict[str, Explanation]:
    """Accounts from which running groups are asked to leave: queues that are being drained, and all below them."""
    accounts = {account.name: account for account in facts.accounts}
    emptied = {it.name for it in accounts.values() if isinstance(it, Queue) and it.state.empties}
    found: dict[str, Explanation] = {}
    for name in sorted(accounts) if emptied else ():
        path: dict[str, None] = {}
        current: str | None = name
        # Who is set aside for a broken tree is not asked to leave: a slip of the pen must not end running work.
        while current in accounts and current not in path:
            path[current] = None
            current = accounts[current].parent
        if current is None and (above := next((it for it in path if it in emptied), None)) is not None:
            found[name] = explain(Reason.QUEUE_DRAINING, queue=above)
    return found


def _drained(entry: GroupEntry, draining: Mapping[str, Explanation]) -> Explanation | None:
    return next((draining[name] for name in entry.group.charged_accounts if name in draining), None)


def _why_not_now(entry: GroupEntry, work: Work) -> Explanation | None:
    group, status = entry.group, entry.status
    if entry.problem is not None:
        return entry.problem
    if group.suspended:
        return explain(Reason.SUSPENDED)
    if not entry.pending:
        return why_incomplete(entry)
    if group.not_before_seconds is not None and group.not_before_seconds > work.now:
        work.wake_at(group.not_before_seconds)
        return explain(Reason.NOT_BEFORE, time=utc_text(group.not_before_seconds))
    if status.retry_at_seconds > work.now:
        work.wake_at(status.retry_at_seconds)
        return explain(Reason.BACKING_OFF, attempt=status.failed_starts + 1, time=utc_text(status.retry_at_seconds))
    for gate in work.policy.gates:
        if (why := gate.refusal(entry, work.snapshot, work.now)) is not None:
            return why
    return None
