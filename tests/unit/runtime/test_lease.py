"""At most one leads, as its own clock sees it; who cannot renew stops in time, and who ends hands the lease back."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.kinds import Resource
from allhands.runtime.leadership import ensure_namespace
from allhands.runtime.lease import LeaderLease, LeaseTimes
from allhands.sim.faults import Faults, FaultyObjects
from allhands.sim.virtual_time import VirtualClock, VirtualTimeLoop, run_virtually
from tests.depth import examples
from tests.manifests import LEASES
from tests.virtual import Request, cluster, lost, on_virtual_time, refused, running

if TYPE_CHECKING:
    from allhands.api.errors import StatusError
    from allhands.ports import Objects


class Candidate:
    """Notes from when to when it led."""

    def __init__(self, objects: Objects, identity: str, leading: set[str], clock: VirtualClock | None = None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.identity = identity
        self.lease = LeaderLease(
            objects, clock or VirtualClock(loop), name="leader", namespace="default", identity=identity
        )
        self.terms: list[list[float]] = []
        self._leading = leading

    async def run(self) -> None:
        await self.lease.lead(self._work)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        assert not self._leading, f"{self.identity} begins while {self._leading} still leads"
        self._leading.add(self.identity)
        self.terms.append([loop.time()])
        try:
            await loop.create_future()
        finally:
            self.terms[-1].append(loop.time())
            self._leading.discard(self.identity)


@on_virtual_time
async def test_of_two_candidates_one_leads_and_the_other_follows_when_it_ends() -> None:
    world = cluster()
    leading: set[str] = set()
    first, second = (Candidate(world.objects, name, leading) for name in ("first", "second"))
    async with running(first.run()) as (task,):
        await asyncio.sleep(1)
        async with running(second.run()):
            await asyncio.sleep(100)
            assert leading == {"first"}
            assert second.terms == []
            task.cancel()
            await asyncio.sleep(3)
            assert leading == {"second"}, "the lease was handed back: nobody waits until it runs out"
    lease = (await world.objects.get(LEASES, "leader", "default")).manifest()["spec"]
    assert lease["leaseTransitions"] == 1
    assert not lease.get("holderIdentity")


@on_virtual_time
async def test_a_leader_that_vanishes_is_followed_when_its_lease_has_run_out_and_not_before() -> None:
    world = cluster()
    leading: set[str] = set()
    first, second = (Candidate(world.noted.port, name, leading) for name in ("first", "second"))
    async with running(first.run()):
        await asyncio.sleep(20)
        async with running(second.run()):
            await asyncio.sleep(20)
            renewed = world.noted.of("update", "leases")[-1].at_seconds
            # From now on the first reaches nobody, as if its network were gone.
            _dead(first, world.noted.port)
            await asyncio.sleep(30)
            assert leading == {"second"}
            assert first.terms[0][1] <= renewed + 10.0
            assert second.terms[0][0] >= renewed + 15.0


def _dead(candidate: Candidate, objects: Objects) -> None:
    port = FaultyObjects(objects, Faults(), random.Random(0), lambda: None)
    port.kill()
    candidate.lease._objects = port


@on_virtual_time
async def test_requests_that_hang_make_a_leader_stop_before_its_lease_runs_out() -> None:
    world = cluster()
    leading: set[str] = set()
    leader = Candidate(world.noted.port, "leader", leading)
    async with running(leader.run()):
        await asyncio.sleep(9.5)
        renewed = world.noted.writes[-1].at_seconds
        _dead(leader, world.noted.port)
        await asyncio.sleep(60)
        assert leader.terms[0][1] == pytest.approx(renewed + 10.0)


@on_virtual_time
async def test_a_leader_survives_refusals_and_lost_answers_that_end_in_time() -> None:
    world = cluster()
    leading: set[str] = set()
    leader = Candidate(world.noted.port, "leader", leading)
    async with running(leader.run()):
        await asyncio.sleep(10)
        begin = asyncio.get_running_loop().time()
        world.noted.refuse = lambda it: refused(500) if it.at_seconds < begin + 5 else None
        await asyncio.sleep(20)
        world.noted.lose = lambda it: lost() if it.verb == "update" and it.at_seconds < begin + 25 else None
        await asyncio.sleep(20)
        assert leading == {"leader"}
        assert len(leader.terms) == 1


@on_virtual_time
async def test_a_leader_that_sees_another_name_in_the_lease_stops_at_once() -> None:
    world = cluster()
    leading: set[str] = set()
    leader = Candidate(world.objects, "leader", leading)
    async with running(leader.run()):
        await asyncio.sleep(10)
        lease = (await world.objects.get(LEASES, "leader", "default")).manifest()
        lease["spec"]["holderIdentity"] = "usurper"
        await world.objects.update(LEASES, "leader", lease, "default")
        await asyncio.sleep(2.5)
        assert leading == set()
        await asyncio.sleep(20)
        assert leading == {"leader"}, "the other never renewed"


@on_virtual_time
async def test_work_that_ends_with_a_mistake_hands_the_lease_back_and_the_mistake_is_told() -> None:
    world = cluster()

    async def work() -> None:
        await asyncio.sleep(5)
        raise ArithmeticError("a mistake")

    lease = LeaderLease(world.objects, world.clock, name="leader", namespace="default", identity="me")
    with pytest.raises(ArithmeticError):
        await lease.lead(work)
    assert not lease.is_leading
    assert not (await world.objects.get(LEASES, "leader", "default")).manifest()["spec"].get("holderIdentity")


@on_virtual_time
async def test_clocks_that_differ_and_jump_change_nothing() -> None:
    world = cluster()
    leading: set[str] = set()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    clocks = [VirtualClock(loop), VirtualClock(loop)]
    clocks[0].jump(-86_400)
    clocks[1].jump(86_400)
    first, second = (
        Candidate(world.objects, name, leading, clock) for name, clock in zip(("a", "b"), clocks, strict=True)
    )
    async with running(first.run()):
        await asyncio.sleep(1)
        async with running(second.run()):
            for jump in (3600, -7200, 100_000):
                clocks[0].jump(jump)
                clocks[1].jump(-jump)
                await asyncio.sleep(30)
            assert len(first.terms) == 1
            assert not second.terms


def test_times_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="sooner than it runs out"):
        LeaseTimes(duration_seconds=10, give_up_seconds=15)
    with pytest.raises(ValueError, match="retried"):
        LeaseTimes(retry_seconds=0)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_refused_lost_and_slow_there_are_never_two_leaders(seed: int) -> None:
    async def main() -> None:
        world = cluster()
        leading: set[str] = set()
        faults = Faults(refused=0.2, lost=0.2, slow=0.5, slow_seconds=12)
        chance = random.Random(seed)
        candidates = []
        for name in "abc":
            port = FaultyObjects(world.objects, faults, random.Random(f"{name} {seed}"), lambda: None)
            candidates.append(Candidate(port, name, leading))
        async with running(*(it.run() for it in candidates)):
            for _ in range(10):
                await asyncio.sleep(chance.random() * 60)
                candidates[chance.randrange(3)].lease._clock.jump(chance.uniform(-99, 99))  # type: ignore[attr-defined]
        assert any(it.terms for it in candidates)

    run_virtually(VirtualTimeLoop(), main())


@on_virtual_time
async def test_a_server_that_forbids_the_lease_is_asked_again_and_nobody_leads() -> None:
    world = cluster()

    def forbid(_: Request) -> StatusError:
        return refused(403)

    world.noted.refuse = forbid
    leader = Candidate(world.noted.port, "leader", set())
    async with running(leader.run()):
        await asyncio.sleep(60)
    assert not leader.terms
    assert len(world.noted.requests) <= 31


@on_virtual_time
async def test_a_namespace_that_goes_away_while_somebody_waits_is_made_again() -> None:
    """One that was being deleted when a process began: it was seen, and gone a moment later."""
    world = cluster()
    namespaces = Resource("", "v1", "namespaces")
    await world.objects.create(namespaces, {"metadata": {"name": "home"}})
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.get_running_loop().create_future()

    async def make_room() -> None:
        await ensure_namespace(world.objects, "home")

    lease = LeaderLease(world.objects, world.clock, name="leader", namespace="home", identity="me", make_room=make_room)
    await world.objects.delete(namespaces, "home")
    world.store.housekeeper.run_pending()
    async with running(lease.lead(work)):
        await asyncio.wait_for(began.wait(), 30)
    assert (await world.objects.get(LEASES, "leader", "home")).manifest()["metadata"]["namespace"] == "home"
