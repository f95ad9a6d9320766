"""How many members of each part of a group must be placed for it to be whole, and how many more it could use.

What "whole" means is the model's rule (`SubGroup`); here is only the choice of which waiting members reach it: as few
as possible, those of parts that have members already first, then those who come first in the group. No sub-group gets
members that do not make it whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.snapshot import GroupEntry
    from allhands.model.podgroup import Slot, SubGroup, TopologyRule


class Take(NamedTuple):
    """`entry.pending[members].pods[first : first + number]`."""

    members: int
    first: int
    number: int


class Part(msgspec.Struct, frozen=True):
    """What to place for one part of the group: its own members, and its parts'."""

    name: str
    rule: TopologyRule | None
    takes: tuple[Take, ...]
    children: tuple[Part, ...] = ()

    @property
    def count(self) -> int:
        return sum(take.number for take in self.takes) + sum(child.count for child in self.children)

    def all_takes(self) -> tuple[Take, ...]:
        return self.takes + tuple(take for child in self.children for take in child.all_takes())


def minimum(entry: GroupEntry) -> Part | None:
    """The fewest waiting members, and at least one, that make the group whole; None if all of them do not."""
    members = entry.group.members
    if not members.children and not members.task_minimums and len(entry.pending) == 1 and not entry.present:
        # Nearly every group: members that are all alike.
        count = max(1, members.min_count)
        if count > len(entry.pending[0].pods):
            return None
        return Part("", members.topology, (Take(0, 0, count),))
    available: dict[Slot, int] = {}
    for waiting in entry.pending:
        available[waiting.slot] = available.get(waiting.slot, 0) + len(waiting.pods)
    present = entry.present_counts
    taken: dict[Slot, int] = {}
    if not _choose(members, present, available, taken):
        return None
    _spare(members, present, taken)
    if not taken and available and not present and not _fill(members, 1, None, present, available, taken):
        # A group without a minimum begins with any one of its members, or of its sub-groups.
        return None
    return _parts(members, entry, taken)


def minimum_of(part: SubGroup, entry: GroupEntry, present: Mapping[Slot, int], used: list[int]) -> Part | None:
    """The same for one sub-group, when `used` of the waiting members are placed and `present` counts them."""
    available: dict[Slot, int] = {}
    for index, waiting in enumerate(entry.pending):
        available[waiting.slot] = available.get(waiting.slot, 0) + len(waiting.pods) - used[index]
    taken: dict[Slot, int] = {}
    if not _choose(part, present, available, taken) or not taken:
        return None
    _spare(part, present, taken)
    return _parts(part, entry, taken, used)


def _spare(part: SubGroup, present: Mapping[Slot, int], taken: dict[Slot, int]) -> None:
    """Leaves out whom a later choice made superfluous: one member may count for its part, its task and the whole."""
    if not part.children and not part.task_minimums:
        return
    inside = {below.name for below in part.walk()}
    if _total(present, inside) + _total(taken, inside) <= part.required_count:
        return  # with one less it would not be whole, whoever that is
    for slot in sorted(taken):
        low, high = 0, taken[slot]
        while low < high:
            middle = (low + high + 1) // 2
            if _is_sound(part, present, taken | {slot: taken[slot] - middle}):
                low = middle
            else:
                high = middle - 1
        taken[slot] -= low
        if not taken[slot]:
            del taken[slot]
    for below in part.walk():
        # What a sub-group cannot spare in part it may in whole.
        names = {it.name for it in below.walk()}
        without = {slot: count for slot, count in taken.items() if slot.subgroup not in names}
        if below is not part and len(without) < len(taken) and _is_sound(part, present, without):
            for slot in taken.keys() - without.keys():
                del taken[slot]


def _is_sound(part: SubGroup, present: Mapping[Slot, int], taken: Mapping[Slot, int]) -> bool:
    """Whether these make the part whole, and every sub-group that some of them join."""
    counts = _together(present, taken)
    if not part.is_whole(counts):
        return False
    joined = {slot.subgroup for slot, count in taken.items() if count}
    return all(
        below.is_whole(counts)
        for below in part.walk()
        if not joined.isdisjoint(it.name for it in below.walk()) and below is not part
    )


def _choose(part: SubGroup, present: Mapping[Slot, int], available: Mapping[Slot, int], taken: dict[Slot, int]) -> bool:
    """Adds to `taken` what makes the part whole; False if nothing does."""
    if part.children and not _choose_children(part, present, available, taken):
        return False
    inside = {below.name for below in part.walk()}
    for task in part.task_minimums:
        have = _total(present, inside, task.task) + _total(taken, inside, task.task)
        if not _fill(part, task.min_count - have, task.task, present, available, taken):
            return False
    have = _total(present, inside) + _total(taken, inside)
    return _fill(part, part.min_count - have, None, present, available, taken)


def _choose_children(
    part: SubGroup, present: Mapping[Slot, int], available: Mapping[Slot, int], taken: dict[Slot, int]
) -> bool:
    options = _ways(part.children, present, available)
    if len(options) < part.required_children:
        return False
    for attempt in options[: part.required_children]:
        _add(taken, attempt)
    return True


def _ways(
    parts: Iterable[SubGroup], present: Mapping[Slot, int], available: Mapping[Slot, int]
) -> list[dict[Slot, int]]:
    """What makes each of these whole that can be: those with most members there first, then those that lack least."""
    options: list[tuple[int, int, int, dict[Slot, int]]] = []
    for index, part in enumerate(parts):
        attempt: dict[Slot, int] = {}
        if _choose(part, present, available, attempt):
            here = _total(present, {below.name for below in part.walk()})
            options.append((-here, sum(attempt.values()), index, attempt))
    return [attempt for _, _, _, attempt in sorted(options, key=lambda option: option[:3])]


def _fill(
    part: SubGroup,
    need: int,
    task: str | None,
    present: Mapping[Slot, int],
    available: Mapping[Slot, int],
    taken: dict[Slot, int],
) -> bool:
    """So many more members (of a task): of the part itself and of sub-groups that are whole; then of others, each of
    which is made whole, since a sub-group gets what it must have or nothing."""
    places = {slot: place for place, slot in enumerate(available)}
    while need > 0:
        counts = _together(present, taken)
        names, closed = _open_parts(part, counts)
        slots = [slot for slot in available if slot.subgroup in names and task in (None, slot.task)]
        # Its own first; of others those that have got some already; then by their places in the group.
        slots.sort(key=lambda slot: (slot.subgroup != part.name and 1 + (slot not in taken), places[slot]))
        for slot in slots:
            more = min(need, available[slot] - taken.get(slot, 0))
            if more > 0:
                taken[slot] = taken.get(slot, 0) + more
                need -= more
        if need <= 0:
            return True
        useful = [it for it in closed if _has_any(it, task, available)]
        attempt = next(iter(_ways(useful, present, available)), None)
        if attempt is None:
            return False
        _add(taken, attempt)
        need -= sum(count for slot, count in attempt.items() if task in (None, slot.task))
    return True


def _open_parts(part: SubGroup, counts: Mapping[Slot, int]) -> tuple[set[str], list[SubGroup]]:
    """The names of those that may get any number of members, itself among them; and those just below that are not whole
    yet."""
    names, closed = {part.name}, []
    for child in part.children:
        if child.is_whole(counts):
            inner, still_closed = _open_parts(child, counts)
            names |= inner
            closed += still_closed
        else:
            closed.append(child)
    return names, closed


def _has_any(part: SubGroup, task: str | None, available: Mapping[Slot, int]) -> bool:
    names = {below.name for below in part.walk()}
    return any(count and slot.subgroup in names and task in (None, slot.task) for slot, count in available.items())


def _together(present: Mapping[Slot, int], taken: Mapping[Slot, int]) -> dict[Slot, int]:
    counts = dict(present)
    _add(counts, taken)
    return counts


def _add(counts: dict[Slot, int], more: Mapping[Slot, int]) -> None:
    for slot, count in more.items():
        counts[slot] = counts.get(slot, 0) + count


def _total(counts: Mapping[Slot, int], inside: set[str], task: str | None = None) -> int:
    return sum(
        count for slot, count in counts.items() if slot.subgroup in inside and (task is None or slot.task == task)
    )


def _parts(part: SubGroup, entry: GroupEntry, taken: Mapping[Slot, int], skip: list[int] | None = None) -> Part:
    left = dict(taken)
    return _part(part, entry, left, skip or [0] * len(entry.pending))


def _part(part: SubGroup, entry: GroupEntry, left: dict[Slot, int], skip: list[int]) -> Part:
    takes = []
    for index, waiting in enumerate(entry.pending):
        if waiting.slot.subgroup != part.name:
            continue
        count = min(left.get(waiting.slot, 0), len(waiting.pods) - skip[index])
        if count > 0:
            left[waiting.slot] -= count
            takes.append(Take(index, skip[index], count))
    children = tuple(_part(child, entry, left, skip) for child in part.children)
    return Part(part.name, part.topology, tuple(takes), tuple(child for child in children if child.count))
