"""Pods of different shapes that come one after the other: looked at together, placed as if each were asked alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from allhands.core.calendar.elsewhere import OtherRoom
from allhands.core.cycle import cycle
from allhands.core.in_turn import NOT_KNOWN, InTurn
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.room import Room
from allhands.core.scores.allocated import BinPack
from allhands.core.shapes import ShapeState
from allhands.core.snapshot import GroupEntry, Members, PodRef
from allhands.core.world import World
from allhands.measure.core_cases import Case
from allhands.measure.core_worlds import waiting_gangs
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup, Slot
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape

PACKING = Policy(scores=((BinPack(), 1),))


class ScoreThatKeepsItToItself:
    """It does not say what it looks at."""

    name = "quiet"

    def __init__(self) -> None:
        self.score = BinPack().score
        self.score_of_one = BinPack().score_of_one


def _room(nodes: int = 300) -> Room:
    world = World()
    amounts = ResourceVector.of({"cpu": 32_000, "memory": 64 << 30, "pods": 110})
    for number in range(nodes):
        world.set_node(Node(f"node-{number:03}", ready=True, allocatable=amounts))
    return Room(world.snapshot().columns)


def _states(room: Room, policy: Policy, number: int) -> list[ShapeState]:
    found = []
    for kind in range(number):
        requests = ResourceVector.of({"cpu": 1_000 + kind, "memory": (1 << 30) + kind})
        shape = PodShape.of(Pod("default", "pod", requests=requests), None)
        state = ShapeState(shape, room.columns.request(shape.requests), room, policy)
        state.set_static(np.ones(len(room.columns), dtype=np.bool_), 0)
        found.append(state)
    return found


def _next(line: list[ShapeState], most: int) -> list[GroupEntry]:
    group, ref = PodGroup("default", "group", "queue"), PodRef("default/pod", "uid")
    return [GroupEntry(group, pending=(Members(Slot("", ""), state.shape, (ref,)),)) for state in line[:most]]


def _place_all(room: Room, in_turn: InTurn, line: list[ShapeState]) -> int:
    """How many were placed without being asked alone."""
    together = 0
    for place, state in enumerate(line):
        in_turn.upcoming = partial(_next, line[place + 1 :])
        row = in_turn.row_for(state)
        together += row != NOT_KNOWN
        room.take(state.request, state.picks(room, 1) if row == NOT_KNOWN else [row])
    return together


def test_once_all_shapes_have_come_nearly_all_pods_are_placed_together() -> None:
    room = _room()
    states = _states(room, PACKING, 10)
    assert _place_all(room, InTurn(room), states * 2) <= 10
    in_turn = InTurn(room)
    assert _place_all(room, in_turn, states * 30) > 250


def test_who_comes_in_place_of_who_was_expected_is_asked_alone() -> None:
    room = _room()
    states = _states(room, PACKING, 10)
    in_turn = InTurn(room)
    _place_all(room, in_turn, states * 3)
    in_turn.upcoming = partial(_next, states * 2)
    while (row := in_turn.row_for(states[0])) == NOT_KNOWN:
        room.take(states[9].request, states[9].picks(room, 1))
        in_turn.row_for(states[9])
    room.take(states[0].request, [row])
    in_turn.upcoming = partial(_next, [])
    assert in_turn.row_for(states[5]) == NOT_KNOWN


def test_pods_of_one_shape_are_left_to_the_shape() -> None:
    room = _room()
    assert not _place_all(room, InTurn(room), _states(room, PACKING, 1) * 50)


def test_where_a_score_does_not_say_what_it_looks_at_each_is_asked_alone() -> None:
    room = _room()
    assert not _place_all(room, InTurn(room), _states(room, Policy(scores=((ScoreThatKeepsItToItself(), 1),)), 10) * 10)


@pytest.mark.parametrize("shapes", [7, 40])
def test_a_cycle_puts_each_pod_where_it_would_go_alone(shapes: int) -> None:
    snapshot = waiting_gangs(Case("shapes", 300, 600, 1, shapes, waiting_gangs))
    plan, memo = cycle(snapshot, DEFAULT, Memo(), 100_000)
    room = OtherRoom(Room(snapshot.columns))
    states: dict[str, ShapeState] = {}
    found = {bind.pod: bind.node for bind in plan.binds}
    assert len(found) == 600
    for entry in sorted(snapshot.groups.values(), key=lambda entry: entry.group.created_at_seconds):
        members = entry.pending[0]
        state = states.get(members.shape.digest)
        if state is None:
            state = ShapeState(members.shape, room.columns.request(members.shape.requests), room, DEFAULT)
            state.set_static(memo.static.mask(members.shape), 0)
            states[members.shape.digest] = state
        row = state.best_row(room)
        room.take(state.request, [row])
        assert found[members.pods[0].key] == room.columns.names[row]
