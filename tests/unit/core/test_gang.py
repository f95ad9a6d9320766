"""Which waiting members make a group whole: the fewest, in every part, those of parts that have begun first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.gang import minimum, minimum_of
from allhands.core.snapshot import GroupEntry, Members, PodRef
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TaskMinimum
from allhands.model.shape import PodShape
from tests.depth import examples

PLAIN = PodShape(digest="plain")


def entry(members: SubGroup, waiting: dict[Slot, int], present: dict[Slot, int] | None = None) -> GroupEntry:
    pending = tuple(
        Members(slot, PLAIN, tuple(PodRef(f"{slot}-{number}", "u") for number in range(count)))
        for slot, count in sorted(waiting.items())
        if count
    )
    return GroupEntry(
        PodGroup("default", "g", "q", members=members), pending=pending, present=tuple(sorted((present or {}).items()))
    )


def taken(found: GroupEntry, **_: Any) -> dict[Slot, int] | None:
    part = minimum(found)
    if part is None:
        return None
    counts: Counter[Slot] = Counter()
    for take in part.all_takes():
        counts[found.pending[take.members].slot] += take.number
    return dict(counts)


def own(task: str = "") -> Slot:
    return Slot("", task)


def test_a_plain_group_takes_its_minimum() -> None:
    assert taken(entry(SubGroup(min_count=3), {own(): 5})) == {own(): 3}
    assert taken(entry(SubGroup(min_count=6), {own(): 5})) is None


def test_a_group_without_a_minimum_begins_with_one_member() -> None:
    assert taken(entry(SubGroup(), {own("a"): 2, own("b"): 2})) == {own("a"): 1}


def test_members_that_are_there_are_not_taken_again() -> None:
    assert taken(entry(SubGroup(min_count=3), {own(): 5}, {own(): 2})) == {own(): 1}


def test_a_group_that_is_whole_takes_nothing() -> None:
    assert taken(entry(SubGroup(min_count=2), {own(): 5}, {own(): 2})) == {}


def test_tasks_take_their_own_minimums_and_the_rest_is_filled_up() -> None:
    members = SubGroup(min_count=4, task_minimums=(TaskMinimum("master", 1), TaskMinimum("worker", 2)))
    assert taken(entry(members, {own("master"): 3, own("worker"): 9})) in (
        {own("master"): 1, own("worker"): 3},
        {own("master"): 2, own("worker"): 2},
    )
    assert taken(entry(members, {own("worker"): 9})) is None


def test_of_sub_groups_that_suffice_one_that_has_begun_is_completed_before_a_smaller_one() -> None:
    members = SubGroup(children=(SubGroup("a", min_count=1), SubGroup("b", min_count=3)), min_children=1)
    waiting = {Slot("a", ""): 2, Slot("b", ""): 2}
    assert taken(entry(members, waiting, {Slot("b", ""): 1})) == {Slot("b", ""): 2}
    assert taken(entry(members, waiting)) == {Slot("a", ""): 1}


def test_sub_groups_that_can_never_be_whole_are_passed_over() -> None:
    members = SubGroup(children=(SubGroup("a", min_count=5), SubGroup("b", min_count=2)), min_children=1)
    assert taken(entry(members, {Slot("a", ""): 2, Slot("b", ""): 2})) == {Slot("b", ""): 2}


def test_parts_keep_their_place_in_the_tree() -> None:
    members = SubGroup(children=(SubGroup("a", children=(SubGroup("b", min_count=2),)),))
    part = minimum(entry(members, {Slot("b", ""): 3}))
    assert part is not None
    assert [child.name for child in part.children] == ["a"]
    assert [child.name for child in part.children[0].children] == ["b"]
    assert (part.count, part.takes) == (2, ())


def test_a_further_sub_group_takes_what_has_not_been_used() -> None:
    child = SubGroup("a", min_count=2)
    found = entry(SubGroup(children=(child,), min_children=0), {Slot("a", ""): 3})
    part = minimum_of(child, found, {}, [1])
    assert part is not None
    assert [(take.first, take.number) for take in part.all_takes()] == [(1, 2)]
    assert minimum_of(child, found, {}, [2]) is None


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_taken_twice_where_a_task_is_in_several_parts(count: int) -> None:
    members = SubGroup(
        min_count=3,
        task_minimums=(TaskMinimum("w", 2),),
        children=(SubGroup("a", min_count=1), SubGroup("b", min_count=count)),
    )
    got = taken(entry(members, {Slot("a", "w"): 2, Slot("b", "w"): 1, own("w"): 1}))
    assert got is not None
    assert sum(got.values()) == 3


names = st.sampled_from(("a", "b", "c"))
slots = st.builds(Slot, st.sampled_from(("", "a", "b", "c")), st.sampled_from(("", "m", "w")))
counted = st.dictionaries(slots, st.integers(0, 4), max_size=6)


@st.composite
def structures(draw: st.DrawFn) -> SubGroup:
    parts = draw(st.lists(names, unique=True, max_size=3))
    children = tuple(SubGroup(name, min_count=draw(st.integers(0, 3))) for name in parts)
    tasks = tuple(
        TaskMinimum(task, draw(st.integers(0, 2))) for task in draw(st.lists(st.sampled_from("mw"), unique=True))
    )
    least = draw(st.one_of(st.none(), st.integers(0, len(children))))
    return SubGroup(min_count=draw(st.integers(0, 6)), task_minimums=tasks, children=children, min_children=least)


@settings(max_examples=examples(300))
@given(members=structures(), waiting=counted, present=counted)
def test_what_is_taken_makes_the_group_whole_and_is_there(
    members: SubGroup, waiting: dict[Slot, int], present: dict[Slot, int]
) -> None:
    names_known = {part.name for part in members.walk()}
    waiting = {slot: count for slot, count in waiting.items() if slot.subgroup in names_known}
    present = {slot: count for slot, count in present.items() if count}
    found = entry(members, waiting, present)
    got = taken(found)
    every: Counter[Slot] = Counter(present)
    every.update(waiting)
    if got is None:
        assert not members.is_whole(_usable(members, every, present))
        return
    assert all(0 < count <= waiting[slot] for slot, count in got.items())
    after: Counter[Slot] = Counter(present)
    after.update(got)
    assert members.is_whole(after)
    joined = {slot.subgroup for slot in got}
    assert all(child.is_whole(after) for child in members.children if child.name in joined)


def _usable(members: SubGroup, every: Counter[Slot], present: dict[Slot, int]) -> dict[Slot, int]:
    """Without waiting members of sub-groups that all of theirs would not make whole."""
    hopeless = {child.name for child in members.children if not child.is_whole(every)}
    return {slot: present.get(slot, 0) if slot.subgroup in hopeless else count for slot, count in every.items()}


@settings(max_examples=examples(150))
@given(members=structures(), waiting=counted)
def test_no_member_that_is_taken_could_be_left_out(members: SubGroup, waiting: dict[Slot, int]) -> None:
    names_known = {part.name for part in members.walk()}
    waiting = {slot: count for slot, count in waiting.items() if slot.subgroup in names_known}
    got = taken(entry(members, waiting))
    if got is None or sum(got.values()) <= 1:
        return
    for slot in got:
        fewer = Counter(got)
        fewer[slot] -= 1
        joined = {each.subgroup for each, count in fewer.items() if count}
        parts = [members, *(child for child in members.children if child.name in joined)]
        assert not all(part.is_whole(fewer) for part in parts)


def test_a_sub_group_gets_no_member_unless_it_becomes_whole() -> None:
    """The whole needs one more than sub-group "a" must have: not one of the three that "b" must have."""
    a, b, c = SubGroup("a", min_count=2), SubGroup("b", min_count=3), SubGroup("c", min_count=2)
    members = SubGroup(min_count=3, children=(a, b, c), min_children=1)
    slot_a, slot_b, slot_c = (Slot(name, "") for name in "abc")
    assert taken(entry(members, {slot_a: 2, slot_b: 2})) is None
    assert taken(entry(members, {slot_a: 3, slot_b: 2})) == {slot_a: 3}
    assert taken(entry(members, {slot_a: 2, slot_b: 3, slot_c: 2})) == {slot_a: 2, slot_c: 2}
    assert taken(entry(members, {slot_a: 2, slot_b: 1, own(): 1})) == {slot_a: 2, own(): 1}


def test_a_group_without_a_minimum_begins_with_a_whole_sub_group() -> None:
    members = SubGroup(children=(SubGroup("a", min_count=2), SubGroup("b")), min_children=0)
    assert taken(entry(members, {Slot("a", ""): 2})) == {Slot("a", ""): 2}
    assert taken(entry(members, {Slot("a", ""): 2, Slot("b", ""): 1})) == {Slot("b", ""): 1}
    assert taken(entry(members, {Slot("a", ""): 1})) is None
