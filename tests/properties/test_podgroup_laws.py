"""Laws of pod-groups: what "whole" means does not depend on how members are counted in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allhands.model.podgroup import Slot, SubGroup, TaskMinimum

tasks = st.sampled_from(["", "leader", "worker"])


@st.composite
def subgroups(draw: st.DrawFn, name: str = "", depth: int = 2) -> SubGroup:
    children = tuple(
        draw(subgroups(f"{name}/{number}", depth - 1)) for number in range(draw(st.integers(0, 2)) if depth else 0)
    )
    minimums = draw(st.dictionaries(tasks, st.integers(0, 2), max_size=2))
    return SubGroup(
        name=name,
        min_count=draw(st.integers(0, 4)),
        task_minimums=tuple(TaskMinimum(task, least) for task, least in sorted(minimums.items())),
        children=children,
        min_children=draw(st.none() | st.integers(0, len(children))),
    )


@st.composite
def groups_with_counts(draw: st.DrawFn) -> tuple[SubGroup, dict[Slot, int]]:
    group = draw(subgroups())
    slots = st.builds(Slot, st.sampled_from([part.name for part in group.walk()]), tasks)
    return group, draw(st.dictionaries(slots, st.integers(0, 4), max_size=8))


@given(groups_with_counts(), st.data())
def test_one_more_member_never_breaks_a_whole_group(
    case: tuple[SubGroup, dict[Slot, int]], data: st.DataObject
) -> None:
    group, counts = case
    slot = Slot(data.draw(st.sampled_from([part.name for part in group.walk()])), data.draw(tasks))
    if group.is_whole(counts):
        assert group.is_whole({**counts, slot: counts.get(slot, 0) + 1})


@given(groups_with_counts())
def test_a_whole_group_has_at_least_the_required_count(case: tuple[SubGroup, dict[Slot, int]]) -> None:
    group, counts = case
    if group.is_whole(counts):
        assert sum(counts.values()) >= group.required_count


@given(groups_with_counts())
def test_every_shortfall_is_one_and_plenty_has_none(case: tuple[SubGroup, dict[Slot, int]]) -> None:
    group, counts = case
    assert all(short.have < short.need for short in group.shortfalls(counts))
    plenty = {Slot(part.name, task): 100 for part in group.walk() for task in ("", "leader", "worker")}
    assert group.is_whole(plenty)


@given(groups_with_counts())
def test_zero_counts_and_strangers_change_nothing(case: tuple[SubGroup, dict[Slot, int]]) -> None:
    group, counts = case
    noise = {Slot(part.name, "unheard-of"): 0 for part in group.walk()} | {Slot("nowhere", "leader"): 9}
    assert group.shortfalls({**noise, **counts}) == group.shortfalls(counts)
