"""Orders by size and time: whole numbers, the same on every machine, and in the order that their papers say."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.orders.logarithm import ONE, log2, log10, square_root
from allhands.core.plugins import PLUGINS, Point
from allhands.core.world import World
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.resources import ResourceVector

NOW = 1000


def ranks(name: str, *groups: tuple[str, int, int | None, int], **arguments: object) -> list[str]:
    """Groups as (name, created, seconds, processors), in the order of the plugin."""
    world = World()
    for group, created, seconds, width in groups:
        made = PodGroup("a", group, "q", created_at_seconds=created, expected_duration_seconds=seconds)
        world.set_group(made)
        world.set_pod(Pod("a", group, uid=group, requests=ResourceVector.of({"cpu": 1000 * width})), group=made.key)
    snapshot = world.snapshot()
    plugin = PLUGINS.find(name, (Point.ORDER,), "orders").build(arguments)
    found = {entry.group.name: plugin.rank(entry, snapshot, NOW) for entry in snapshot.groups.values()}
    assert all(isinstance(rank, int) for rank in found.values())
    assert found == {entry.group.name: plugin.rank(entry, snapshot, NOW) for entry in snapshot.groups.values()}
    return sorted(found, key=lambda group: (found[group], group))


def test_the_shortest_goes_first_and_who_says_nothing_last() -> None:
    assert ranks("shortest", ("a", 0, 50, 1), ("b", 0, 40, 9), ("c", 0, None, 1)) == ["b", "a", "c"]


def test_the_smallest_area_goes_first() -> None:
    assert ranks("smallestarea", ("a", 0, 50, 1), ("b", 0, 40, 9), ("c", 0, 49, 1)) == ["c", "a", "b"]


def test_an_area_is_of_the_first_resource_that_a_group_asks_for() -> None:
    world = World()
    for name, gpus, count in (("many", 1, 4), ("few", 2, 1)):
        world.set_group(PodGroup("a", name, "q", members=SubGroup(min_count=count), expected_duration_seconds=10))
        for number in range(count):
            requests = ResourceVector.of({"cpu": 1, "nvidia.com/gpu": gpus})
            world.set_pod(Pod("a", f"{name}{number}", uid=f"{name}{number}", requests=requests), group=f"a/{name}")
    snapshot = world.snapshot()
    plugin = PLUGINS.find("smallestarea", (Point.ORDER,), "orders").build()
    assert plugin.rank(snapshot.groups["a/many"], snapshot, NOW) == 10 * 4 * 1000
    assert plugin.rank(snapshot.groups["a/few"], snapshot, NOW) == 10 * 2 * 1000


def test_f1_and_f2_let_short_and_narrow_groups_pass_but_not_those_who_came_long_before() -> None:
    near = (("a", 500, 3600, 16), ("b", 510, 60, 1))
    assert ranks("f1", *near) == ranks("f2", *near) == ["b", "a"]
    far = (("a", 5, 60, 2), ("b", 900_000, 60, 1))
    assert ranks("f1", *far) == ranks("f2", *far) == ["a", "b"]


@pytest.mark.parametrize("created", [0, -5])
def test_the_beginning_of_time_has_a_logarithm_too(created: int) -> None:
    assert ranks("f1", ("a", created, 1, 1), ("b", 10, 1, 1)) == ["a", "b"]


def test_wfp3_favours_those_who_waited_many_times_their_length_and_the_wide() -> None:
    assert ranks("wfp3", ("a", 900, 10, 1), ("b", 0, 1000, 1)) == ["a", "b"]
    assert ranks("wfp3", ("a", 900, 100, 1), ("b", 900, 100, 2)) == ["b", "a"]


def test_unicep_favours_the_narrow_and_whoever_needs_but_one() -> None:
    assert ranks("unicep", ("a", 900, 100, 8), ("b", 900, 100, 2), ("c", 999, 100, 1)) == ["c", "b", "a"]


def test_the_slip_of_the_published_table_turns_waiting_around() -> None:
    groups = (("a", 10, 100, 2), ("b", 900, 100, 2))
    assert ranks("wfp3", *groups) == ["a", "b"]
    assert ranks("wfp3", *groups, waitOfUnscheduled=True) == ["a", "b"]
    short = (("a", 900, 10, 2), ("b", 900, 1000, 2))
    assert ranks("wfp3", *short) == ["a", "b"]
    assert ranks("wfp3", *short, waitOfUnscheduled=True) == ["b", "a"]
    assert ranks("unicep", *short, waitOfUnscheduled=True) == ["b", "a"]


@given(st.integers(1, 1 << 62))
def test_logarithms_and_roots_are_right_to_the_last_places(number: int) -> None:
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(number)
        assert abs(Decimal(log10(number)) - exact.log10() * ONE) < 3
        assert abs(Decimal(log2(number)) - exact.ln() / Decimal(2).ln() * ONE) < 3
    assert square_root(number) ** 2 <= number << 80 < (square_root(number) + 1) ** 2


@given(st.integers(1, 1 << 62), st.integers(1, 1 << 62))
def test_a_larger_number_never_has_a_smaller_logarithm(one: int, other: int) -> None:
    smaller, larger = sorted((one, other))
    assert log2(smaller) <= log2(larger)
    assert log10(smaller) <= log10(larger)


def test_logarithms_of_powers_are_exact() -> None:
    assert [log2(1 << power) for power in range(40)] == [power * ONE for power in range(40)]
    assert math.isclose(log10(10**9) / ONE, 9)
    with pytest.raises(ValueError, match="no logarithm of 0"):
        log2(0)
