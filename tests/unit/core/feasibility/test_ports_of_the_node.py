"""Host ports: one port of a node, protocol and address for one pod, and all addresses include each one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.core.feasibility.town import Town, node, pod, port

if TYPE_CHECKING:
    from allhands.model.pod import HostPort

NODES = [node("one"), node("two")]

CASES: dict[str, tuple[HostPort, HostPort, bool]] = {
    "the same port conflicts": (port(80), port(80), True),
    "another port does not": (port(80), port(81), False),
    "another protocol does not": (port(80), port(80, protocol="UDP"), False),
    "another address does not": (port(80, "10.0.0.1"), port(80, "10.0.0.2"), False),
    "all addresses include the one in use": (port(80, "10.0.0.1"), port(80), True),
    "an address is among all that are in use": (port(80), port(80, "10.0.0.1"), True),
}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_port_in_use_closes_its_node(case: str) -> None:
    used, wanted, conflicts = CASES[case]
    town = Town(NODES, [pod("there", on="one", host_ports=(used,)), pod("it", host_ports=(wanted,))])
    assert town.where("it") == ({"two"} if conflicts else {"one", "two"})


def test_a_pod_being_deleted_holds_its_ports() -> None:
    town = Town(
        NODES, [pod("there", on="one", deleting=True, host_ports=(port(80),)), pod("it", host_ports=(port(80),))]
    )
    assert town.where("it") == {"two"}


def test_pods_of_one_gang_take_ports_from_each_other() -> None:
    town = Town(NODES, [pod("it", host_ports=(port(80),))])
    town.move("it", "one")
    assert town.where("it") == {"two"}
    town.move("it", "two")
    assert town.where("it") == set()
    town.move("it", "one", -1)
    assert town.where("it") == {"one"}
