"""Who is told that it can never start would not start on an empty cluster either; and who would is not told so."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue
from tests.depth import examples
from tests.scenarios.cluster import Cluster, cpu


class Drawn(NamedTuple):
    sizes: list[int]
    """Cores of nodes: the first half are in one rack, the others in another."""
    pods: int
    cores: int
    in_one_rack: bool
    capability: int
    guarantee: int
    """Of another queue."""
    held: int
    """Cores that somebody has on the first node."""


WORLDS = st.builds(
    Drawn,
    st.lists(st.integers(1, 6), min_size=2, max_size=5),
    st.integers(1, 6),
    st.integers(1, 5),
    st.booleans(),
    st.integers(1, 30),
    st.integers(0, 4),
    st.integers(0, 6),
)


def world(drawn: Drawn, *, is_empty: bool) -> Cluster:
    it = Cluster()
    names = [f"n{number}" for number in range(len(drawn.sizes))]
    for name, cores in zip(names, drawn.sizes, strict=True):
        it.nodes(name, cpu=cores)
    half = len(names) // 2
    it.domain("a", " ".join(names[:half])).domain("b", " ".join(names[half:]))
    quotas = (cpu(guarantee=drawn.guarantee),) if drawn.guarantee else ()
    it.know(Queue("q", quotas=(cpu(capability=drawn.capability),)), Queue("other", quotas=quotas))
    if not is_empty and (held := min(drawn.held, drawn.sizes[0])):
        it.gang("runs", 1, cpu=held, on="n0", group={"expected_duration_seconds": 100})
    rule = TopologyRule(TopologyMode.HARD, highest_tier=1) if drawn.in_one_rack else None
    return it.gang("g", drawn.pods, cpu=drawn.cores, members=SubGroup(min_count=drawn.pods, topology=rule))


@settings(max_examples=examples(100), deadline=None)
@given(WORLDS)
@example(Drawn([4, 4], 1, 5, False, 6, 0, 2))
@example(Drawn([3, 3], 3, 2, False, 7, 0, 2))
def test_never_is_said_of_those_who_would_not_start_alone_and_of_nobody_else(drawn: Drawn) -> None:
    alone = world(drawn, is_empty=True)
    starts_alone = bool(alone.decide().starts)
    plan = world(drawn, is_empty=False).decide()
    if any(it.group == "default/g" for it in plan.starts):
        assert starts_alone
        return
    (wait,) = [it for it in plan.waits if it.group == "default/g"]
    assert wait.explanation.is_never != starts_alone
    if wait.explanation.is_never:
        assert wait.expected_start_seconds is None
