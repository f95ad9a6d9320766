"""Which groups may have their pods made: those for which their queue, and all above it, have room.

Some systems (Volcano's job controller, and those written for it) make no pods before they are told so. This decides
nothing about nodes: it keeps a flood of pods out that could not start anyway. So it errs on the side of yes: who is
owed room, or outranks those who have it, gets pods, since nobody makes room for pods that are not there. Who could
never start is told so and not let in, since what it was promised would keep others out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.model.queue import ANY_FLAVOR, QueueOrder, QueueState
from allhands.model.reason import FIRST_NEVER, MORE_THAN_ALL, NEVER_ALLOWED, Explanation, Reason, explain
from allhands.model.resources import text_of_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.lifecycle.namespace_room import Charge, NamespaceRoom
    from allhands.model.queue import Queue
    from allhands.model.resources import ResourceVector

OVERCOMMIT_PERCENT: Final = 120
"""Of what all nodes have: as Volcano's own default."""
MOST_LEVELS: Final = 64
PROMISED: Final = (
    "All groups together hold, or were promised, {used} of {limit} {resource} ({percent} % of what the nodes have); "
    "the group asks for {request}."
)
PROMISED_IN_QUEUE: Final = (
    'Queue "{queue}" has given or promised {used} of its capability of {limit} {resource}; '
    "the group asks for {request}."
)
"""What groups that were let in are to have counts, too."""
_STATES: Final = {
    QueueState.CLOSED: Reason.QUEUE_CLOSED,
    QueueState.HOLD: Reason.QUEUE_HELD,
    QueueState.DRAIN: Reason.QUEUE_DRAINING,
}


NEVER_DUE: Final = 2**63


class Candidate(NamedTuple):
    """A group that waits to be let in. `asks` is None if it does not say what its pods will ask for; `never` is why it
    could not start whoever else ended, if that is known."""

    key: str
    queue: str
    asks: ResourceVector | None = None
    priority: int = 0
    created_at_seconds: int = 0
    pods: int = 1
    never: Explanation | None = None
    charge: Charge | None = None
    """What its pods would take from quotas of its namespace, if it is known."""
    due_at_seconds: int | None = None
    """When it has waited as long as it says that it may."""
    is_overdue: bool = False


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
    namespaces: NamespaceRoom | None = None,
) -> dict[str, Explanation | None]:
    """Why each of them is not let in yet, None for those who are. `strangers`: what belongs to no group at all.
    `namespaces`: what quotas of namespaces leave; it is told who is let in."""
    room = _Room(tuple(holdings), queues, capacity, strangers)
    verdicts: dict[str, Explanation | None] = {}
    closed: dict[str, tuple[int, str]] = {}
    """Strict queue -> how many have been refused, and the first of them."""
    for it in sorted(candidates, key=_place_in_line):
        refused, first = closed.get(it.queue, (0, ""))
        why = _behind(it.queue, refused + 1, first, verdicts[first]) if first else room.why_not(it)
        if (why is None or not why.is_never) and namespaces is not None and it.charge is not None:
            by_namespace = namespaces.why_not(it.charge)
            # That no time helps is the more important news.
            why = by_namespace if by_namespace is not None and by_namespace.is_never else why or by_namespace
        verdicts[it.key] = why
        if why is None:
            room.take(it)
            if namespaces is not None and it.charge is not None:
                namespaces.take(it.charge)
        elif it.queue in queues and queues[it.queue].order is QueueOrder.FIFO_STRICT:
            closed[it.queue] = (refused + 1, first or it.key)
    return verdicts


def _place_in_line(candidate: Candidate) -> tuple[int, int, int, str]:
    """Of those with the same priority, who says how long it may wait goes before who does not."""
    due = NEVER_DUE if candidate.due_at_seconds is None else candidate.due_at_seconds
    return -candidate.priority, due, candidate.created_at_seconds, candidate.key


def _behind(queue: str, position: int, first: str, why_first: Explanation | None) -> Explanation:
    why = explain(Reason.BEHIND_OTHERS, position=position, waiting=position, queue=queue, first=first)
    return why.with_more(FIRST_NEVER) if why_first is not None and why_first.is_never else why


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
        self._paths: dict[str, list[str]] = {}
        self._refused: dict[tuple[object, ...], Explanation] = {}
        """Why those were refused who are like others: what is taken meanwhile helps nobody."""
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
        known = self._paths.get(queue)
        if known is None:
            known = self._paths[queue] = self._found_path(queue)
        return known

    def _found_path(self, queue: str) -> list[str]:
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
        alike = (
            candidate.queue,
            candidate.asks,
            candidate.priority,
            candidate.pods,
            candidate.never,
            candidate.is_overdue,
        )
        why = self._refused.get(alike)
        if why is None:
            why = self._asked(candidate)
            if why is not None:
                self._refused[alike] = why
        return why

    def _asked(self, candidate: Candidate) -> Explanation | None:
        if self._queues and candidate.queue and candidate.queue not in self._queues:
            return explain(Reason.QUEUE_NOT_FOUND, queue=candidate.queue)
        path = [self._queues[name] for name in self._path(candidate.queue) if name in self._queues]
        for queue in path:
            if not queue.state.starts_groups:
                return explain(_STATES[queue.state], queue=queue.name)
        if candidate.never is not None:
            return candidate.never
        if candidate.asks is None:
            return None
        found: Explanation | None = None
        for name, units in candidate.asks.entries:
            why = self._why_short(candidate, path, name, units) if units > 0 else None
            if why is not None and why.is_never:
                return why
            found = found or why
        return found

    def _why_short(self, candidate: Candidate, path: list[Queue], name: str, units: int) -> Explanation | None:
        is_owed = False
        over: Explanation | None = None
        for queue in path:
            quota = queue.quota(name, ANY_FLAVOR)
            used = self._by_queue.get(queue.name, {}).get(name, 0)
            if quota is not None and quota.capability is not None and used + units > quota.capability:
                why = _over_capability(queue.name, name, used, quota.capability, units)
                if units > quota.capability:
                    return why.with_more(NEVER_ALLOWED, never=1)
                over = over or why
            if quota is not None and quota.deserved is not None and used + units <= quota.deserved:
                is_owed = True
        if over is not None:
            return over
        everything = self._capacity.get(name, 0)
        if units > everything and not is_owed:
            return _more_than_all(candidate.pods, name, units, everything)
        limit = everything * OVERCOMMIT_PERCENT // 100
        used = self._all.get(name, 0)
        if (
            is_owed
            or candidate.is_overdue
            or used + units <= limit
            or used + units - self._outranked(candidate, name) <= limit
        ):
            return None
        numbers: dict[str, int | str] = {
            "used": text_of_units(name, used),
            "limit": text_of_units(name, limit),
            "percent": OVERCOMMIT_PERCENT,
            "resource": name,
            "request": text_of_units(name, units),
        }
        return Explanation(Reason.INSUFFICIENT_RESOURCES, PROMISED, tuple(sorted(numbers.items())))

    def _outranked(self, candidate: Candidate, name: str) -> int:
        """What those have who would have to make room for it."""
        below = self._below.get(candidate.queue, {})
        return sum(amounts.get(name, 0) for priority, amounts in below.items() if priority < candidate.priority)


def _over_capability(queue: str, name: str, used: int, limit: int, units: int) -> Explanation:
    numbers: dict[str, int | str] = {
        "queue": queue,
        "used": text_of_units(name, used),
        "limit": text_of_units(name, limit),
        "resource": name,
        "request": text_of_units(name, units),
    }
    return Explanation(Reason.QUEUE_OVER_CAPABILITY, PROMISED_IN_QUEUE, tuple(sorted(numbers.items())))


def _more_than_all(pods: int, name: str, units: int, everything: int) -> Explanation:
    """More nodes may come: who is owed that much has its pods made, and whoever adds nodes sees them."""
    numbers: dict[str, int | str] = {
        "members": pods,
        "together": text_of_units(name, units),
        "scarce": name,
        "everything": text_of_units(name, everything),
    }
    return Explanation(Reason.GROUP_NEVER_FITS, MORE_THAN_ALL, tuple(sorted(numbers.items())))
