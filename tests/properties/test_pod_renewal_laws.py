"""A pod that goes on where it is costs little to follow, and the world is the same as if it had been built anew."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.dump import canonical
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.resources import ResourceVector
from tests.depth import examples

NODES = [
    Node(name, allocatable=ResourceVector.of({"cpu": 8000, "memory": 1 << 30, "pods": 9})) for name in ("n1", "n2")
]
GROUP = PodGroup("default", "gang", "", members=SubGroup(min_count=2))


class Step(NamedTuple):
    pod: int
    what: str
    node: str
    phase: PodPhase
    number: int
    snapshot: bool


STEPS = st.builds(
    Step,
    pod=st.integers(0, 2),
    what=st.sampled_from(
        ["assume", "assume", "bind", "bind", "status", "status", "evict", "change", "nominate", "delete"]
    ),
    node=st.sampled_from(["n1", "n2", "n3", ""]),
    phase=st.sampled_from([PodPhase.PENDING, PodPhase.RUNNING, PodPhase.RUNNING, PodPhase.SUCCEEDED]),
    number=st.integers(0, 3),
    snapshot=st.booleans(),
)


class Known(NamedTuple):
    """What the API says, and what is assumed on top."""

    pod: Pod
    node: str = ""
    evicted: bool = False


@settings(max_examples=examples(200))
@given(st.lists(STEPS, max_size=14))
def test_pods_that_are_followed_count_as_those_that_are_told_anew(steps: list[Step]) -> None:
    known = {number: Known(_pod(number)) for number in range(3)}
    followed = _told(known)
    for step in steps:
        _take(step, known, followed)
        if step.snapshot:
            followed.snapshot(lasting=step.number % 2 == 0)
    assert canonical(followed.snapshot()) == canonical(_told(known).snapshot())


def _pod(number: int) -> Pod:
    requests = ResourceVector.of({"cpu": 1000})
    return Pod("default", f"p{number}", uid=f"u{number}", requests=requests, scheduler_name="x" if number else "other")


def _told(known: dict[int, Known]) -> World:
    world = World()
    for node in NODES:
        world.set_node(node)
    world.set_group(GROUP)
    for number, it in known.items():
        _set(world, number, it.pod)
        if it.node:
            world.assume_bound(it.pod.uid, it.node, 7)
        world.assume_evicted(it.pod.uid, evicted=it.evicted)
    return world


def _set(world: World, number: int, pod: Pod) -> None:
    """The first is somebody else's, the others are a gang."""
    world.set_pod(pod, group="default/gang" if number else "", ours=number > 0)


def _take(step: Step, known: dict[int, Known], world: World) -> None:
    number = step.pod
    if number not in known:
        known[number] = Known(_pod(number))
        _set(world, number, known[number].pod)
    it = known[number]
    pod = it.pod
    if step.what == "assume":
        if not pod.node_name:
            known[number] = it._replace(node=step.node)
            world.assume_bound(pod.uid, step.node, 7)
    elif step.what == "evict":
        known[number] = it._replace(evicted=bool(step.number % 2))
        world.assume_evicted(pod.uid, evicted=bool(step.number % 2))
    elif step.what == "delete":
        del known[number]
        world.delete_pod(pod.uid)
    else:
        pod = _changed(step, it)
        known[number] = Known(pod, "" if pod.node_name else it.node, it.evicted)
        if not world.renew_pod(pod):
            _set(world, number, pod)


def _changed(step: Step, it: Known) -> Pod:
    pod = it.pod
    match step.what:
        case "bind" if not pod.node_name:
            return msgspec.structs.replace(pod, node_name=it.node or step.node, bound_at_seconds=step.number)
        case "nominate":
            return msgspec.structs.replace(pod, nominated_node=step.node)
        case "change":
            requests = ResourceVector.of({"cpu": 1000 * step.number})
            return msgspec.structs.replace(pod, requests=requests, priority=step.number, labels={"a": str(step.number)})
    return msgspec.structs.replace(pod, phase=step.phase, started_at_seconds=step.number, deleting=step.number == 2)
