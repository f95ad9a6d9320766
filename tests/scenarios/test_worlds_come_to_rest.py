"""Whatever the cluster: plans that are carried out lead to rest, in which nothing happens any more, and no law is
broken on the way. Nobody starts and is evicted for ever."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.dump import canonical
from allhands.core.memo import Memo
from allhands.core.world import World
from allhands.model.group_status import NO_STATUS
from tests.depth import examples
from tests.random_worlds import objects
from tests.scenarios.cluster import Cluster, Member
from tests.scenarios.rich_worlds import rich_cluster

if TYPE_CHECKING:
    from collections.abc import Callable


def cluster_of(seed: int) -> Cluster:
    parts = objects(seed)
    it = Cluster()
    for node in parts.nodes:
        it.world.set_node(node)
    it.know(*parts.facts.accounts, domains=parts.facts.domains)
    for group in parts.groups:
        it.groups[group.key] = group
        it.set_status(group.key)
    for pod, group_key, slot in parts.pods:
        it.put(Member(pod, group_key, slot))
    return it


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32 - 1))
def test_random_worlds_come_to_rest(seed: int) -> None:
    cluster_of(seed).settle(60, quiet=False)


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 2**32 - 1), gone=st.integers(0, 11), at=st.integers(1, 4))
def test_worlds_that_lose_a_node_come_to_rest(seed: int, gone: int, at: int) -> None:
    it = cluster_of(seed).run(at)
    it.world.delete_node(f"node-{gone}")
    it.lose(*(member.pod.name for member in it.pods.values() if member.pod.node_name == f"node-{gone}"))
    it.settle(60, quiet=False)


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 2**32 - 1))
def test_worlds_with_everything_in_them_come_to_rest(seed: int) -> None:
    # Time alone goes on for a while: pauses end, windows close, estimates are outlived.
    rich_cluster(seed).run(40).settle(60, quiet=False)


def rebuilt(it: Cluster, seed: int) -> World:
    """A world that sees the same objects at once, in another order."""
    world = World()
    events: list[Callable[[], None]] = [partial(world.set_node, node) for node in it.world.snapshot().columns.nodes]
    events += [partial(world.set_group, group, it.status[key]) for key, group in it.groups.items()]
    events += [
        partial(
            world.set_pod,
            pod,
            group=group,
            slot=slot,
            status=it.status.get(group or f"{pod.namespace}/pod:{pod.name}", NO_STATUS),
        )
        for pod, group, slot in it.pods.values()
    ]
    events.append(partial(world.set_facts, it.facts))
    random.Random(seed).shuffle(events)
    for event in events:
        event()
    return world


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 6))
def test_in_worlds_with_everything_in_them_the_order_of_events_does_not_matter(seed: int, steps: int) -> None:
    it = rich_cluster(seed).run(steps)
    one, other = it.world.snapshot(), rebuilt(it, seed).snapshot()
    assert canonical(one) == canonical(other)
    assert cycle(one, it.policy, Memo(), it.now)[0] == cycle(other, it.policy, Memo(), it.now)[0]
