"""Each agent on a machine has loopback addresses of its own, and gives them back however it ends."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from allhands.agents.addresses import Addresses
from allhands.agents.loopback import RANGES, claimed_range
from tests.unit.agents.local import local

if TYPE_CHECKING:
    from pathlib import Path

NAME = f"test-of-allhands-{os.getpid()}"
"""Agents of other tests have theirs."""
HOLD = """
import sys
from allhands.agents.loopback import claimed_range
with claimed_range(*sys.argv[1:]) as network:
    print(network, flush=True)
    sys.stdin.read()
"""


def test_two_claims_never_overlap_and_one_that_was_given_back_is_given_again() -> None:
    with claimed_range("one", NAME) as first, claimed_range("one", NAME) as second:
        networks = [ipaddress.ip_network(it) for it in (first, second)]
        assert not networks[0].overlaps(networks[1])
        assert all(it.subnet_of(ipaddress.ip_network("127.64.0.0/10")) for it in networks)  # type: ignore[arg-type]
    with claimed_range("one", NAME) as again:
        assert again == first


def test_when_all_are_taken_it_says_so() -> None:
    with contextlib.ExitStack() as claims:
        taken = {claims.enter_context(claimed_range("wish", NAME)) for _ in range(RANGES)}
        assert len(taken) == RANGES
        with pytest.raises(OSError, match="ranges of loopback addresses are taken by other agents"):
            claims.enter_context(claimed_range("wish", NAME))


def test_a_process_that_was_killed_holds_nothing() -> None:
    command = [sys.executable, "-c", HOLD, "killed", NAME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        theirs = holder.stdout.readline().strip()
        with claimed_range("killed", NAME) as ours:
            assert ours != theirs
        holder.kill()
        holder.wait()
    with claimed_range("killed", NAME) as ours:
        assert ours == theirs


async def test_pods_of_two_agents_never_have_the_same_address(tmp_path: Path) -> None:
    async with local(tmp_path / "one") as one, local(tmp_path / "other") as other:
        addresses = []
        for it in (one, other):
            for name in ("a", "b"):
                await it.add(name, "sleep", "100")
                found = await it.when(name, lambda pod: bool(pod["status"].get("podIP")))
                addresses.append(found["status"]["podIP"])
        assert len(set(addresses)) == 4


def test_how_many_addresses_are_free_is_known() -> None:
    addresses = Addresses("127.64.0.0/29")
    assert addresses.free == 6
    taken = [addresses.take() for _ in range(6)]
    assert addresses.free == 0
    addresses.give_back(taken[2])
    assert addresses.free == 1
    assert addresses.take() == taken[2]
