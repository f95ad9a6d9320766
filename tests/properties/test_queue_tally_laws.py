"""What a tally says after any history of changes is what one says that is told only how things are now."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.queue_tally import GroupShare, PodPart, PodShare, QueueTally
from allhands.model.resources import PODS, ResourceVector
from tests.depth import examples

QUEUES = ("", "default", "a", "b")
GROUPS = ("g1", "g2", "pod:x")
PODS_NAMED = ("p1", "p2", "p3", "p4")
VECTORS = st.sampled_from([ResourceVector.of({"cpu": 1000}), ResourceVector.of({"cpu": 500, "memory": 7})])
POD_SHARES = st.builds(
    PodShare, st.sampled_from(GROUPS), st.sampled_from(QUEUES), st.sampled_from(list(PodPart)), VECTORS, st.booleans()
)
GROUP_SHARES = st.builds(
    GroupShare,
    st.sampled_from(QUEUES),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
CHANGES = st.lists(
    st.tuples(st.just("pod"), st.sampled_from(PODS_NAMED), st.none() | POD_SHARES)
    | st.tuples(st.just("group"), st.sampled_from(GROUPS), st.none() | GROUP_SHARES),
    max_size=25,
)


def _apply(tally: QueueTally, change: tuple[str, str, PodShare | GroupShare | None]) -> tuple[str, ...]:
    what, key, share = change
    return tally.set_pod(key, share) if what == "pod" else tally.set_group(key, share)  # type: ignore[arg-type]


@given(CHANGES)
@settings(max_examples=examples(200))
def test_a_tally_forgets_history(changes: list[tuple[str, str, PodShare | GroupShare | None]]) -> None:
    kept = QueueTally("default")
    last = {}
    for change in changes:
        _apply(kept, change)
        last[change[:2]] = change
    fresh = QueueTally("default")
    for change in last.values():
        _apply(fresh, change)
    assert [kept.use(queue) for queue in QUEUES] == [fresh.use(queue) for queue in QUEUES]


@given(CHANGES)
@settings(max_examples=examples(200))
def test_every_queue_that_differs_is_named_and_all_that_is_held_is_counted_once(
    changes: list[tuple[str, str, PodShare | GroupShare | None]],
) -> None:
    tally = QueueTally("default")
    pods: dict[str, PodShare] = {}
    for change in changes:
        before = {queue: tally.use(queue) for queue in QUEUES}
        touched = _apply(tally, change)
        assert {queue for queue in QUEUES if tally.use(queue) != before[queue]} <= set(touched)
        what, key, share = change
        if what == "pod":
            pods.pop(key, None)
            if isinstance(share, PodShare):
                pods[key] = share
    wanted: Counter[str] = Counter()
    for pod in pods.values():
        if pod.counts and pod.part in (PodPart.BOUND, PodPart.RUNS):
            wanted.update(dict(pod.holds.entries))
            wanted[PODS] += 1
    held: Counter[str] = Counter()
    for queue in QUEUES:
        held.update(dict(tally.use(queue).holds.entries))
    assert held == wanted
