"""Counts what queues hold: groups by phase and the resources of their pods, kept up to date change by change.

A change costs the same however many pods there are. It decides nothing and looks at no object: whoever feeds it says
which group a pod belongs to and which queue a group names.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.model.resources import EMPTY, PODS, ResourceVector

if TYPE_CHECKING:
    from collections.abc import Iterable


class Phase(enum.StrEnum):
    """Of a group, in Volcano's words, which are also the names of the counts in a queue's status."""

    PENDING = "pending"
    """It waits."""
    INQUEUE = "inqueue"
    """It is admitted, or has pods on nodes, and was never whole."""
    RUNNING = "running"
    """At least its minimum of pods runs, those that are done already included."""
    UNKNOWN = "unknown"
    """It was whole and has lost members."""
    COMPLETED = "completed"


class PodPart(enum.StrEnum):
    """What one pod does for its group."""

    WAITS = "waits"
    BOUND = "bound"
    RUNS = "runs"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class PodShare(NamedTuple):
    """A pod as its queue sees it. `queue` is what the pod itself names, for one that is a group of its own."""

    group: str
    queue: str
    part: PodPart
    holds: ResourceVector = EMPTY
    counts: bool = True
    """Whether it is ours to schedule."""


class GroupShare(NamedTuple):
    """A group as some object declares it. `counts`: whether it is known to be ours, whatever its pods are."""

    queue: str
    min_count: int = 1
    is_admitted: bool = False
    has_started: bool = False
    has_ended: bool = False
    counts: bool = True


class QueueUse(msgspec.Struct, frozen=True):
    phases: tuple[tuple[Phase, int], ...] = ()
    holds: ResourceVector = EMPTY

    def count(self, phase: Phase) -> int:
        return dict(self.phases).get(phase, 0)

    @property
    def groups(self) -> int:
        return sum(number for _, number in self.phases)

    @property
    def live_groups(self) -> int:
        return self.groups - self.count(Phase.COMPLETED)


NO_USE: Final = QueueUse()
_ONE_POD: Final = ((PODS, 1),)
_PHASES: Final = tuple(Phase)
_PENDING, _INQUEUE, _RUNNING, _UNKNOWN, _COMPLETED = range(len(_PHASES))
"""Places in it. Enumerations are slow keys, and much is counted here."""
_PLACES: Final = {part.value: place for place, part in enumerate(PodPart)}
_WAITS, _BOUND, _RUNS, _SUCCEEDED, _FAILED = range(len(_PLACES))
_UNDECLARED: Final = GroupShare("")


class _Group:
    __slots__ = ("declared", "holds", "named", "ours", "parts", "pods")

    def __init__(self) -> None:
        self.declared: GroupShare | None = None
        self.pods = 0
        self.parts = [0] * len(_PLACES)
        self.holds: dict[str, int] = {}
        self.ours = 0
        self.named: dict[str, int] = {}
        """Queue -> how many pods name it."""

    def count(self, share: PodShare, sign: int) -> None:
        place = _PLACES[share.part._value_]
        self.parts[place] += sign
        self.pods += sign
        if share.counts:
            self.ours += sign
            if place in (_BOUND, _RUNS):
                _add(self.holds, share.holds.entries, sign)
                _add(self.holds, _ONE_POD, sign)
        if share.queue:
            _add(self.named, ((share.queue, 1),), sign)

    @property
    def is_empty(self) -> bool:
        return self.declared is None and not self.pods

    @property
    def counts(self) -> bool:
        return self.ours > 0 or (self.declared is not None and self.declared.counts)

    @property
    def queue(self) -> str:
        if self.declared is not None and self.declared.queue:
            return self.declared.queue
        return min(self.named) if self.named else ""

    @property
    def phase(self) -> int:
        declared = self.declared or _UNDECLARED
        waits, bound, runs, succeeded, _failed = self.parts
        if declared.has_ended or (self.pods and not waits and not bound and not runs):
            return _COMPLETED
        if runs and runs + succeeded >= declared.min_count:
            return _RUNNING
        if declared.has_started:
            return _UNKNOWN
        return _INQUEUE if declared.is_admitted or bound or runs else _PENDING


class _Totals:
    __slots__ = ("holds", "phases")

    def __init__(self) -> None:
        self.phases = [0] * len(_PHASES)
        self.holds: dict[str, int] = {}


class QueueTally:
    """`default` is the queue of groups that name none."""

    def __init__(self, default: str) -> None:
        self._default = default
        self._groups: dict[str, _Group] = {}
        self._pods: dict[str, PodShare] = {}
        self._totals: dict[str, _Totals] = {}

    def use(self, queue: str) -> QueueUse:
        totals = self._totals.get(queue)
        if totals is None:
            return NO_USE
        phases = tuple((phase, number) for phase, number in zip(_PHASES, totals.phases, strict=True) if number)
        return QueueUse(phases, ResourceVector.of(dict(totals.holds)))

    def set_group(self, key: str, share: GroupShare | None) -> tuple[str, ...]:
        """The queues for which something is different now."""
        group = self._groups.get(key)
        if (None if group is None else group.declared) == share:
            return ()
        if group is None:
            group = self._groups[key] = _Group()
        before = self._take_out(group)
        group.declared = share
        return self._put_back(key, group, before)

    def set_pod(self, key: str, share: PodShare | None) -> tuple[str, ...]:
        """The same, of a pod; a pod may change its group."""
        known = self._pods.get(key)
        if known == share:
            return ()
        touched: tuple[str, ...] = ()
        if known is not None:
            del self._pods[key]
            if share is None or share.group != known.group:
                touched += self._change(known.group, known, None)
                known = None
        if share is not None:
            self._pods[key] = share
            touched += self._change(share.group, known, share)
        return touched

    def _change(self, group_key: str, old: PodShare | None, new: PodShare | None) -> tuple[str, ...]:
        group = self._groups.get(group_key)
        if group is None:
            group = self._groups[group_key] = _Group()
        if old is not None and new is not None and old.queue == new.queue and old.counts == new.counts:
            return self._step(group, old, new)
        before = self._take_out(group)
        if old is not None:
            group.count(old, -1)
        if new is not None:
            group.count(new, 1)
        return self._put_back(group_key, group, before)

    def _step(self, group: _Group, old: PodShare, new: PodShare) -> tuple[str, ...]:
        """A pod went on, and its group stays where it is: most changes are such."""
        phase = group.phase
        for share, sign in ((old, -1), (new, 1)):
            group.count(share, sign)
        if not group.counts:
            return ()
        queue = group.queue or self._default
        totals = self._totals[queue]
        if group.phase != phase:
            totals.phases[phase] -= 1
            totals.phases[group.phase] += 1
        for share, sign in ((old, -1), (new, 1)):
            if share.counts and _PLACES[share.part._value_] in (_BOUND, _RUNS):
                _add(totals.holds, share.holds.entries, sign)
                _add(totals.holds, _ONE_POD, sign)
        return (queue,)

    def _take_out(self, group: _Group) -> str:
        """From its queue; "" if it was counted nowhere."""
        if group.is_empty or not group.counts:
            return ""
        queue = group.queue or self._default
        totals = self._totals[queue]
        totals.phases[group.phase] -= 1
        _add(totals.holds, group.holds.items(), -1)
        return queue

    def _put_back(self, key: str, group: _Group, before: str) -> tuple[str, ...]:
        if group.is_empty:
            del self._groups[key]
        queue = ""
        if not group.is_empty and group.counts:
            queue = group.queue or self._default
            totals = self._totals.get(queue)
            if totals is None:
                totals = self._totals[queue] = _Totals()
            totals.phases[group.phase] += 1
            _add(totals.holds, group.holds.items(), 1)
        if before == queue:
            return (queue,) if queue else ()
        if before and not any(self._totals[before].phases):
            del self._totals[before]
        return tuple(name for name in (before, queue) if name)


def _add(sums: dict[str, int], entries: Iterable[tuple[str, int]], sign: int) -> None:
    for name, units in entries:
        total = sums.get(name, 0) + sign * units
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)
