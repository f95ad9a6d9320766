"""Which of the groups that wait may have their pods made, asked once in a while for all of them together.

It only gathers what is there and asks `lifecycle.enqueueing`; who is let in is written by others.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from allhands.core.topology.totals import DomainTotals
from allhands.lifecycle.enqueueing import Candidate, Holding, enqueue
from allhands.lifecycle.namespace_room import NamespaceRoom, charge_of
from allhands.lifecycle.promises import Making, given_up, may_still_start
from allhands.model.resources import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from allhands.core.snapshot import Snapshot
    from allhands.dialects.groups import GroupRecord
    from allhands.lifecycle.namespace_room import Charge
    from allhands.model.podgroup import PodGroup
    from allhands.model.queue import Queue
    from allhands.model.reason import Explanation
    from allhands.ports import Clock
    from allhands.runtime.scheduling.watched_world import WatchedWorld

TURN_SECONDS: Final = 1.0
"""How soon those are asked about again who were not let in."""
LEAST_SECONDS: Final = 0.1
GROUPS_PER_SECOND: Final = 5_000
"""Between two times that it is asked: with many groups more seldom."""
OUTSIDE: Final = ("", "Pending")
"""The phases of groups that have not been let in."""
INSIDE: Final = "Inqueue"
"""The phase of groups that were let in and have not started."""


class Enqueueing:
    def __init__(self, watched: WatchedWorld, clock: Clock) -> None:
        self._watched = watched
        self._clock = clock
        self._verdicts: Mapping[str, Explanation | None] = {}
        self._asked_at = -math.inf
        self._groups = 0
        """How many there were when it was asked."""
        self._totals: DomainTotals | None = None
        self._made: dict[str, Making] = {}
        """Groups that were let in, and how far their pods were made when it was last asked."""
        watched.pod_groups.on_change(self._group_changed)

    def _group_changed(self, group: str, _before: GroupRecord | None, after: GroupRecord | None) -> None:
        if after is None or after.written.phase != INSIDE:
            self._made.pop(group, None)
        elif group not in self._made and self._waiting(group) is not None:
            self._made[group] = Making(asyncio.get_running_loop().time(), 0, max(1, after.min_count))

    def verdict(self, group: str) -> Explanation | bool:
        """True: it is let in. False: nobody has asked for it yet. Else why not, by what was there a moment ago."""
        if self._age_seconds() >= TURN_SECONDS + self._groups / GROUPS_PER_SECOND:
            self._ask()
        if group not in self._verdicts:
            return False
        why = self._verdicts[group]
        return True if why is None else why

    def let_in(self, groups: Iterable[str]) -> list[str]:
        """Those of them who are let in. The answer is as new as may be."""
        if not self.pause_seconds():
            self._ask()
        return [it for it in groups if it in self._verdicts and self._verdicts[it] is None]

    def pause_seconds(self) -> float:
        """Until it may be asked anew."""
        return max(0.0, LEAST_SECONDS + self._groups / GROUPS_PER_SECOND - self._age_seconds())

    def _age_seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._asked_at

    def _ask(self) -> None:
        self._verdicts = self._asked()
        self._asked_at = asyncio.get_running_loop().time()

    def _asked(self) -> dict[str, Explanation | None]:
        snapshot = self._watched.snapshot(lasting=False)
        self._groups = len(snapshot.groups)
        candidates: list[Candidate] = []
        holdings: list[Holding] = []
        promised: list[Charge] = []
        quotas = [it for it in self._watched.facts.namespace_quotas.all() if it is not None]
        limited = {it.namespace for it in quotas}
        grouped: dict[str, int] = {}
        lapsed = self._lapsed(snapshot)
        now = self._clock.now().timestamp()
        for key, entry in snapshot.groups.items():
            group, amounts = entry.group, dict(entry.holding)
            for name, units in amounts.items():
                grouped[name] = grouped.get(name, 0) + units
            record = self._waiting(key)
            if record is not None and record.written.phase in OUTSIDE and not amounts:
                never = entry.problem or self._totals_of(snapshot).why_never(group.members, record.min_resources)
                charge = self._charge(key, record, limited)
                candidates.append(_candidate(key, group, record, never, charge, now))
                continue
            is_promised = record is not None and record.written.phase == INSIDE and key not in lapsed
            if record is not None and is_promised and (charge := self._charge(key, record, limited)):
                promised.append(charge)
            if record is not None and is_promised and record.min_resources is not None:
                for name, units in record.min_resources.entries:
                    amounts[name] = max(units, amounts.get(name, 0))
            if amounts:
                holdings.append(Holding(group.queue, amounts, group.priority, group.preemptible))
        capacity, strangers = _capacity(snapshot, grouped)
        room = NamespaceRoom(quotas, promised) if quotas else None
        return enqueue(candidates, holdings, self._queues(), capacity, strangers, room)

    def _lapsed(self, snapshot: Snapshot) -> set[str]:
        """Who was let in and keeps nobody out any more."""
        now = asyncio.get_running_loop().time()
        for key, it in self._made.items():
            record, pods = self._watched.pod_groups.get(key), len(self._watched.pods.keys_by("group", key))
            needed = it.needed if record is None else max(1, record.min_count)
            if pods != it.pods or needed != it.needed:
                self._made[key] = Making(now, pods, needed)
        late = given_up(self._made, now)

        def said_of(key: str) -> Explanation | None:
            entry = snapshot.groups.get(key)
            return None if entry is None or entry.status.said is None else entry.status.said.explanation

        return {
            key
            for key, it in self._made.items()
            if not may_still_start(said_of(key), lacks_pods=it.missing > 0, is_given_up=key in late, said_of=said_of)
        }

    def _charge(self, key: str, record: GroupRecord, limited: Set[str]) -> Charge | None:
        """What quotas of its namespace do not know of yet: once there are pods of it, they do."""
        if record.namespace not in limited or self._watched.pods.keys_by("group", key):
            return None
        asks = record.min_resources or EMPTY
        return charge_of(record.namespace, asks, max(1, record.min_count), record.min_limits)

    def _totals_of(self, snapshot: Snapshot) -> DomainTotals:
        if self._totals is None or not self._totals.is_of(snapshot.facts.domains, snapshot.columns):
            self._totals = DomainTotals(snapshot.facts.domains, snapshot.columns)
        return self._totals

    def _waiting(self, key: str) -> GroupRecord | None:
        kind = self._watched.pod_groups.kind_of(key)
        return self._watched.pod_groups.get(key) if kind is not None and kind.is_enqueued else None

    def _queues(self) -> dict[str, Queue]:
        return {record.queue.name: record.queue for record in self._watched.facts.queues.all()}


def _candidate(
    key: str, group: PodGroup, record: GroupRecord, never: Explanation | None, charge: Charge | None, now: float
) -> Candidate:
    wait = group.max_wait_seconds
    due = None if wait is None else group.created_at_seconds + wait
    return Candidate(
        key,
        group.queue,
        record.min_resources,
        group.priority,
        group.created_at_seconds,
        max(1, record.min_count),
        never,
        charge,
        due_at_seconds=due,
        is_overdue=due is not None and due <= now,
    )


def _capacity(snapshot: Snapshot, grouped: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """What all nodes have, and what is used on them by pods that are in no group."""
    columns = snapshot.columns
    total, used = columns.allocatable.sum(axis=1), columns.used.sum(axis=1)
    capacity = {name: int(total[index]) for index, name in enumerate(columns.resources)}
    strangers = {name: max(0, int(used[index]) - grouped.get(name, 0)) for index, name in enumerate(columns.resources)}
    return capacity, strangers
