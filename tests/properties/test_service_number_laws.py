"""Laws of the addresses and node ports of services.

A pool gives the free number that a draw points to, as a walk over the whole range would. Over random histories with
refusing disks and power cuts: no number is anybody's twice, what is taken is what stored services show, and a store
that begins anew holds the same as one that never ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.ports import DeleteOptions, WriteOptions
from allhands.store.disk import DiskError
from allhands.store.number_pool import NumberPool
from allhands.store.service_numbers import SERVICES, ServiceNumbers
from tests.depth import examples
from tests.disks import MemoryDisk, living, turns

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.disks import Life

FULL = DiskError("state.db: database or disk is full", is_full=True)
FIRST, LAST, BY_REQUEST = 10, 29, 5


def walked(taken: set[int], draw: int) -> int | None:
    """What a pool should give, found by looking at every number."""
    for low, high in ((FIRST + BY_REQUEST, LAST), (FIRST, FIRST + BY_REQUEST - 1)):
        if free := [number for number in range(low, high + 1) if number not in taken]:
            return free[draw % len(free)]
    return None


@given(st.lists(st.tuples(st.booleans(), st.integers(FIRST - 3, LAST + 3)), max_size=60), st.integers(0, 1 << 64))
def test_a_pool_gives_what_a_walk_over_the_range_would(steps: list[tuple[bool, int]], draw: int) -> None:
    pool, held = NumberPool(FIRST, LAST, BY_REQUEST), list[int]()
    for hold, number in steps:
        if hold:
            pool.hold(number)
            held += [number] if FIRST <= number <= LAST else []
        elif number in held:
            pool.release(number)
            held.remove(number)
    assert len(pool) == len(set(held))
    assert pool.free(draw) == walked(set(held), draw)
    assert list(pool) == sorted(set(held)) == [number for number in range(FIRST, LAST + 1) if pool.is_taken(number)]


@given(st.lists(st.integers(0, 1 << 64), min_size=LAST - FIRST + 1, max_size=LAST - FIRST + 1))
def test_a_pool_gives_every_number_once_and_then_says_that_it_is_empty(draws: list[int]) -> None:
    pool, given_out = NumberPool(FIRST, LAST, BY_REQUEST), list[int]()
    for draw in draws:
        number = pool.free(draw)
        assert number is not None
        pool.hold(number)
        given_out.append(number)
    assert sorted(given_out) == list(range(FIRST, LAST + 1))
    assert pool.free(draws[0]) is None


NAMES = st.sampled_from("abcd")
TYPES = st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])
PORTS = st.lists(st.sampled_from([None, None, 30000, 30001, 31000]), min_size=1, max_size=3)
ADDRESSES = st.sampled_from([None, None, None, "None", "172.20.0.7", "172.20.9.9"])
SPECS = st.builds(
    lambda kind, ports, address, local: (
        {
            "type": kind,
            "externalName": "a.b",
            "ports": [
                {"name": f"p{index}", "port": 80 + index} | ({} if number is None else {"nodePort": number})
                for index, number in enumerate(ports)
            ],
        }
        | ({} if address is None else {"clusterIP": address})
        | ({"externalTrafficPolicy": "Local"} if local and kind == "LoadBalancer" else {})
    ),
    TYPES,
    PORTS,
    ADDRESSES,
    st.booleans(),
)
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, SPECS, st.booleans()),
    st.tuples(st.just("patch"), NAMES, SPECS, st.booleans()),
    st.tuples(st.just("patch"), NAMES, st.builds(lambda kind: {"type": kind}, TYPES), st.booleans()),
    st.tuples(st.just("delete"), NAMES, st.none(), st.booleans()),
    st.tuples(st.sampled_from(["keep", "refuse", "cut"]), st.none(), st.none(), st.none()),
)


def held_by_services(life: Life) -> tuple[list[int], list[int]]:
    """Every number that stored services show, once for each service that shows it."""
    addresses, ports = list[int](), list[int]()
    for record in life.store.collection(life.store.kind(SERVICES)):
        spec = record.manifest()["spec"]
        shown = [each for each in spec.get("clusterIPs", ()) if each != "None"]
        addresses += [int(ipaddress.IPv4Address(each)) for each in shown]
        own = {port["nodePort"] for port in spec.get("ports", ()) if "nodePort" in port}
        if spec["type"] in ("NodePort", "LoadBalancer"):
            ports += [*own, *([spec["healthCheckNodePort"]] if "healthCheckNodePort" in spec else [])]
        if spec["type"] != "ExternalName":
            assert spec["clusterIP"] == spec["clusterIPs"][0]
        if spec["type"] == "NodePort":
            assert all("nodePort" in port for port in spec["ports"])
        if spec["type"] == "ClusterIP":
            assert not own
    return addresses, ports


def taken(numbers: ServiceNumbers) -> tuple[list[int], list[int]]:
    return list(numbers.addresses), list(numbers.ports)


def check(life: Life) -> None:
    addresses, ports = held_by_services(life)
    assert len(addresses) == len(set(addresses)), "an address was given twice"
    assert len(ports) == len(set(ports)), "a node port was given twice"
    assert taken(life.store.service_numbers) == (sorted(addresses), sorted(ports))


async def act(life: Life, verb: str, name: str, spec: Any, dry: bool) -> None:
    options, objects = WriteOptions(dry_run=dry), life.objects
    before = taken(life.store.service_numbers)
    work: Coroutine[Any, Any, Any]
    if verb == "create":
        work = objects.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, "default", options)
    elif verb == "patch":
        work = objects.patch(SERVICES, name, "merge", {"spec": spec}, "default", options)
    else:
        work = objects.delete(SERVICES, name, "default", DeleteOptions(dry_run=dry))
    task = asyncio.create_task(work)
    await turns(4)
    if dry:
        assert taken(life.store.service_numbers) == before
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_no_number_is_given_twice_whatever_the_disk_does(steps: list[tuple[Any, ...]]) -> None:
    async def live() -> None:
        disk, left = MemoryDisk(), list(steps)
        while True:
            disk.held, disk.fault = False, None
            async with living(disk) as life:
                check(life)
                with contextlib.suppress(StatusError):
                    await life.committer.settled()
                disk.held = True
                while left and (step := left.pop(0))[0] != "cut":
                    if step[0] in ("keep", "refuse"):
                        disk.fault = FULL if step[0] == "refuse" else None
                        disk.let_go()
                        await turns(6)
                        disk.fault = None
                    else:
                        await act(life, *step)
                    check(life)
                disk.lose_power(in_time=len(left) % 2 == 0)
            if not left:
                break
        async with living(disk) as life:
            check(life)

    asyncio.run(live())
