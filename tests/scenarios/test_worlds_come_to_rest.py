"""Whatever the cluster: plans that are carried out lead to rest, in which nothing happens any more, and no law is
broken on the way. Nobody starts and is evicted for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.random_worlds import objects
from tests.scenarios.cluster import Cluster, Member
from tests.scenarios.rich_worlds import rich_cluster


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
