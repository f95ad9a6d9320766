"""Which groups may have their pods made: as far as their queue and the cluster have room, or if they are owed it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.enqueueing import Candidate, Holding, enqueue
from allhands.model.queue import Queue, QueueOrder, QueueState, Quota
from allhands.model.resources import ResourceVector
from tests.depth import examples

CAPACITY = {"cpu": 10_000, "memory": 100}


def asking(key: str, cpu: int | None, queue: str = "blue", priority: int = 0, at: int = 0) -> Candidate:
    asks = None if cpu is None else ResourceVector.of({"cpu": cpu * 1000})
    return Candidate(key, queue, asks, priority, at)


def holding(cpu: int, queue: str = "blue", priority: int = 0, *, preemptible: bool = True) -> Holding:
    return Holding(queue, {"cpu": cpu * 1000}, priority, preemptible)


def queue(name: str = "blue", parent: str | None = None, **more: object) -> Queue:
    quota = {key: int(more.pop(key)) * 1000 for key in ("capability", "deserved") if key in more}  # type: ignore[call-overload]
    return Queue(name, parent, (Quota("cpu", **quota),) if quota else (), **more)  # type: ignore[arg-type]


def verdicts(
    candidates: list[Candidate], holdings: list[Holding] | None = None, *queues: Queue, strangers: int = 0
) -> dict[str, str]:
    """What each is told, "" for those who are let in."""
    known = {it.name: it for it in queues}
    found = enqueue(candidates, holdings or [], known, CAPACITY, {"cpu": strangers * 1000})
    return {key: "" if why is None else str(why) for key, why in found.items()}


def let_in(*arguments: object, **more: object) -> list[str]:
    return [key for key, why in verdicts(*arguments, **more).items() if not why]  # type: ignore[arg-type]


def test_who_does_not_say_what_it_needs_is_let_in() -> None:
    assert let_in([asking("a", None)], [holding(99)], queue(capability=1)) == ["a"]


def test_a_queue_lets_in_as_much_as_it_may_ever_have_the_oldest_first() -> None:
    told = verdicts(
        [asking("c", 2, at=3), asking("a", 4, at=1), asking("b", 4, at=2)], [holding(2)], queue(capability=8)
    )
    assert told == {
        "a": "",
        "b": 'Queue "blue" uses 6 of its capability of 8 cpu; the group asks for 4.',
        "c": "",
    }


def test_the_more_important_come_first_and_in_a_strict_queue_nobody_passes() -> None:
    candidates = [asking("a", 4, at=1), asking("b", 6, priority=5, at=2), asking("c", 1, at=3)]
    assert let_in(candidates, [], queue(capability=8)) == ["b", "c"]
    told = verdicts(candidates, [], queue(capability=8, order=QueueOrder.FIFO_STRICT))
    assert (told["b"], told["c"]) == ("", 'The group is number 2 of 2 in queue "blue".')


def test_every_queue_above_must_have_room_too() -> None:
    tree = [queue("root", capability=5), queue("blue", "root"), queue("red", "root")]
    told = verdicts([asking("a", 3)], [holding(3, "red")], *tree)
    assert told == {"a": 'Queue "root" uses 3 of its capability of 5 cpu; the group asks for 3.'}


def test_a_queue_that_starts_nothing_lets_nobody_in() -> None:
    for state, word in ((QueueState.CLOSED, "closed"), (QueueState.HOLD, "held"), (QueueState.DRAIN, "drained")):
        told = verdicts([asking("a", None)], [], queue(state=state))["a"]
        assert word in told
    assert verdicts([asking("a", None)], [], queue("red"))["a"] == 'Queue "blue" does not exist.'
    assert let_in([asking("a", None)], []) == ["a"]  # a cluster without queues


def test_the_cluster_is_promised_a_fifth_more_than_it_has() -> None:
    candidates = [asking("a", 4, at=1), asking("b", 4, at=2)]
    assert let_in(candidates, [holding(4)], queue()) == ["a", "b"]
    told = verdicts(candidates, [holding(4)], queue(), strangers=1)["b"]
    assert told == (
        "All groups together hold, or were promised, 9 of 12 cpu (120 % of what the nodes have); the group asks for 4."
    )


def test_who_is_owed_room_gets_its_pods_even_if_others_have_all_of_it() -> None:
    full = [holding(12, "red")]
    assert let_in([asking("a", 4)], full, queue("red"), queue(deserved=4)) == ["a"]
    assert let_in([asking("a", 4)], full, queue("red"), queue(deserved=3)) == []


def test_who_outranks_those_in_its_queue_gets_its_pods() -> None:
    assert let_in([asking("a", 4, priority=1)], [holding(12)], queue()) == ["a"]
    assert let_in([asking("a", 4, priority=1)], [holding(12, priority=1)], queue()) == []
    assert let_in([asking("a", 4, priority=1)], [holding(12, preemptible=False)], queue()) == []
    assert let_in([asking("a", 4, priority=1)], [holding(12, "red")], queue(), queue("red")) == []


def test_a_circle_of_queues_ends() -> None:
    assert let_in([asking("a", 1)], [holding(1)], queue("blue", "red"), queue("red", "blue")) == ["a"]


CANDIDATES = st.lists(
    st.builds(
        asking,
        st.sampled_from("abcdefgh"),
        st.none() | st.integers(0, 9),
        st.sampled_from(["blue", "red"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    unique_by=lambda it: it.key,
)


@settings(max_examples=examples(200))
@given(candidates=CANDIDATES, held=st.integers(0, 9), caps=st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_no_queue_lets_in_more_than_its_capability_and_the_order_of_asking_does_not_matter(
    candidates: list[Candidate], held: int, caps: tuple[int, int]
) -> None:
    queues = (queue("blue", capability=caps[0]), queue("red", "blue", capability=caps[1]))
    told = verdicts(candidates, [holding(held, "red")], *queues)
    assert told == verdicts(candidates[::-1], [holding(held, "red")], *queues)
    for name, members in (("blue", ("blue", "red")), ("red", ("red",))):
        new = sum(it.asks.get("cpu") for it in candidates if it.asks and it.queue in members and not told[it.key])
        cap = next(it.quotas[0].capability for it in queues if it.name == name)
        assert cap is not None
        assert new == 0 or held * 1000 + new <= cap
