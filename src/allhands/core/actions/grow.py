"""Adds members beyond the minimum to groups that have it, as many as fit and as their queues allow, last of all.

A sub-group that is not whole is a gang of its own: it is added whole or not at all. Where the members of a part must
stay together, further ones join them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.actions.allocate import Demand
from allhands.core.actions.placing import all_but, avoided_nodes, hold_room, place_group
from allhands.core.explain import shortfall_words, why_incomplete
from allhands.core.gang import Part, Take, minimum_of
from allhands.core.plan import Bind, Start
from allhands.core.topology.around import allowed_around, rings, roomiest
from allhands.core.topology.search import why_not
from allhands.model.podgroup import Slot, SubGroup, TopologyMode
from allhands.model.reason import Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.core.actions.allocate import Allocate, Option
    from allhands.core.columns import Rows
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work


def grow(
    work: Work,
    allocate: Allocate,
    whole: Sequence[GroupEntry],
    started: list[Start],
    refused: Callable[[GroupEntry, Explanation], None] | None = None,
) -> Iterator[Start]:
    """`whole` have had their minimum before; those in `started` get it in this cycle.

    `refused` is told of each group that has members left, and why.
    """
    for start in list(started):
        entry = work.snapshot.groups[start.group]
        if len(start.binds) == sum(len(members.pods) for members in entry.pending):
            continue
        demand = allocate.demand(entry)
        if isinstance(demand, Demand):
            yield from _Growth(work, allocate, entry, demand.part, start).run(refused)
    for entry in whole:
        if entry.pending:
            yield from _Growth(work, allocate, entry, None, None).run(refused)


class _Growth:
    """One group that grows: what it has by now, and what has been added."""

    def __init__(
        self, work: Work, allocate: Allocate, entry: GroupEntry, placed: Part | None, start: Start | None
    ) -> None:
        self._work = work
        self._allocate = allocate
        self._entry = entry
        self._used = [0] * len(entry.pending)
        self._counts: dict[Slot, int] = dict(entry.present)
        self._rows: dict[str, list[int]] = {}
        """Where the members of each sub-group are."""
        self._new_rows: dict[str, list[int]] = {}
        """Of those that were placed in this cycle."""
        self._binds: list[Bind] = []
        self._prepare: list[object] = []
        self._why: Explanation | None = None
        """What kept the first members out that found no place."""
        for row, part in zip(entry.bound, entry.bound_parts, strict=True):
            self._rows.setdefault(part, []).append(int(work.snapshot.pods.node[row]))
        if placed is not None and start is not None:
            self._note(placed, start)

    def run(self, refused: Callable[[GroupEntry, Explanation], None] | None) -> Iterator[Start]:
        avoided = avoided_nodes(self._work, self._entry)
        self._grow(self._entry.group.members, all_but(self._work, avoided, None) if avoided else None, ())
        if self._binds:
            yield Start(self._entry.key, tuple(self._binds), tuple(self._prepare))  # type: ignore[arg-type]
        if refused is not None and sum(self._used) < sum(len(members.pods) for members in self._entry.pending):
            refused(self._entry, why_incomplete(self._entry) if self._why is None else self._why)

    def _note(self, placed: Part, start: Start) -> None:
        slots = {ref.key: members.slot for members in self._entry.pending for ref in members.pods}
        row_by_name = self._work.snapshot.columns.row_by_name
        for take in placed.all_takes():
            self._used[take.members] += take.number
        for bind in start.binds:
            self._count(slots[bind.pod], [row_by_name[bind.node]])

    def _count(self, slot: Slot, rows: list[int]) -> None:
        self._counts[slot] = self._counts.get(slot, 0) + len(rows)
        self._rows.setdefault(slot.subgroup, []).extend(rows)
        self._new_rows.setdefault(slot.subgroup, []).extend(rows)

    def _grow(self, part: SubGroup, within: Rows | None, above: tuple[SubGroup, ...]) -> None:
        path = (*above, part)
        within = self._inside(part, within)
        for child in part.children:
            if child.is_whole(self._counts) or self._begin(child, within, path):
                self._grow(child, within, path)
        for index, members in enumerate(self._entry.pending):
            if members.slot.subgroup == part.name:
                self._add(index, within, path)

    def _begin(self, child: SubGroup, within: Rows | None, path: tuple[SubGroup, ...]) -> bool:
        """Places what makes a further sub-group whole."""
        part = minimum_of(child, self._entry, self._counts, self._used)
        if part is None:
            self._refuse(self._why_not_whole(child))
            return False
        if part.count > self._most(path):
            self._refuse(self._why_at_most())
            return False
        within = self._near_begun(child, within)
        for option in self._allocate.options(self._entry, part):
            if (why := self._allocate.refusal(option)) is not None:
                self._refuse(why)
                continue
            option = option._replace(rows=_both(option.rows, within))  # noqa: PLW2901
            tried = (place_group(self._work, self._entry, part, rows) for rows in self._closest(path, option.rows))
            placed = next((found for found in tried if found is not None), None)
            if placed is not None:
                self._allocate.charge(option)
                for take, picks in placed.picks:
                    self._bind(take, picks)
                return True
            self._refuse(self._allocate.why_no_room(self._work, self._entry, part, option))
        return False

    def _add(self, index: int, within: Rows | None, path: tuple[SubGroup, ...]) -> None:
        """As many of these members as there is room for, in one flavor after the other."""
        members = self._entry.pending[index]
        left = len(members.pods) - self._used[index]
        wanted = min(left, self._most(path))
        if wanted < left:
            self._refuse(self._why_at_most())
        state = self._work.state(members.shape)
        for number, option in enumerate(self._options(index, wanted) if wanted > 0 else ()):
            count = self._affordable(index, wanted, number)
            rows = _both(option.rows, within)
            picks = self._place_close(state, count, rows, path)
            if picks:
                self._allocate.charge(self._options(index, len(picks))[number])
                self._bind(Take(index, self._used[index], len(picks)), picks)
            wanted -= len(picks)
            if not wanted:
                return
            if len(picks) == count:
                self._refuse(self._allocate.refusal(self._options(index, wanted)[number]))
            else:
                self._refuse(
                    self._why_no_room(Take(index, self._used[index], wanted), option._replace(rows=rows), path)
                )

    def _place_close(self, state: ShapeState, count: int, within: Rows | None, path: tuple[SubGroup, ...]) -> list[int]:
        """As many as fit, those first who find a place near the members that there are."""
        picks: list[int] = []
        for rows in self._closest(path, within):
            if len(picks) < count:
                picks += self._work.place(state, count - len(picks), rows, partly=True)
        return picks

    def _closest(self, path: tuple[SubGroup, ...], within: Rows | None) -> Iterator[Rows | None]:
        """Ever wider regions around the members that would like to be together; the last is all that is allowed."""
        for part in reversed(path):
            if part.topology is not None and part.topology.mode is TopologyMode.SOFT:
                names = {below.name for below in part.walk()}
                here = [row for name, rows in self._rows.items() if name in names for row in rows]
                if here:
                    yield from (_both(rows, within) for rows in rings(self._work.topology, part.topology.tree, here))
                    break
        yield within

    def _options(self, index: int, number: int) -> tuple[Option, ...]:
        part = Part("", None, (Take(index, self._used[index], number),))
        return self._allocate.options(self._entry, part)

    def _bind(self, take: Take, picks: list[int]) -> None:
        members = self._entry.pending[take.members]
        names = self._work.snapshot.columns.names
        pods = members.pods[take.first : take.first + len(picks)]
        ordered = self._work.in_rank_order(picks)
        self._binds += [Bind(ref.key, ref.uid, names[row]) for ref, row in zip(pods, ordered, strict=True)]
        self._used[take.members] += len(picks)
        self._count(members.slot, picks)
        if not all(ref.uid for ref in pods):
            hold_room(self._work, self._entry, [(take, picks)])
        if members.shape.claims:
            self._prepare += self._work.prepare(members.shape, picks)

    # -- why not

    def _refuse(self, why: Explanation | None) -> None:
        if self._why is None:
            self._why = why

    def _why_at_most(self) -> Explanation:
        have = sum(self._counts.values())
        waiting = sum(len(members.pods) for members in self._entry.pending) - sum(self._used)
        return explain(Reason.AT_MAXIMUM, have=have, waiting=waiting)

    def _why_not_whole(self, child: SubGroup) -> Explanation | None:
        counts = dict(self._counts)
        for members, used in zip(self._entry.pending, self._used, strict=True):
            counts[members.slot] = counts.get(members.slot, 0) + len(members.pods) - used
        lacking = child.shortfalls(counts)
        return shortfall_words(lacking[0], self._entry.group.name) if lacking else None

    def _why_no_room(self, take: Take, option: Option, path: tuple[SubGroup, ...]) -> Explanation:
        hard = [part for part in path if part.topology is not None and part.topology.mode is TopologyMode.HARD]
        if not hard:
            return self._allocate.why_no_room(self._work, self._entry, Part("", None, (take,)), option)
        rule = hard[-1].topology
        assert rule is not None
        names = {below.name for below in hard[-1].walk()}
        bound = [row for name, rows in self._rows.items() if name in names for row in rows]
        fit = self._work.state(self._entry.pending[take.members].shape).fit(self._work.room)
        return why_not(self._work.topology, rule, self._work.topology.sums(fit), take.number, bound=bound)

    # -- how many

    def _most(self, path: tuple[SubGroup, ...]) -> int:
        """How many members the part and all around it may still get."""
        most = sum(len(members.pods) for members in self._entry.pending)
        for part in path:
            if part.max_count is not None:
                inside = {below.name for below in part.walk()}
                have = sum(count for slot, count in self._counts.items() if slot.subgroup in inside)
                most = min(most, part.max_count - have)
        return max(most, 0)

    def _affordable(self, index: int, wanted: int, option: int) -> int:
        """The largest number of these members that the queues allow, paid in one of the ways."""
        low, high = 0, wanted
        trial = high
        while low < high:
            if self._allocate.allows(self._options(index, trial)[option]):
                low = trial
            else:
                high = trial - 1
            trial = (low + high + 1) // 2
        return low

    def _near_begun(self, child: SubGroup, within: Rows | None) -> Rows | None:
        """Placing a part looks where its bound members are; those that got their places a moment ago are not among them
        yet, and must not be left alone either. Of what is nested in it this may exclude more than it must: then it
        comes with the next cycle."""
        for part in child.walk():
            if part.topology is not None and part.topology.mode is TopologyMode.HARD:
                names = {below.name for below in part.walk()}
                if here := [row for name, rows in self._new_rows.items() if name in names for row in rows]:
                    within = _both(allowed_around(self._work.topology, part.topology, here), within)
        return within

    def _inside(self, part: SubGroup, within: Rows | None) -> Rows | None:
        """Where members of a part may go whose rule is hard."""
        if part.topology is None or part.topology.mode is not TopologyMode.HARD:
            return within
        names = {below.name for below in part.walk()}
        here = [row for name, rows in self._rows.items() if name in names for row in rows]
        if here:
            rows = allowed_around(self._work.topology, part.topology, here)
        else:
            waiting = [members for members in self._entry.pending if members.slot.subgroup in names]
            if not waiting:
                return within
            fit = self._work.state(waiting[0].shape).fit(self._work.room)
            rows = roomiest(self._work.topology, part.topology, fit)
        return _both(rows, within)


def _both(rows: Rows | None, within: Rows | None) -> Rows | None:
    if rows is None or within is None:
        return within if rows is None else rows
    return rows[np.isin(rows, within)]
