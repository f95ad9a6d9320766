"""Which of the groups that wait may have their pods made, asked once in a while for all of them together.

It only gathers what is there and asks `lifecycle.enqueueing`; who is let in is written by others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from allhands.lifecycle.enqueueing import Candidate, Holding, enqueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.snapshot import Snapshot
    from allhands.dialects.groups import GroupRecord
    from allhands.model.queue import Queue
    from allhands.model.reason import Explanation
    from allhands.runtime.scheduling.watched_world import WatchedWorld

TURN_SECONDS: Final = 1.0
GROUPS_PER_SECOND: Final = 2_000
"""With many groups it is asked more seldom."""
OUTSIDE: Final = ("", "Pending")
"""The phases of groups that have not been let in."""


class Enqueueing:
    def __init__(self, watched: WatchedWorld) -> None:
        self._watched = watched
        self._verdicts: Mapping[str, Explanation | None] = {}
        self._until = 0.0

    def verdict(self, group: str) -> Explanation | bool:
        """True: it is let in. False: nobody has asked for it yet. Else why not, by what was there a moment ago."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._verdicts = self._asked()
            self._until = now + TURN_SECONDS + len(self._verdicts) / GROUPS_PER_SECOND
        if group not in self._verdicts:
            return False
        why = self._verdicts[group]
        return True if why is None else why

    def _asked(self) -> dict[str, Explanation | None]:
        snapshot = self._watched.snapshot(lasting=False)
        candidates: list[Candidate] = []
        holdings: list[Holding] = []
        grouped: dict[str, int] = {}
        for key, entry in snapshot.groups.items():
            group, amounts = entry.group, dict(entry.holding)
            for name, units in amounts.items():
                grouped[name] = grouped.get(name, 0) + units
            record = self._waiting(key)
            if record is not None and record.written.phase in OUTSIDE and not amounts:
                asks = record.min_resources
                candidates.append(Candidate(key, group.queue, asks, group.priority, group.created_at_seconds))
                continue
            if record is not None and record.written.phase == "Inqueue" and record.min_resources is not None:
                for name, units in record.min_resources.entries:
                    amounts[name] = max(units, amounts.get(name, 0))
            if amounts:
                holdings.append(Holding(group.queue, amounts, group.priority, group.preemptible))
        capacity, strangers = _capacity(snapshot, grouped)
        return enqueue(candidates, holdings, self._queues(), capacity, strangers)

    def _waiting(self, key: str) -> GroupRecord | None:
        kind = self._watched.pod_groups.kind_of(key)
        return self._watched.pod_groups.get(key) if kind is not None and kind.is_enqueued else None

    def _queues(self) -> dict[str, Queue]:
        return {record.queue.name: record.queue for record in self._watched.facts.queues.all()}


def _capacity(snapshot: Snapshot, grouped: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """What all nodes have, and what is used on them by pods that are in no group."""
    columns = snapshot.columns
    total, used = columns.allocatable.sum(axis=1), columns.used.sum(axis=1)
    capacity = {name: int(total[index]) for index, name in enumerate(columns.resources)}
    strangers = {name: max(0, int(used[index]) - grouped.get(name, 0)) for index, name in enumerate(columns.resources)}
    return capacity, strangers
