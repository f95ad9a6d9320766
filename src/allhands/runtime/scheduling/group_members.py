"""What groups take over from the pods that there are of them: how many are in each sub-group, the highest priority.

A change of a pod costs the same however many there are. Groups for which something is different are named once, when
somebody asks. Nothing is decided here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allhands.dialects.group_parts import NO_PART, part_of
from allhands.dialects.groups import MembersSeen
from allhands.model.pod import PodPhase
from allhands.runtime.informer import key_of

if TYPE_CHECKING:
    from allhands.dialects.group_parts import PartRule
    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodRecord
    from allhands.runtime.informer import Informer


class _Tally:
    __slots__ = ("highest", "parts", "priorities", "rules")

    def __init__(self) -> None:
        self.priorities: dict[int, int] = {}
        self.highest: int | None = None
        self.rules: tuple[PartRule, ...] = ()
        self.parts: Counter[str] = Counter()
        """By `rules`."""


class GroupMembers:
    """It must hear of pods before those who ask it about groups."""

    def __init__(self, pods: Informer[PodRecord]) -> None:
        self._pods = pods
        self._tallies: dict[str, _Tally] = {}
        self._stale: dict[str, None] = {}
        self._with_parts = 0
        pods.on_change(self._pod_changed)

    def of(self, record: GroupRecord, key: str) -> MembersSeen:
        """As of now, by the rules that the record has now."""
        self._stale.pop(key, None)
        tally = self._tallies.get(key)
        if tally is None and record.parts:
            tally = self._tallies[key] = _Tally()
        if tally is None:
            return MembersSeen()
        if tally.rules != record.parts:
            members = self._alive(key) if record.parts else []
            self._with_parts += bool(record.parts) - bool(tally.rules)
            tally.rules, tally.parts = record.parts, Counter(part_of(record.parts, it.pod.labels) for it in members)
        return MembersSeen(dict(tally.parts), tally.highest)

    @property
    def any_parts(self) -> bool:
        """Whether any group has sub-groups."""
        return self._with_parts > 0

    def part(self, record: PodRecord, group: GroupRecord) -> str:
        return part_of(group.parts, record.pod.labels) if group.parts else NO_PART

    def forget(self, key: str) -> None:
        """The object is gone; its pods may not be."""
        if (tally := self._tallies.get(key)) is not None:
            self._with_parts -= bool(tally.rules)
            tally.rules, tally.parts = (), Counter()
            if not tally.priorities:
                del self._tallies[key]

    def take_stale(self) -> list[str]:
        """The groups for which something is different since they were asked about."""
        if not self._stale:
            return []
        stale, self._stale = list(self._stale), {}
        return stale

    def _alive(self, key: str) -> list[PodRecord]:
        return [it for it in self._pods.by("group", key) if _counts(it)]

    def _pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        del key
        if before is not None and after is not None and _same(before, after):
            return
        if before is not None and before.group_name:
            self._count(before, -1)
        if after is not None and after.group_name:
            self._count(after, 1)

    def _count(self, record: PodRecord, sign: int) -> None:
        key = key_of(record.pod.namespace, record.group_name)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally()
        priorities, priority = tally.priorities, record.pod.priority
        if left := priorities.get(priority, 0) + sign:
            priorities[priority] = left
        else:
            del priorities[priority]
        if priority not in priorities or tally.highest is None or priority > tally.highest:
            highest = max(priorities, default=None)
            if highest != tally.highest:
                tally.highest = highest
                self._stale[key] = None
        if tally.rules and _counts(record):
            part = part_of(tally.rules, record.pod.labels)
            tally.parts[part] += sign
            if not tally.parts[part]:
                del tally.parts[part]
            self._stale[key] = None
        if not priorities and not tally.rules:
            del self._tallies[key]


def _counts(record: PodRecord) -> bool:
    return record.pod.phase is not PodPhase.FAILED and not record.pod.deleting


def _same(before: PodRecord, after: PodRecord) -> bool:
    """For what is counted here."""
    old, new = before.pod, after.pod
    return (
        before.group_name == after.group_name
        and old.priority == new.priority
        and _counts(before) == _counts(after)
        and old.labels == new.labels
    )
