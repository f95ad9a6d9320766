"""Placing k equal pods in one pass is choosing the best node k times: for every score, to the last choice."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.calendar.elsewhere import OtherRoom
from allhands.core.greedy import greedy_picks, on_few_nodes
from allhands.core.in_turn import InTurn
from allhands.core.policy import Policy
from allhands.core.room import Room
from allhands.core.scores.allocated import BinPack, LeastAllocated, MostAllocated
from allhands.core.scores.balanced import Balanced
from allhands.core.shapes import ShapeState
from allhands.core.snapshot import GroupEntry, Members, PodRef
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup, Slot
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape
from tests.depth import examples

GPU = "example.com/gpu"
POLICIES = {
    "packing": Policy(scores=((BinPack(), 1),)),
    "spreading": Policy(scores=((LeastAllocated(), 1),)),
    "most allocated, memory twice": Policy(scores=((MostAllocated({"cpu": 1, "memory": 2}), 3),)),
    "balanced": Policy(scores=((Balanced(), 1),)),
    "balanced and spreading": Policy(scores=((Balanced(("cpu", "memory", GPU)), 2), (LeastAllocated(), 1))),
    "packing and balanced": Policy(scores=((BinPack({"cpu": 1, "memory": 1, GPU: 5}), 2), (Balanced(), 1))),
    "nothing": Policy(),
}


def _room(chance: random.Random) -> Room:
    world = World()
    for number in range(chance.randint(1, 12)):
        amounts = {
            "cpu": chance.choice((0, 1500, 4000, 7000)),
            "memory": chance.choice((3, 5, 16)) << 30,
            "pods": chance.choice((0, 2, 6, 110)),
            GPU: chance.choice((0, 2, 8)),
        }
        world.set_node(Node(f"node-{number:02}", ready=True, allocatable=ResourceVector.of(amounts)))
    for number in range(chance.randint(0, 8)):
        world.set_pod(
            Pod("default", f"pod-{number}", uid=f"uid-{number}", node_name=f"node-{chance.randint(0, 12):02}",
                requests=ResourceVector.of({"cpu": chance.choice((100, 900, 9000)), "memory": 1 << 30}))
        )  # fmt: skip
    return Room(world.snapshot().columns)


def _state(chance: random.Random, room: Room, policy: Policy) -> ShapeState:
    requests = ResourceVector.of(
        {
            "cpu": chance.choice((0, 250, 700, 2000)),
            "memory": chance.choice((0, 1 << 29, 3 << 30)),
            GPU: chance.choice((0, 1)),
        }
    )
    shape = PodShape.of(Pod("default", "pod", requests=requests), None)
    state = ShapeState(shape, room.columns.request(shape.requests), room, policy)
    mask = np.array([chance.random() < 0.8 for _ in room.columns.names], dtype=np.bool_)
    static_score = np.array([chance.choice((0, 0, 7)) for _ in room.columns.names], dtype=np.int64)
    state.set_static(mask, chance.choice((0, static_score)))
    return state


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32 - 1))
def test_k_at_once_are_k_one_by_one(policy: Policy, seed: int) -> None:
    chance = random.Random(seed)
    room = _room(chance)
    state = _state(chance, room, policy)
    count = chance.choice((1, 2, 3, 7, 20, 60))
    rows = np.sort(np.array(chance.sample(range(len(room.columns)), k=len(room.columns) // 2), dtype=np.int64))
    within = chance.choice((None, rows))
    state.refresh(room)
    at_once = greedy_picks(state, room, count, within)
    one_by_one: list[int] = []
    for _ in range(count):
        state.refresh(room)
        pick = greedy_picks(state, room, 1, within)
        if not pick:
            break
        room.take(state.request, pick)
        one_by_one += pick
    assert at_once == one_by_one


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32 - 1))
def test_filling_a_few_nodes_is_choosing_one_by_one_or_is_left_to_others(policy: Policy, seed: int) -> None:
    """What is used where there are very many nodes, tried on a few."""
    chance = random.Random(seed)
    room = _room(chance)
    state = _state(chance, room, policy)
    count = chance.choice((2, 3, 7, 20, 60))
    state.refresh(room)
    before = state.key.tolist()
    found = on_few_nodes(state, room, count)
    assert state.key.tolist() == before
    assert found is None or found == greedy_picks(state, room, count, None)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32 - 1))
def test_the_rows_touched_since_a_place_in_the_log_are_those_that_it_names_from_there(seed: int) -> None:
    chance = random.Random(seed)
    room = _room(chance)
    places = [0]
    for _ in range(20):
        room.log.extend(chance.choices(range(len(room.columns)), k=chance.choice((0, 1, 1, 5))))
        places.append(len(room.log))
        place = chance.choice(places[-4:] if chance.random() < 0.8 else places)
        touched = list(room.touched_since(place))
        assert len(touched) == len(set(touched))
        assert set(touched) == set(room.log[place:])


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_asked_in_portions_between_other_shapes_is_the_same_as_fresh_columns_say(seed: int) -> None:
    """Sequences are kept and columns refreshed in part; neither may ever be seen."""
    chance = random.Random(seed)
    policy = chance.choice(list(POLICIES.values()))
    room = _room(chance)
    states = [_state(chance, room, policy) for _ in range(2)]
    for _ in range(12):
        state = chance.choice(states)
        count = chance.choice((1, 1, 1, 3))
        picks = state.picks(room, count)
        fresh = ShapeState(state.shape, state.request, room, policy)
        fresh.set_static(state.static, state._static_score)
        fresh.refresh(room)
        assert picks == greedy_picks(fresh, room, count, None)
        assert (state.fit(room) == fresh.fit(room)).all()
        room.take(state.request, picks)
        if chance.random() < 0.2:
            room.take(state.request, picks, -1)


def _many_alike(chance: random.Random, least: int) -> Room:
    """Nodes of few kinds."""
    kinds = [(chance.choice((2, 4, 4, 9)), chance.choice((4, 8))) for _ in range(chance.randint(1, 4))]
    world = World()
    for number in range(least + chance.randint(0, 60)):
        cores, gib = chance.choice(kinds)
        amounts = ResourceVector.of({"cpu": cores * 1000, "memory": gib << 30, "pods": chance.choice((110, 110, 3))})
        world.set_node(Node(f"node-{number:04}", ready=True, allocatable=amounts))
    return Room(world.snapshot().columns)


def _plain_state(
    chance: random.Random, room: Room, policy: Policy, requests: dict[str, int] | None = None
) -> ShapeState:
    if requests is None:
        requests = {"cpu": chance.choice((500, 1000, 1001)), "memory": chance.choice((0, 1 << 30))}
    shape = PodShape.of(Pod("default", "pod", requests=ResourceVector.of(requests)), None)
    state = ShapeState(shape, room.columns.request(shape.requests), room, policy)
    state.set_static(np.ones(len(room.columns), dtype=np.bool_), chance.choice((0, 7)))
    return state


def _without_classes(state: ShapeState, room: Room, policy: Policy) -> tuple[ShapeState, Room]:
    elsewhere = OtherRoom(room)
    plain = ShapeState(state.shape, state.request, elsewhere, policy)
    plain.set_static(state.static, state._static_score)
    plain.refresh(elsewhere)
    return plain, elsewhere


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(max_examples=examples(10))
@given(seed=st.integers(0, 2**32 - 1))
def test_the_best_node_by_classes_is_the_best_of_all_nodes(policy: Policy, seed: int) -> None:
    """Several shapes in turn, room that is given back, and nodes that are left out."""
    chance = random.Random(seed)
    room = _many_alike(chance, 256)
    states = [_plain_state(chance, room, policy) for _ in range(chance.randint(1, 5))]
    answers = 0
    for _ in range(40):
        state = chance.choice(states)
        without = chance.sample(range(len(room.columns)), chance.choice((0, 0, 1, 3)))
        key = state.best_key_by_classes(room, without)
        expected = _without_classes(state, room, policy)[0].key
        expected[without] = -1
        best = int(expected.max())
        assert key is None or key == best
        answers += key is not None
        if best >= 0 and chance.random() < 0.8:
            room.take(state.request, [state.row_of(best)] * chance.choice((1, 1, 1, 2)))
        if room.log and chance.random() < 0.1:
            room.take(state.request, [chance.choice(room.log)], -1)
        if chance.random() < 0.02:
            room.take(state.request, [chance.randrange(len(room.columns))])
    assert answers


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(max_examples=examples(5))
@given(seed=st.integers(0, 2**32 - 1))
def test_gangs_of_several_shapes_in_turn_go_where_they_go_without_classes(policy: Policy, seed: int) -> None:
    chance = random.Random(seed)
    room = _many_alike(chance, 1024)
    states = [_plain_state(chance, room, policy) for _ in range(chance.randint(2, 5))]
    for _ in range(25):
        state, count = chance.choice(states), chance.choice((1, 1, 2, 7, 20))
        picks = state.picks(room, count)
        assert picks == greedy_picks(*_without_classes(state, room, policy), count, None)
        if chance.random() < 0.8:
            room.take(state.request, picks)
        else:
            state.refuse_picks()


def _some_requests(chance: random.Random, *, alike: bool) -> dict[str, int]:
    """Alike in what they ask for, though not in how much, or not even in that."""
    cpus, memories = (50, 90, 130, 300, 1000), (1 << 26, 1 << 27, (1 << 27) + 1, 1 << 30)
    least = 1 if alike else 0
    return {"cpu": chance.choice((*cpus, least)), "memory": chance.choice((*memories, least))}


def _the_next(line: list[ShapeState], most: int) -> list[GroupEntry]:
    group, ref = PodGroup("default", "group", "queue"), PodRef("default/pod", "uid")
    return [GroupEntry(group, pending=(Members(Slot("", ""), state.shape, (ref,)),)) for state in line[:most]]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(max_examples=examples(20))
@given(seed=st.integers(0, 2**32 - 1))
def test_pods_of_many_shapes_in_turn_go_where_each_would_go_alone(policy: Policy, seed: int) -> None:
    """Whoever is said to come next, whoever does, and whatever happens in between."""
    chance = random.Random(seed)
    room = _many_alike(chance, 256)
    alike, number = chance.random() < 0.8, chance.randint(2, 9)
    states = [_plain_state(chance, room, policy, _some_requests(chance, alike=alike)) for _ in range(number)]
    line = [chance.choice(states) for _ in range(120)] if chance.random() < 0.5 else states * 15
    in_turn, wrong, odd = InTurn(room), chance.choice((0.0, 0.0, 0.1)), chance.choice((0.0, 0.05))
    for place, said in enumerate(line):
        in_turn.upcoming = partial(_the_next, line[place + 1 :])
        state = said if chance.random() >= wrong else chance.choice(states)
        row = in_turn.row_for(state)
        picks = state.picks(room, 1) if row < 0 else [row]
        assert picks == greedy_picks(*_without_classes(state, room, policy), 1, None)
        room.take(state.request, picks)
        if chance.random() < odd:
            room.take(state.request, [chance.randrange(len(room.columns))], chance.choice((1, -1)))
