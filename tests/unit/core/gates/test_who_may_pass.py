"""`inorder` lets nobody pass; `beforepromised` lets those pass who end before what the first was told."""

from __future__ import annotations

import msgspec

from allhands.core.cycle import cycle
from allhands.core.facts import Facts
from allhands.core.gates.beforepromised import BeforePromised
from allhands.core.gates.inorder import InOrder
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Backfill, Policy
from allhands.core.world import World
from allhands.model.group_status import NO_STATUS, GroupStatus, Said
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup
from allhands.model.queue import Queue
from allhands.model.reason import Reason, explain
from allhands.model.resources import ResourceVector

NOW = 100


def world_of(*groups: tuple[str, int, int, int | None]) -> World:
    """Groups as (name, processors, seconds, when it was told that it starts); in their order, on ten processors."""
    world = World()
    world.set_node(Node("n", ready=True, allocatable=ResourceVector.of({"cpu": 10_000, "pods": 100})))
    world.set_facts(Facts(accounts=(Queue("q"),)))
    for number, (name, width, seconds, told) in enumerate(groups):
        said = Said(explain(Reason.ROOM_RESERVED, owner=name), told)
        status = NO_STATUS if told is None else GroupStatus(said=said)
        group = PodGroup(
            "a",
            name,
            "q",
            priority=int(told is not None),
            created_at_seconds=number,
            expected_duration_seconds=seconds,
        )
        world.set_group(group, status)
        world.set_pod(Pod("a", name, uid=name, requests=ResourceVector.of({"cpu": 1000 * width})), group=group.key)
    return world


def started(world: World, policy: Policy) -> list[str]:
    plan, _ = cycle(world.snapshot(), policy, Memo(), NOW)
    return [start.group for start in plan.starts]


def reason(world: World, policy: Policy, group: str) -> str:
    plan, _ = cycle(world.snapshot(), policy, Memo(), NOW)
    return next(str(wait.explanation) for wait in plan.waits if wait.group == group)


GREEDY = msgspec.structs.replace(DEFAULT, backfill=Backfill.OFF)
STRICTLY = msgspec.structs.replace(GREEDY, limits=(InOrder(),))
KEEPING = msgspec.structs.replace(GREEDY, gates=(BeforePromised(),))


def test_nobody_passes_the_first_that_does_not_start() -> None:
    world = world_of(("first", 4, 10, None), ("wide", 8, 10, None), ("narrow", 1, 10, None))
    assert started(world, GREEDY) == ["a/first", "a/narrow"]
    assert started(world, STRICTLY) == ["a/first"]
    assert reason(world, STRICTLY, "a/narrow") == "Nobody passes a/wide, which comes before it and cannot start yet."
    world = world_of(("first", 4, 10, None), ("wide", 20, 10, None), ("narrow", 1, 10, None))
    assert reason(world, STRICTLY, "a/narrow") == (
        "Nobody passes a/wide, which comes before it and cannot start yet. "
        'The first of them, "a/wide", can never start as things are, and nobody passes it in this queue.'
    )


def test_all_who_fit_start_in_order_if_nobody_fails() -> None:
    world = world_of(("a", 4, 10, None), ("b", 4, 10, None), ("c", 2, 10, None))
    assert started(world, STRICTLY) == ["a/a", "a/b", "a/c"]


def test_who_ends_before_the_promise_passes_and_who_ends_with_it_does_not() -> None:
    world = world_of(("first", 20, 10, NOW + 50), ("before", 1, 49, None), ("at", 1, 50, None))
    assert started(world, KEEPING) == ["a/before"]
    told = reason(world, KEEPING, "a/at")
    assert told == "It would not end before 1970-01-01T00:02:30Z, when a/first is to start, which comes before it."


def test_a_promise_binds_only_those_of_lower_priority_and_nobody_once_it_has_started() -> None:
    world = world_of(("first", 20, 10, NOW + 50), ("equal", 1, 500, NOW + 900))
    assert started(world, KEEPING) == ["a/equal"]
    fits = world_of(("first", 5, 10, NOW + 50))
    assert started(fits, KEEPING) == ["a/first"]
