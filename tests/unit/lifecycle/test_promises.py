"""A promise keeps others out only while whoever has it can start once others end."""

from __future__ import annotations

import pytest

from allhands.lifecycle.promises import MAKING_SECONDS, Making, given_up, may_still_start
from allhands.model.reason import NEVER_ALLOWED, SENTENCES, Explanation, Reason, explain

NO_NODE = explain(Reason.NO_MATCHING_NODE, nodes=6)
NO_ROOM = explain(Reason.INSUFFICIENT_RESOURCES, fits=1, need=2, resource="cpu", short="1")
FORMING = explain(Reason.GANG_INCOMPLETE, have=0, need=2)
BEHIND = explain(Reason.BEHIND_OTHERS, position=2, waiting=2, queue="blue", first="a/first")


def counts(
    said: Explanation | None,
    *,
    lacks_pods: bool = False,
    is_given_up: bool = False,
    others: dict[str, Explanation] | None = None,
) -> bool:
    return may_still_start(said, lacks_pods=lacks_pods, is_given_up=is_given_up, said_of=(others or {}).get)


def test_who_waits_for_room_or_was_told_nothing_yet_has_its_promise() -> None:
    assert counts(None)
    assert counts(NO_ROOM)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.NO_MATCHING_NODE,
        Reason.UNTOLERATED_TAINT,
        Reason.AFFINITY,
        Reason.VOLUME_NOT_READY,
        Reason.DEVICE_NOT_AVAILABLE,
        Reason.SCHEDULING_GATED,
        Reason.QUEUE_CLOSED,
        Reason.GROUP_NEVER_FITS,
        Reason.INVALID,
    ],
)
def test_who_waits_for_what_no_end_of_others_brings_has_none(reason: Reason) -> None:
    assert not counts(Explanation(reason, "It waits."))
    assert reason in SENTENCES


def test_who_can_never_start_has_none_though_it_is_for_want_of_quota_or_of_pods() -> None:
    assert not counts(NO_ROOM.with_more(NEVER_ALLOWED, never=1))
    assert not counts(NO_ROOM.with_more(NEVER_ALLOWED, never=1), lacks_pods=True)


def test_a_topology_without_a_domain_is_no_want_of_room() -> None:
    numbers = (("domains", 0),)
    assert not counts(Explanation(Reason.TOPOLOGY, "There is none.", numbers))
    assert counts(Explanation(Reason.TOPOLOGY, "There are {domains}.", (("domains", 2),)))


@pytest.mark.parametrize("said", [None, FORMING, NO_NODE])
def test_who_has_too_few_pods_has_its_promise_until_it_is_given_up(said: Explanation | None) -> None:
    assert counts(said, lacks_pods=True)
    assert not counts(said, lacks_pods=True, is_given_up=True)


def test_pods_that_are_there_and_do_not_count_are_pods_that_lack() -> None:
    assert counts(FORMING)
    assert not counts(FORMING, is_given_up=True)


def test_who_stands_behind_one_who_cannot_start_has_no_promise_either() -> None:
    assert counts(BEHIND)
    assert counts(BEHIND, others={"a/first": NO_ROOM})
    assert counts(BEHIND, others={"a/first": FORMING})
    assert not counts(BEHIND, others={"a/first": NO_NODE})


def test_the_more_pods_are_to_be_made_the_longer_each_group_waits_for_its_own() -> None:
    few = {"a": Making(0.0, 0, 5), "b": Making(MAKING_SECONDS, 0, 5)}
    assert given_up(few, MAKING_SECONDS) == set()
    assert given_up(few, MAKING_SECONDS + 1) == {"a"}
    many = few | {"c": Making(0.0, 0, 10_000)}
    assert given_up(many, MAKING_SECONDS + 1) == set()
    assert given_up(many, MAKING_SECONDS + 102) == {"a", "c"}
