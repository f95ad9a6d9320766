"""The checker sees what must never happen, and says when and who."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.ports import Event
from allhands.sim.checkers import HALF_BOUND_SECONDS, GangWatch, LawBrokenError, LawChecker


def node(name: str, cpu: str = "2", type: Any = "ADDED") -> Event:
    status = {"allocatable": {"cpu": cpu, "pods": "10"}}
    return Event(type, msgspec.json.encode({"metadata": {"name": name}, "status": status}))


def pod(name: str, node_name: str = "", cpu: str = "1", type: Any = "ADDED", phase: str = "Running") -> Event:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"containers": [container], "nodeName": node_name},
        "status": {"phase": phase},
    }
    return Event(type, msgspec.json.encode(body))


def test_a_node_over_its_allocatable_is_seen_at_the_bind_that_does_it() -> None:
    laws = LawChecker()
    laws.node(node("a"))
    laws.pod(pod("one", "a"), 1)
    laws.pod(pod("two"), 2)
    laws.pod(pod("two", "a"), 3)
    with pytest.raises(LawBrokenError, match=r"at 4\.000 s: pod default/three puts a over its cpu: 3000 of 2000"):
        laws.pod(pod("three", "a"), 4)


def test_who_has_ended_or_is_gone_holds_nothing() -> None:
    laws = LawChecker()
    laws.node(node("a"))
    for name in ("one", "two"):
        laws.pod(pod(name, "a"), 1)
    laws.pod(pod("one", "a", phase="Succeeded"), 2)
    laws.pod(pod("two", "a", type="DELETED"), 3)
    for name in ("three", "four"):
        laws.pod(pod(name, "a"), 4)
    laws.check_whole()
    assert laws.bound == 4


def test_a_pod_that_moves_is_seen() -> None:
    laws = LawChecker()
    laws.node(node("a"))
    laws.node(node("b"))
    laws.pod(pod("one", "a"), 1)
    with pytest.raises(LawBrokenError, match="moved from a to b"):
        laws.pod(pod("one", "b"), 2)


def test_pods_that_were_there_before_their_node_is_seen_are_counted() -> None:
    laws = LawChecker()
    laws.pod(pod("one", "a"), 1)
    laws.node(node("a", cpu="1"))
    with pytest.raises(LawBrokenError):
        laws.pod(pod("two", "a"), 2)
    laws.node(node("a", type="DELETED"))
    laws.check_whole()


def _pods(*events: Event) -> list[Pod]:
    decoder = msgspec.json.Decoder(PodDocument)
    return [Pod.from_document(decoder.decode(event.raw)) for event in events]


def test_a_gang_may_be_partly_bound_for_a_moment_and_not_for_long() -> None:
    watch = GangWatch()
    half = {"gang": (2, _pods(pod("one", "a"), pod("two")))}
    watch.look(half, 0, frozenset())
    watch.look(half, HALF_BOUND_SECONDS, frozenset())
    watch.look({"gang": (2, _pods(pod("one", "a"), pod("two", "a")))}, HALF_BOUND_SECONDS + 1, frozenset())
    watch.look(half, 200, frozenset())
    watch.look(half, 200 + HALF_BOUND_SECONDS + 1, frozenset({"gang"}))
    done = {"gang": (2, _pods(pod("one", "a", phase="Succeeded"), pod("two")))}
    watch.look(done, 280, frozenset())
    watch.look(half, 300, frozenset())
    with pytest.raises(LawBrokenError, match="1 of 2 pods bound since"):
        watch.look(half, 301 + HALF_BOUND_SECONDS, frozenset())
