"""Every registered plugin keeps the promises of its place: new ones are picked up here by themselves.

All are asked with their default arguments, over random clusters.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.configuration import ConfigurationError
from allhands.core.cycle import cycle
from allhands.core.dump import canonical
from allhands.core.extension import SCORE_SCALE
from allhands.core.memo import Memo
from allhands.core.plugins import PLUGINS, ROOMS, Plugin, Point
from allhands.core.policy import DEFAULT, Policy
from allhands.core.room import Room
from allhands.core.view import NodeView
from allhands.model.node import NodeImage, Taint
from allhands.model.reason import Explanation
from tests.core_laws import violations
from tests.depth import examples
from tests.random_worlds import Objects, build, objects, shuffled

if TYPE_CHECKING:
    from allhands.core.columns import Request
    from allhands.core.snapshot import Snapshot
    from allhands.model.shape import PodShape

NOW = 100
FIELD_BY_POINT = {
    Point.SCORE: "scores",
    Point.STATIC_SCORE: "static_scores",
    Point.FILTER: "filters",
    Point.ORDER: "orders",
    Point.GATE: "gates",
    Point.LIMIT: "limits",
    Point.GUARD: "guards",
}
clusters = settings(max_examples=examples(25, soak_factor=40))
seeds = st.integers(0, 2**32 - 1)


def every(*points: Point) -> pytest.MarkDecorator:
    """A parameter for each plugin of these points."""
    plugins = PLUGINS.at(*points)
    return pytest.mark.parametrize("plugin", plugins, ids=[plugin.name for plugin in plugins])


def world_of(seed: int) -> Objects:
    """Random objects, with what the static scores look at."""
    chance = random.Random(seed)
    parts = objects(seed)
    nodes = tuple(
        msgspec.structs.replace(
            node,
            taints=(*node.taints, Taint("slow", "PreferNoSchedule")) if chance.random() < 0.3 else node.taints,
            images=(NodeImage(("image:1",), chance.choice((1, 500, 5000)) << 20),) if chance.random() < 0.5 else (),
        )
        for node in parts.nodes
    )
    pods = tuple(
        it._replace(pod=msgspec.structs.replace(it.pod, images=("image:1",), container_count=1)) for it in parts.pods
    )
    return parts._replace(nodes=nodes, pods=pods)


def shapes_of(snapshot: Snapshot) -> list[tuple[PodShape, Request]]:
    found = {members.shape.digest: members.shape for entry in snapshot.groups.values() for members in entry.pending}
    requests = [(shape, snapshot.columns.request(shape.requests)) for _, shape in sorted(found.items())]
    return [(shape, request) for shape, request in requests if request is not None]


def policy_with(plugin: Plugin) -> Policy:
    """The default policy with this plugin first in its place."""
    if plugin.point is Point.NEIGHBOUR_SCORE:
        return DEFAULT
    field = FIELD_BY_POINT[plugin.point]
    made = plugin.build()
    use = (made, 3) if plugin.point in (Point.SCORE, Point.STATIC_SCORE) else made
    return msgspec.structs.replace(DEFAULT, **{field: (use, *getattr(DEFAULT, field))})


# -- all plugins


@every(*Point)
def test_a_plugin_is_registered_under_its_own_name_and_says_in_one_line_what_it_does(plugin: Plugin) -> None:
    assert plugin.make.name == plugin.name  # type: ignore[attr-defined]
    assert re.fullmatch(r"[a-z][a-z0-9]*", plugin.name)
    assert ROOMS[plugin.point][plugin.name] is plugin.make
    assert 10 < len(plugin.description) < 200


@every(*Point)
def test_a_plugin_refuses_arguments_that_it_does_not_have(plugin: Plugin) -> None:
    with pytest.raises(ConfigurationError) as error:
        plugin.build({"noSuchArgument": 1}, "here")
    assert error.value.errors[0].path == "here.noSuchArgument"
    assert "there are" in str(error.value)


@every(*Point)
def test_a_plugin_refuses_arguments_of_another_type_and_says_where(plugin: Plugin) -> None:
    for argument in plugin.arguments:
        for value in (None, 3.5, [{"a": 1}], *(() if argument.type == "text" else ("much",))):
            with pytest.raises(ConfigurationError) as error:
                plugin.build({argument.name: value}, "here")
            assert error.value.errors[0].path.startswith(f"here.{argument.name}")


@every(*Point)
@clusters
@given(seed=seeds)
def test_with_a_plugin_a_plan_breaks_no_law_and_is_the_same_with_any_memo(plugin: Plugin, seed: int) -> None:
    parts = world_of(seed)
    world = build(parts)
    snapshot = world.snapshot()
    before = canonical(snapshot)
    policy = policy_with(plugin)
    plan, memo = cycle(snapshot, policy, Memo(), NOW)
    assert violations(snapshot, plan) == []
    assert canonical(snapshot) == before
    assert cycle(build(shuffled(parts, seed)).snapshot(), policy_with(plugin), Memo(), NOW)[0] == plan
    for bind in plan.binds[::2]:
        world.assume_bound(bind.uid, bind.node, NOW)
    after = world.snapshot()
    assert cycle(after, policy, memo, NOW + 1)[0] == cycle(after, policy_with(plugin), Memo(), NOW + 1)[0]


# -- scores


@every(Point.SCORE)
@clusters
@given(seed=seeds)
def test_a_score_is_within_its_scale_wherever_a_pod_fits(plugin: Plugin, seed: int) -> None:
    snapshot = build(world_of(seed)).snapshot()
    room = Room(snapshot.columns)
    for shape, request in shapes_of(snapshot):
        view = NodeView(shape, request, room, slice(None))
        score = plugin.build().score(view)
        assert score.dtype == np.int64
        assert score.shape == (len(snapshot.columns),)
        feasible = score[view.fits()]
        assert ((feasible >= 0) & (feasible <= SCORE_SCALE)).all()


@every(Point.SCORE)
@clusters
@given(seed=seeds)
def test_a_score_looks_at_each_node_for_itself(plugin: Plugin, seed: int) -> None:
    """Whichever rows are in the view, in whatever order, however often, and whatever happens on other nodes."""
    chance = random.Random(seed)
    snapshot = build(world_of(seed)).snapshot()
    room, made = Room(snapshot.columns), plugin.build()
    for shape, request in shapes_of(snapshot):
        whole = made.score(NodeView(shape, request, room, slice(None)))
        rows = np.array(chance.choices(range(len(snapshot.columns)), k=7), dtype=np.int64)
        assert (made.score(NodeView(shape, request, room, rows)) == whole[rows]).all()
        busy = chance.randrange(len(snapshot.columns))
        room.take(request, [busy])
        others = np.arange(len(snapshot.columns)) != busy
        assert (made.score(NodeView(shape, request, room, slice(None)))[others] == whole[others]).all()
        room.take(request, [busy], -1)
        assert (made.score(NodeView(shape, request, room, slice(None))) == whole).all()
        assert (plugin.build().score(NodeView(shape, request, room, slice(None))) == whole).all()


@every(Point.SCORE)
@clusters
@given(seed=seeds)
def test_a_score_of_the_next_pods_is_what_it_will_be_when_those_before_are_placed(plugin: Plugin, seed: int) -> None:
    snapshot = build(world_of(seed)).snapshot()
    made, rows, steps = plugin.build(), np.arange(len(snapshot.columns)), 3
    for shape, request in shapes_of(snapshot):
        room = Room(snapshot.columns)
        ahead = made.score(NodeView(shape, request, room, rows, steps)).reshape(-1, steps)
        for step in range(steps):
            assert (made.score(NodeView(shape, request, room, slice(None))) == ahead[:, step]).all()
            room.take(request, rows.tolist())


@every(Point.SCORE)
@clusters
@given(seed=seeds)
def test_a_score_changes_nothing(plugin: Plugin, seed: int) -> None:
    snapshot = build(world_of(seed)).snapshot()
    room = Room(snapshot.columns)
    before = (room.free.tobytes(), room.share_of_unit.tobytes(), canonical(snapshot))
    for shape, request in shapes_of(snapshot):
        plugin.build().score(NodeView(shape, request, room, slice(None)))
    assert (room.free.tobytes(), room.share_of_unit.tobytes(), canonical(snapshot)) == before


# -- what does not change with usage


@every(Point.STATIC_SCORE, Point.FILTER)
@clusters
@given(seed=seeds)
def test_what_is_static_follows_nodes_and_nothing_else(plugin: Plugin, seed: int) -> None:
    """Asked again after a node changed, it says what one that never saw the old node says; usage plays no part."""
    chance = random.Random(seed)
    parts = world_of(seed)
    world, made = build(parts), plugin.build()
    snapshot = world.snapshot()
    shapes = [shape for shape, _ in shapes_of(snapshot)]
    for shape in shapes:
        first = answer(plugin, made, shape, snapshot)
        assert (first == answer(plugin, made, shape, snapshot)).all()
    for it in parts.pods:
        world.set_pod(msgspec.structs.replace(it.pod, node_name=parts.nodes[0].name), group=it.group, slot=it.slot)
    for shape in shapes:
        assert (answer(plugin, made, shape, world.snapshot()) == answer(plugin, plugin.build(), shape, snapshot)).all()
    changed = chance.choice(parts.nodes)
    world.set_node(msgspec.structs.replace(changed, labels={"zone": "c"}, taints=(Taint("slow", "PreferNoSchedule"),)))
    for shape in shapes:
        fresh = answer(plugin, plugin.build(), shape, world.snapshot())
        assert (answer(plugin, made, shape, world.snapshot()) == fresh).all()


def answer(plugin: Plugin, made: Any, shape: PodShape, snapshot: Snapshot) -> Any:
    if plugin.point is Point.FILTER:
        mask = made.mask(shape, snapshot.columns)
        assert mask.dtype == np.bool_
        assert mask.shape == (len(snapshot.columns),)
        return mask
    score = made.static_score(shape, snapshot.columns)
    assert score.dtype == np.int64
    assert score.shape == (len(snapshot.columns),)
    assert ((score >= 0) & (score <= SCORE_SCALE)).all()
    return score


# -- who goes first, who may start, who may be evicted


@every(Point.ORDER)
@clusters
@given(seed=seeds)
def test_an_order_gives_each_group_a_whole_number_that_depends_on_its_inputs_alone(plugin: Plugin, seed: int) -> None:
    parts = world_of(seed)
    one, other = build(parts).snapshot(), build(shuffled(parts, seed)).snapshot()
    made = plugin.build()
    ranks = {key: made.rank(entry, one, NOW) for key, entry in one.groups.items()}
    assert all(type(rank) is int for rank in ranks.values())
    assert {
        key: plugin.build().rank(entry, other, NOW) for key, entry in sorted(other.groups.items(), reverse=True)
    } == ranks


@every(Point.GATE, Point.LIMIT)
@clusters
@given(seed=seeds)
def test_a_gate_says_why_and_never_stops_what_has_begun(plugin: Plugin, seed: int) -> None:
    snapshot = build(world_of(seed)).snapshot()
    for entry in snapshot.groups.values():
        admitted = msgspec.structs.replace(entry, status=msgspec.structs.replace(entry.status, admitted_at_seconds=1))
        for group in (entry, admitted):
            why = refusal(plugin, group, snapshot)
            assert why is None or isinstance(why, Explanation)
            assert why == refusal(plugin, group, snapshot)
            assert why is None or not (group.bound or group is admitted)


def refusal(plugin: Plugin, entry: Any, snapshot: Snapshot) -> Explanation | None:
    made = plugin.build()
    if plugin.point is Point.GATE:
        found: Explanation | None = made.refusal(entry, snapshot, NOW)
    else:
        found = made.tally(snapshot, NOW).refusal(entry)
    return found


@every(Point.GUARD)
@clusters
@given(seed=seeds)
def test_a_guard_answers_yes_or_no_by_its_inputs_alone(plugin: Plugin, seed: int) -> None:
    snapshot = build(world_of(seed)).snapshot()
    made = plugin.build()
    entries = list(snapshot.groups.values())
    for victim in entries:
        for preemptor in entries[:3]:
            allowed = made.may_evict(victim, preemptor, snapshot, NOW)
            assert type(allowed) is bool
            assert plugin.build().may_evict(victim, preemptor, snapshot, NOW) is allowed
