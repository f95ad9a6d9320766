"""Which groups may have their pods made: as far as their queue and the cluster have room, or if they are owed it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.enqueueing import Candidate, Holding, enqueue
from allhands.model.queue import Queue, QueueOrder, QueueState, Quota
from allhands.model.reason import Reason, explain
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
        "b": 'Queue "blue" has given or promised 6 of its capability of 8 cpu; the group asks for 4.',
        "c": "",
    }


def test_the_more_important_come_first_and_in_a_strict_queue_nobody_passes() -> None:
    candidates = [asking("a", 4, at=1), asking("b", 6, priority=5, at=2), asking("c", 1, at=3)]
    assert let_in(candidates, [], queue(capability=8)) == ["b", "c"]
    told = verdicts(candidates, [], queue(capability=8, order=QueueOrder.FIFO_STRICT))
    assert (told["b"], told["c"]) == ("", 'The group is number 2 of 2 in queue "blue".')


def test_who_stands_behind_one_who_can_never_start_is_told_so_and_who_it_is() -> None:
    blue = queue(order=QueueOrder.FIFO_STRICT, capability=4)
    told = verdicts([asking("a", 5, at=1), asking("b", 1, at=2), asking("c", 1, at=3)], None, blue)
    for position, key in ((2, "b"), (3, "c")):
        assert told[key] == (
            f'The group is number {position} of {position} in queue "blue". '
            'The first of them, "a", can never start as things are, and nobody passes it in this queue.'
        )


def test_every_queue_above_must_have_room_too() -> None:
    tree = [queue("root", capability=5), queue("blue", "root"), queue("red", "root")]
    told = verdicts([asking("a", 3)], [holding(3, "red")], *tree)
    assert told == {"a": 'Queue "root" has given or promised 3 of its capability of 5 cpu; the group asks for 3.'}


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


def test_who_has_waited_as_long_as_it_may_gets_its_pods_but_not_more_than_its_queue_may_have() -> None:
    late = asking("a", 4)._replace(due_at_seconds=10, is_overdue=True)
    assert let_in([asking("a", 4)], [holding(12)], queue()) == []
    assert let_in([late], [holding(12)], queue()) == ["a"]
    assert let_in([late], [holding(12)], queue(capability=14)) == []
    assert let_in([late._replace(asks=ResourceVector.of({"cpu": 11_000}))], [], queue()) == [], "nor than all nodes"


def test_who_may_not_wait_for_long_comes_before_who_may_but_after_the_more_important() -> None:
    soon = asking("soon", 4, at=9)._replace(due_at_seconds=20)
    candidates = [asking("old", 4, at=1), asking("older", 4, at=0), soon]
    assert let_in(candidates, [holding(8)], queue()) == ["soon"]
    assert let_in([*candidates, asking("vip", 4, priority=1, at=99)], [holding(8)], queue()) == ["vip"]


def test_who_outranks_those_in_its_queue_gets_its_pods() -> None:
    assert let_in([asking("a", 4, priority=1)], [holding(12)], queue()) == ["a"]
    assert let_in([asking("a", 4, priority=1)], [holding(12, priority=1)], queue()) == []
    assert let_in([asking("a", 4, priority=1)], [holding(12, preemptible=False)], queue()) == []
    assert let_in([asking("a", 4, priority=1)], [holding(12, "red")], queue(), queue("red")) == []


def test_who_could_never_start_is_told_so_is_not_let_in_and_keeps_nobody_out() -> None:
    never = explain(Reason.GROUP_NEVER_FITS, need=4)
    candidates = [asking("a", 4, at=1)._replace(never=never), asking("b", 8, at=2)]
    told = verdicts(candidates, [], queue(capability=8))
    assert told == {"a": str(never), "b": ""}


def test_who_asks_for_more_than_its_queue_may_ever_have_is_told_that_time_does_not_help() -> None:
    found = enqueue([asking("a", 9)], [holding(2)], {"blue": queue(capability=8)}, CAPACITY, {})["a"]
    assert found is not None
    assert found.is_never
    assert str(found) == (
        'Queue "blue" has given or promised 2 of its capability of 8 cpu; the group asks for 9. '
        "It can never start with these quotas, even if nothing else ran."
    )


def test_that_time_does_not_help_is_told_before_what_is_short_now() -> None:
    parent, blue = queue("up", capability=6), queue(parent="up", capability=8)
    told = verdicts([asking("a", 7)], [holding(4)], blue, parent)
    assert told["a"].startswith('Queue "up" has given or promised 4 of its capability of 6 cpu')
    assert "never" in told["a"]
    both = Candidate("a", "", ResourceVector.of({"cpu": 4000, "memory": 101}))
    assert "101 memory" in verdicts([both], [holding(10)])["a"]


def test_who_asks_for_more_than_all_nodes_have_is_not_let_in_unless_it_is_owed_that_much() -> None:
    """Whoever adds nodes looks at pods: so those who deserve them have their pods made."""
    told = verdicts([asking("a", 11)._replace(pods=3)], [], queue())
    assert told == {
        "a": "It asks for 11 cpu in all, and all nodes together have 10: it can never start on these nodes."
    }
    assert let_in([asking("a", 11)], [], queue(deserved=12)) == ["a"]


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
