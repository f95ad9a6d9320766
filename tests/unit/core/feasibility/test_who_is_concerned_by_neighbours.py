"""Which shapes depend on other pods, and which ones others depend on; plain clusters pay nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.core.feasibility.town import (
    DATABASE,
    WEB,
    Town,
    apart,
    node,
    pod,
    port,
    preferring,
    spread,
    term,
    together,
)

if TYPE_CHECKING:
    from allhands.model.affinity import PodAffinity

NODES = [node("a1", "a"), node("b1", "b")]


def test_plain_pods_among_plain_pods_are_no_concern() -> None:
    town = Town(NODES, [pod("there", DATABASE, "a1"), pod("it", WEB)])
    assert not town.neighbours.is_dynamic(town.shape("it"))
    assert not town.neighbours.is_noticed(town.shape("it"))
    assert town.neighbours._tally._occupants is None, "the table of pods was not even looked at"
    assert town.where("it") == {"a1", "b1"}


@pytest.mark.parametrize(
    "affinity",
    [apart(term(DATABASE)), together(term(DATABASE)), preferring((1, term(DATABASE)))],
    ids=["anti-affinity", "affinity", "a preference"],
)
def test_a_pod_with_terms_is_dynamic_and_the_pods_that_it_means_are_noticed(affinity: PodAffinity) -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("other", WEB, "a1"), pod("it", pod_affinity=affinity)])
    assert town.neighbours.is_dynamic(town.shape("it"))
    assert town.neighbours.is_noticed(town.shape("db"))
    assert not town.neighbours.is_noticed(town.shape("other"))


def test_ports_and_spreading_make_a_pod_dynamic() -> None:
    town = Town(
        NODES, [pod("port", host_ports=(port(80),)), pod("spread", WEB, spread=(spread(WEB),)), pod("web", WEB)]
    )
    assert town.neighbours.is_dynamic(town.shape("port"))
    assert town.neighbours.is_noticed(town.shape("port"))
    assert town.neighbours.is_dynamic(town.shape("spread"))
    assert town.neighbours.is_noticed(town.shape("spread"))
    assert town.neighbours.is_noticed(town.shape("web"))
    assert not town.neighbours.is_dynamic(town.shape("web"))


def test_a_pod_that_a_waiting_pod_would_keep_out_is_dynamic() -> None:
    town = Town(
        NODES, [pod("keeper", DATABASE, pod_affinity=apart(term(WEB))), pod("it", WEB), pod("other", {"app": "x"})]
    )
    assert town.neighbours.is_dynamic(town.shape("it"))
    assert not town.neighbours.is_dynamic(town.shape("other"))
    assert town.where("it") == {"a1", "b1"}
    town.move("keeper", "a1")
    assert town.where("it") == {"b1"}


def test_a_preference_of_others_does_not_make_a_pod_dynamic() -> None:
    town = Town(NODES, [pod("fan", DATABASE, "a1", pod_affinity=preferring((1, term(WEB)))), pod("it", WEB)])
    assert not town.neighbours.is_dynamic(town.shape("it"))


def test_terms_of_pods_that_are_gone_are_forgotten() -> None:
    town = Town(NODES, [pod("keeper", DATABASE, "a1", pod_affinity=apart(term(WEB))), pod("it", WEB)])
    assert town.neighbours.is_dynamic(town.shape("it"))
    town.world.delete_pod("uid-keeper")
    town.world.set_pod(pod("selecting", spread=(spread({"app": "x"}),)))
    town.look()
    assert not town.neighbours.is_dynamic(town.shape("it"))
    assert town.where("it") == {"a1", "b1"}


def test_a_pod_whose_volumes_nobody_else_has_a_say_in_is_not_dynamic_and_goes_where_they_are() -> None:
    town = Town(NODES, [pod("it", claims=("data",))])
    assert not town.neighbours.is_dynamic(town.shape("it"))
    assert not town.neighbours.volumes.reach(town.shape("it")).any()
    assert town.where("it") == set(), "the claim does not exist"
