"""Over random storage: the filter says of all nodes at once what a plain reading says of each, as pods are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.feasibility.volumes import VolumeFeasibility
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.shape import PodShape
from tests.depth import examples
from tests.unit.core.feasibility.plain_reading import PlainReading, state_of
from tests.unit.core.feasibility.random_storage import NODES, RandomStorage
from tests.unit.core.feasibility.storage import Shelf

if TYPE_CHECKING:
    from allhands.model.pod import Pod

seeds = st.integers(0, 2**32 - 1)


def shape_of(pod: Pod) -> PodShape:
    return PodShape.of(pod, None, pinned=False)


def shelf_of(given_storage: RandomStorage) -> Shelf:
    return Shelf(given_storage.facts, *given_storage.running, labels=given_storage.labels)


@given(seed=seeds)
@settings(max_examples=examples(300))
def test_every_verdict_is_that_of_a_plain_reading(seed: int) -> None:
    storage = RandomStorage(seed)
    shelf, nodes = shelf_of(storage), shelf_of(storage).columns.nodes
    reading = PlainReading(storage.facts, [(pod, pod.node_name) for pod in storage.running])
    for pod in storage.waiting:
        shape = shape_of(pod)
        found = shelf.filter.mask(shape)
        assert found.tolist() == [reading.allows(pod, node) for node in nodes]
        reach = shelf.filter.reach(shape)
        assert not (found & ~reach).any()
        assert shelf.filter.is_dynamic(shape) or np.array_equal(found, reach)
        assert (shelf.filter.why(shape) is None) == bool(found.any())
        if found.any():
            row = storage.one_of(np.flatnonzero(found).tolist())
            shelf.filter.placed(shape, row, 1)
            reading.place(pod, nodes[row])
            prepared = {step.claim: getattr(step, "volume", "") for step in shelf.filter.prepare(shape, row)}
            assert prepared == {key: reading.promises[key].volume for key in reading.unbound(pod)}


@given(seed=seeds)
@settings(max_examples=examples(200))
def test_no_volume_is_promised_twice_and_every_promise_can_be_kept(seed: int) -> None:
    storage = RandomStorage(seed)
    shelf = shelf_of(storage)
    owner_by_volume: dict[str, str] = {}
    for pod in storage.waiting * 2:
        shape = shape_of(pod)
        rows = np.flatnonzero(shelf.filter.mask(shape)).tolist()
        if not rows:
            continue
        row = storage.one_of(rows)
        shelf.filter.placed(shape, row, 1)
        for step in shelf.filter.prepare(shape, row):
            if volume := getattr(step, "volume", ""):
                assert owner_by_volume.setdefault(volume, step.claim) == step.claim
                assert storage.facts.volumes[volume].allows(shelf.columns.nodes[row].labels)
            else:
                assert storage.facts.classes[storage.facts.claims[step.claim].class_name].provisions


@given(seed=seeds)
@settings(max_examples=examples(60))
def test_what_is_handed_on_from_cycle_to_cycle_changes_no_verdict(seed: int) -> None:
    storage = RandomStorage(seed)
    world, known, before = World(), storage.facts, None
    for name, labels in storage.labels.items():
        world.set_node(Node(name, labels=labels))
    shapes = [shape_of(pod) for pod in storage.waiting]
    for pod in storage.running + storage.waiting:
        world.set_pod(pod, ours=False)
        if pod in storage.waiting:
            world.assume_bound(pod.uid, storage.one_of(NODES))
        match storage.one_of(("pod", "pod", "leaves", "labels", "facts")):
            case "leaves":
                world.delete_pod(storage.one_of(storage.running).uid if storage.running else "nobody")
            case "labels":
                world.set_node(Node(storage.one_of(NODES), labels=storage.labels[storage.one_of(NODES)]))
            case "facts":
                other = {name: RandomStorage(seed + 1).facts.volumes[name] for name in list(known.volumes)[:3]}
                known = msgspec.structs.replace(known, volumes={**known.volumes, **other})
        snapshot = world.snapshot()
        chained = VolumeFeasibility(known, snapshot.columns, snapshot.pods, before)
        fresh = VolumeFeasibility(known, snapshot.columns, snapshot.pods)
        for shape in shapes:
            assert chained.mask(shape).tolist() == fresh.mask(shape).tolist()
            chained.placed(shape, 0, 1)
            fresh.placed(shape, 0, 1)
        before = chained


@given(seed=seeds)
@settings(max_examples=examples(200))
def test_taking_pods_off_again_in_any_order_leaves_no_trace(seed: int) -> None:
    storage = RandomStorage(seed)
    shelf = shelf_of(storage)
    volumes = shelf.filter

    def state() -> tuple[object, ...]:
        claims = {name: it for name, it in vars(volumes.claims).items() if name in ("_promises", "_taken")}
        # Who uses a volume is looked up when it is first asked for.
        usage = {name: it for name, it in vars(volumes.usage).items() if name != "_attached"}
        shapes = [shape_of(pod) for pod in (*storage.running, *storage.waiting)]
        attached = {it for shape in shapes for it, _ in volumes.storage.use(shape).attachments}
        users = [dict(volumes.usage.users(it)) for it in sorted(attached)]
        return state_of(usage), state_of(claims), users, [volumes.mask(it).tolist() for it in shapes]

    before = state()
    # A pod that runs may be thought away, as a victim is; all others are put somewhere, whether it is allowed or not.
    victims = storage.running[: storage.one_of((0, 1, 5))]
    steps = [(pod, shelf.columns.row_by_name[pod.node_name], -1) for pod in victims]
    steps += [(pod, storage.one_of(range(len(NODES))), 1) for pod in storage.waiting]
    for pod, row, sign in steps:
        volumes.placed(shape_of(pod), row, sign)
    for pod, row, sign in storage.shuffled(steps):
        volumes.placed(shape_of(pod), row, -sign)
    assert state() == before
