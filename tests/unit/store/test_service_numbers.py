"""Addresses and node ports of services: where they come from, and what is said when there are none left."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.errors import StatusError
from allhands.store import InProcessObjects, Store
from allhands.store.service_numbers import ADDRESSES, FIRST_PORT, LAST_PORT, SERVICES
from tests.disks import MemoryDisk, living
from tests.doubles import CountingIds, ManualClock

BY_REQUEST = 86


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def cluster() -> InProcessObjects:
    return InProcessObjects(Store(ManualClock(), CountingIds()))


async def created(objects: Any, name: str, **spec: Any) -> dict[str, Any]:
    made = await objects.create(SERVICES, service(name, **spec), "default")
    return dict(made.manifest()["spec"])


async def test_who_asks_for_nothing_gets_nothing_that_others_may_ask_for() -> None:
    objects = cluster()
    for number in range(20):
        spec = await created(objects, f"s{number}", type="NodePort")
        assert spec["ports"][0]["nodePort"] >= FIRST_PORT + BY_REQUEST
        assert not spec["clusterIP"].startswith("172.20.0.")


async def test_the_same_history_gives_the_same_numbers() -> None:
    specs = []
    for _ in range(2):
        objects = cluster()
        specs.append([await created(objects, f"s{number}", type="NodePort") for number in range(5)])
    assert specs[0] == specs[1]


async def test_a_store_that_begins_anew_gives_what_the_old_one_would_have_given() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        for number in range(5):
            await created(life.objects, f"s{number}", type="NodePort")
        await life.objects.delete(SERVICES, "s2", "default")
        numbers = life.store.service_numbers
    async with living(disk) as life:
        again = life.store.service_numbers
        for draw in (0, 7, 12345678901):
            assert again.ports.free(draw) == numbers.ports.free(draw)
            assert again.addresses.free(draw) == numbers.addresses.free(draw)
        spec = (await life.objects.get(SERVICES, "s1", "default")).manifest()["spec"]
        with pytest.raises(StatusError, match="provided port is already allocated"):
            await created(life.objects, "other", type="NodePort", ports=spec["ports"])


async def test_when_all_ports_are_taken_the_reserved_ones_are_given_and_then_none(
    store: Store, objects: InProcessObjects
) -> None:
    pool = store.service_numbers.ports
    for number in range(FIRST_PORT + BY_REQUEST, LAST_PORT + 1):
        pool.hold(number)
    assert (await created(objects, "a", type="NodePort"))["ports"][0]["nodePort"] < FIRST_PORT + BY_REQUEST
    for number in range(FIRST_PORT, FIRST_PORT + BY_REQUEST):
        pool.hold(number)
    with pytest.raises(StatusError) as refusal:
        await created(objects, "b", type="NodePort")
    assert refusal.value.message == "Internal error occurred: failed to allocate a nodePort: range is full"
    assert refusal.value.code == 500


async def test_a_service_that_needs_the_last_ports_twice_is_refused_whole(
    store: Store, objects: InProcessObjects
) -> None:
    pool = store.service_numbers.ports
    for number in range(FIRST_PORT, LAST_PORT):
        pool.hold(number)
    ports = [{"name": name, "port": number} for name, number in (("a", 1), ("b", 2))]
    with pytest.raises(StatusError, match="range is full"):
        await created(objects, "a", type="NodePort", ports=ports)
    assert (await created(objects, "a", type="NodePort"))["ports"][0]["nodePort"] == LAST_PORT


async def test_when_all_addresses_are_taken_it_says_so(store: Store, objects: InProcessObjects) -> None:
    pool = store.service_numbers.addresses
    for number in range(int(ADDRESSES.network_address) + 1, int(ADDRESSES.broadcast_address)):
        pool.hold(number)
    with pytest.raises(StatusError) as refusal:
        await created(objects, "a")
    why = 'failed to allocate a serviceIP for Service "a": range is full'
    assert refusal.value.message == f"Internal error occurred: {why}"
    assert (await created(objects, "headless", clusterIP="None"))["clusterIP"] == "None"


async def test_a_service_from_before_addresses_were_given_gets_one_with_its_next_change(
    store: Store, objects: InProcessObjects
) -> None:
    await objects.create(SERVICES, service("a"), "default")
    collection = store.collection(store.kind(SERVICES))
    record = collection.get(("default", "a"))
    assert record is not None
    manifest = record.manifest()
    for field in ("clusterIP", "clusterIPs"):
        del manifest["spec"][field]
    store.commit(collection, record, manifest)
    assert len(store.service_numbers.addresses) == 0
    changed = await objects.patch(SERVICES, "a", "merge", {"metadata": {"labels": {"a": "b"}}}, "default")
    assert changed.manifest()["spec"]["clusterIPs"] == [changed.manifest()["spec"]["clusterIP"]]
    assert len(store.service_numbers.addresses) == 1


async def test_two_that_got_the_same_before_anybody_looked_free_it_together(
    store: Store, objects: InProcessObjects
) -> None:
    numbers = store.service_numbers
    await created(objects, "a", type="NodePort", ports=[{"port": 80, "nodePort": 30005}])
    numbers.ports.hold(30005)
    await objects.delete(SERVICES, "a", "default")
    assert numbers.ports.is_taken(30005)
    numbers.ports.release(30005)
    assert not numbers.ports.is_taken(30005)


async def test_a_port_that_an_external_name_writes_down_is_not_taken_by_it(
    store: Store, objects: InProcessObjects
) -> None:
    port = {"port": 80, "nodePort": FIRST_PORT}
    named = await created(objects, "named", type="ExternalName", externalName="a.b", ports=[port])
    assert named["ports"][0]["nodePort"] == FIRST_PORT
    assert (await created(objects, "taker", type="NodePort", ports=[port]))["ports"][0]["nodePort"] == FIRST_PORT
    patch = {"spec": {"type": "NodePort", "externalName": None}}
    with pytest.raises(StatusError, match="provided port is already allocated"):
        await objects.patch(SERVICES, "named", "merge", patch, "default")
    await objects.delete(SERVICES, "taker", "default")
    changed = (await objects.patch(SERVICES, "named", "merge", patch, "default")).manifest()["spec"]
    assert changed["ports"][0]["nodePort"] == FIRST_PORT
    assert list(store.service_numbers.ports) == [FIRST_PORT]
