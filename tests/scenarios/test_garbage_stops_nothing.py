"""Random nonsense as input: no exception comes out of a world or a cycle, a plan stays within the nodes that there are,
and a world that has seen it all is the same as one that saw only the end."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.dump import DumpError, decode, encode
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.resources import ResourceVector
from tests.depth import examples
from tests.scenarios.garbage import Event, events

NOW = 1_000
slow = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large],
)


def told(world: World, event: Event) -> None:
    getattr(world, event.name)(*event.arguments, **event.options)


@slow
@given(happened=st.lists(events, max_size=25))
def test_no_event_raises_and_every_cycle_gives_a_plan(happened: list[Event]) -> None:
    world, memo = World(), Memo()
    for number, event in enumerate(happened):
        told(world, event)
        if number % 5 == 4:
            plan, memo = cycle(world.snapshot(), DEFAULT, memo, NOW + number)
    snapshot = world.snapshot()
    plan, memo = cycle(snapshot, DEFAULT, memo, NOW + 100)
    assert plan == cycle(snapshot, DEFAULT, Memo(), NOW + 100)[0]
    assert all(bind.node in snapshot.columns.row_by_name for bind in plan.binds)
    assert len({bind.uid for bind in plan.binds if bind.uid}) == sum(1 for bind in plan.binds if bind.uid)
    assert all(str(wait.explanation) for wait in plan.waits)


@slow
@given(happened=st.lists(events, max_size=20))
def test_what_is_sound_goes_on_beside_any_nonsense(happened: list[Event]) -> None:
    world = World()
    for event in happened:
        told(world, event)
    world.set_node(Node("sound", allocatable=ResourceVector.of({"cpu": 4000, "memory": 1 << 40, "pods": 9})))
    world.set_group(PodGroup("sound", "gang", "", members=SubGroup(min_count=2), priority=2**40))
    for name in ("one", "two"):
        world.set_pod(
            Pod("sound", name, f"sound-{name}", requests=ResourceVector.of({"cpu": 1000}), node_selector={}),
            group="sound/gang",
        )
    plan = cycle(world.snapshot(), DEFAULT, Memo(), NOW)[0]
    told_of = {start.group for start in plan.starts} | {wait.group for wait in plan.waits}
    assert "sound/gang" in told_of


@slow
@given(happened=st.lists(events, max_size=20))
def test_a_world_of_nonsense_can_be_dumped_and_replayed(happened: list[Event]) -> None:
    world = World()
    for event in happened:
        told(world, event)
    snapshot = world.snapshot()
    try:
        packed = encode(snapshot)
    except DumpError as error:
        assert "beyond 64 bits" in str(error)
        return
    loaded = decode(packed)
    assert encode(loaded) == packed
    assert cycle(loaded, DEFAULT, Memo(), NOW)[0] == cycle(snapshot, DEFAULT, Memo(), NOW)[0]
