"""Claims that keep their pod from every node, and the reason that its owner reads."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.core.feasibility.volume_needs import VolumeProblem
from allhands.model.reason import Reason
from allhands.model.selector import LabelSelector, Requirement
from allhands.model.volume import StorageClass
from tests.unit.core.feasibility.storage import Shelf, asking, bound, claim, facts, pod, volume

NEVER_SAID = StorageClass("odd", "disks.example.com", "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, VolumeProblem.MISSING),
        ({"lost": True, "volume_name": "pv", "bind_completed": True}, VolumeProblem.LOST),
        ({"deleting": True, "volume_name": "pv", "bind_completed": True}, VolumeProblem.LEAVING),
        ({"volume_name": "gone", "bind_completed": True}, VolumeProblem.NO_VOLUME),
        ({"class_name": "at-once"}, VolumeProblem.NOT_BOUND),
        ({"class_name": "unknown"}, VolumeProblem.NOT_BOUND),
        ({"class_name": ""}, VolumeProblem.NOT_BOUND),
        ({"class_name": "local", "volume_name": "pv"}, VolumeProblem.NOT_BOUND),
        ({"class_name": "odd"}, VolumeProblem.NO_BINDING_MODE),
        (
            {"class_name": "later", "selector": LabelSelector.of(expressions=[Requirement("k", "Near", ())])},
            VolumeProblem.BAD_SELECTOR,
        ),
    ],
    ids=[
        "it does not exist",
        "it lost its volume",
        "it is being deleted",
        "its volume does not exist",
        "its class binds at once and has not",
        "its class does not exist",
        "it has no class",
        "it names a volume and is not bound to it",
        "its class does not say when it binds",
        "its selector cannot be parsed",
    ],
)
def test_a_pod_waits_for_its_claim(given: dict[str, Any] | None, problem: VolumeProblem) -> None:
    objects = () if given is None else (claim("data", **given),)
    shelf = Shelf(facts(*objects, volume("pv"), NEVER_SAID))
    assert shelf.open_to(asking("data")) == ""
    assert shelf.problem(asking("data")) == ("ns/data", problem)


def test_the_reason_names_the_claim() -> None:
    why = Shelf(facts()).filter.why(asking("data"))
    assert why is not None
    assert why.reason is Reason.VOLUME_NOT_READY
    assert str(why) == 'Volume claim "ns/data" is not ready: it does not exist.'


def test_a_claim_without_a_name_does_not_exist() -> None:
    assert Shelf(facts()).problem(asking("")) == ("ns/", VolumeProblem.MISSING)


def test_a_claim_of_another_namespace_is_another_claim() -> None:
    shelf = Shelf(facts(bound("data", volume("pv"))))
    assert shelf.open_to(asking("data")) == "a b c"
    assert shelf.problem(asking("other")) == ("ns/other", VolumeProblem.MISSING)


def test_a_claim_that_is_made_for_the_pod_may_not_be_there_yet() -> None:
    assert Shelf(facts()).problem(asking(own=("p-scratch",))) == ("ns/p-scratch", VolumeProblem.NOT_MADE_YET)


def test_a_claim_that_happens_to_have_the_name_of_a_made_one_is_not_used() -> None:
    shelf = Shelf(facts(bound("p-scratch", volume("pv"))))
    assert shelf.problem(asking(own=("p-scratch",))) == ("ns/p-scratch", VolumeProblem.NOT_ITS_OWN)


def test_one_claim_that_is_not_ready_is_enough_and_the_first_is_named() -> None:
    shelf = Shelf(facts(bound("a-ready", volume("pv"))))
    assert shelf.problem(asking("a-ready", "b-missing", "c-missing")) == ("ns/b-missing", VolumeProblem.MISSING)


def test_who_runs_with_a_broken_claim_is_no_trouble_to_others() -> None:
    shelf = Shelf(facts(bound("data", volume("pv"))), pod("gone", on="a"), pod("data", on="a"))
    assert shelf.open_to(asking("data")) == "a b c"


def test_in_a_cluster_without_nodes_nothing_breaks() -> None:
    shelf = Shelf(facts(claim("data"), claim("made", "later"), volume("pv")), labels={})
    assert shelf.open_to(asking("data")) == ""
    assert shelf.open_to(asking("made")) == ""
