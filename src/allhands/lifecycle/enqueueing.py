"""Which groups may have their pods made: those for which their queue, and all above it, have room.

Some systems (Volcano's job controller, and those written for it) make no pods before they are told so. This decides
nothing about nodes: it keeps a flood of pods out that could not start anyway. So it errs on the side of yes: who is
owed room, or outranks those who have it, gets pods, since nobody makes room for pods that are not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.model.queue import ANY_FLAVOR, QueueOrder, QueueState
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import quantity_of_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.model.queue import Queue
    from allhands.model.resources import ResourceVector

OVERCOMMIT_PERCENT: Final = 120
"""Of what all nodes have: as Volcano's own default."""
MOST_LEVELS: Final = 64
PROMISED: Final = (
    "All groups together hold, or were promised, {used} of {limit} {resource} ({percent} % of what the nodes have); "
    "the group asks for {request}."
)
_STATES: Final = {
    QueueState.CLOSED: Reason.QUEUE_CLOSED,
    QueueState.HOLD: Reason.QUEUE_HELD,
    QueueState.DRAIN: Reason.QUEUE_DRAINING,
}


class Candidate(NamedTuple):
    """A group that waits to be let in. `asks` is None if it does not say what its pods will ask for."""

    key: str
    queue: str
    asks: ResourceVector | None = None
    priority: int = 0
    created_at_seconds: int = 0


class Holding(NamedTuple):
    """What a group has on nodes, or was promised."""

    queue: str
    amounts: Mapping[str, int]
    priority: int = 0
    preemptible: bool = True


def enqueue(
    candidates: Iterable[Candidate],
    holdings: Iterable[Holding],
    queues: Mapping[str, Queue],
    capacity: Mapping[str, int],
    strangers: Mapping[str, int],
) -> dict[str, Explanation | None]:
    """Why each of them is not let in yet, None for those who are. `strangers`: what belongs to no group at all."""
    room = _Room(tuple(holdings), queues, capacity, strangers)
    verdicts: dict[str, Explanation | None] = {}
    closed: dict[str, tuple[int, str]] = {}
    """Strict queue -> how many have been refused, and the first of them."""
    for it in sorted(candidates, key=lambda it: (-it.priority, it.created_at_seconds, it.key)):
        refused, first = closed.get(it.queue, (0, ""))
        if first:
            why: Explanation | None = explain(
                Reason.BEHIND_OTHERS, position=refused + 1, waiting=refused + 1, queue=it.queue, first=first
            )
        else:
            why = room.why_not(it)
        verdicts[it.key] = why
        if why is None:
            room.take(it)
        elif it.queue in queues and queues[it.queue].order is QueueOrder.FIFO_STRICT:
            closed[it.queue] = (refused + 1, first or it.key)
    return verdicts


class _Room:
    def __init__(
        self,
        holdings: tuple[Holding, ...],
        queues: Mapping[str, Queue],
        capacity: Mapping[str, int],
        strangers: Mapping[str, int],
    ) -> None:
        self._queues = queues
        self._capacity = capacity
        self._all = dict(strangers)
        self._by_queue: dict[str, dict[str, int]] = {}
        self._below: dict[str, dict[int, dict[str, int]]] = {}
        """Queue -> priority -> what those have together who are directly in it and can be preempted."""
        for it in holdings:
            self._add(it.queue, it.amounts)
            if it.preemptible:
                amounts = self._below.setdefault(it.queue, {}).setdefault(it.priority, {})
                for name, units in it.amounts.items():
                    amounts[name] = amounts.get(name, 0) + units

    def _add(self, queue: str, amounts: Mapping[str, int]) -> None:
        for name, units in amounts.items():
            self._all[name] = self._all.get(name, 0) + units
            for level in self._path(queue):
                used = self._by_queue.setdefault(level, {})
                used[name] = used.get(name, 0) + units

    def _path(self, queue: str) -> list[str]:
        """The queue and all above it; a circle ends it."""
        path = [queue]
        while len(path) < MOST_LEVELS:
            known = self._queues.get(path[-1])
            if known is None or known.parent is None or known.parent in path:
                break
            path.append(known.parent)
        return path

    def take(self, candidate: Candidate) -> None:
        if candidate.asks is not None:
            self._add(candidate.queue, dict(candidate.asks.entries))

    def why_not(self, candidate: Candidate) -> Explanation | None:
        if self._queues and candidate.queue and candidate.queue not in self._queues:
            return explain(Reason.QUEUE_NOT_FOUND, queue=candidate.queue)
        path = [self._queues[name] for name in self._path(candidate.queue) if name in self._queues]
        for queue in path:
            if not queue.state.starts_groups:
                return explain(_STATES[queue.state], queue=queue.name)
        if candidate.asks is None:
            return None
        for name, units in candidate.asks.entries:
            if units > 0 and (why := self._why_short(candidate, path, name, units)) is not None:
                return why
        return None

    def _why_short(self, candidate: Candidate, path: list[Queue], name: str, units: int) -> Explanation | None:
        is_owed = False
        for queue in path:
            quota = queue.quota(name, ANY_FLAVOR)
            used = self._by_queue.get(queue.name, {}).get(name, 0)
            if quota is not None and quota.capability is not None and used + units > quota.capability:
                return explain(
                    Reason.QUEUE_OVER_CAPABILITY,
                    queue=queue.name,
                    used=_text(name, used),
                    limit=_text(name, quota.capability),
                    resource=name,
                    request=_text(name, units),
                )
            if quota is not None and quota.deserved is not None and used + units <= quota.deserved:
                is_owed = True
        limit = self._capacity.get(name, 0) * OVERCOMMIT_PERCENT // 100
        used = self._all.get(name, 0)
        if is_owed or used + units <= limit or used + units - self._outranked(candidate, name) <= limit:
            return None
        numbers: dict[str, int | str] = {
            "used": _text(name, used),
            "limit": _text(name, limit),
            "percent": OVERCOMMIT_PERCENT,
            "resource": name,
            "request": _text(name, units),
        }
        return Explanation(Reason.INSUFFICIENT_RESOURCES, PROMISED, tuple(sorted(numbers.items())))

    def _outranked(self, candidate: Candidate, name: str) -> int:
        """What those have who would have to make room for it."""
        below = self._below.get(candidate.queue, {})
        return sum(amounts.get(name, 0) for priority, amounts in below.items() if priority < candidate.priority)


def _text(name: str, units: int) -> str:
    return str(quantity_of_units(name, units))
