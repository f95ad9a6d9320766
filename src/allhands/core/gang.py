"""How many members of each part of a group must be placed for it to be whole, and how many more it could use.

What "whole" means is the model's rule (`SubGroup`); here is only the choice of which waiting members reach it: as few
as possible, those of parts that have members already first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    if not taken and available and not present:
        # A group without a minimum begins with any one of its members.
        taken[min(available)] = 1
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
        counts = {key: present.get(key, 0) + taken.get(key, 0) for key in {*present, *taken}}
        low, high = 0, taken[slot]
        while low < high:
            middle = (low + high + 1) // 2
            if part.is_whole(counts | {slot: counts[slot] - middle}):
                low = middle
            else:
                high = middle - 1
        taken[slot] -= low
        if not taken[slot]:
            del taken[slot]


def _choose(part: SubGroup, present: Mapping[Slot, int], available: Mapping[Slot, int], taken: dict[Slot, int]) -> bool:
    """Adds to `taken` what makes the part whole; False if nothing does."""
    if part.children and not _choose_children(part, present, available, taken):
        return False
    inside = {below.name for below in part.walk()}
    slots = [slot for slot in available if slot.subgroup in inside]
    slots.sort(key=lambda slot: (slot.subgroup != part.name, taken.get(slot, 0) == 0, slot))
    for task in part.task_minimums:
        have = _total(present, inside, task.task) + _total(taken, inside, task.task)
        own = [slot for slot in slots if slot.task == task.task]
        if not _fill(task.min_count - have, own, available, taken):
            return False
    have = _total(present, inside) + _total(taken, inside)
    return _fill(part.min_count - have, slots, available, taken)


def _choose_children(
    part: SubGroup, present: Mapping[Slot, int], available: Mapping[Slot, int], taken: dict[Slot, int]
) -> bool:
    options: list[tuple[int, int, int, dict[Slot, int]]] = []
    for index, child in enumerate(part.children):
        attempt: dict[Slot, int] = {}
        if _choose(child, present, available, attempt):
            here = _total(present, {below.name for below in child.walk()})
            options.append((-here, sum(attempt.values()), index, attempt))
    if len(options) < part.required_children:
        return False
    for _, _, _, attempt in sorted(options, key=lambda option: option[:3])[: part.required_children]:
        for slot, count in attempt.items():
            taken[slot] = taken.get(slot, 0) + count
    return True


def _fill(need: int, slots: list[Slot], available: Mapping[Slot, int], taken: dict[Slot, int]) -> bool:
    for slot in slots:
        if need <= 0:
            return True
        more = min(need, available[slot] - taken.get(slot, 0))
        if more > 0:
            taken[slot] = taken.get(slot, 0) + more
            need -= more
    return need <= 0


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
