"""What a release has kept in the API the next one reads, and the one before too: so either can lead after the other.

Files in `tests/formats` hold it as each release wrote it. Fields are only ever added, and each has a default.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import allhands
from allhands.core.quota.usage import decode
from allhands.dialects.annotations import SCHEDULING
from allhands.dialects.scheduling_record import read_record, record_text
from allhands.model.group_status import NO_STATUS
from allhands.runtime.lease import LeaderLease
from tests.formats import Formats, of_today, releases
from tests.manifests import CONFIG_MAPS, JOBS, LEASES, NAMESPACES
from tests.scheduler_world import SchedulerWorld
from tests.virtual import cluster, on_virtual_time, running

RELEASES = releases()
FUTURE: dict[str, Any] = {"colour": {"red": [1, 2, {"deep": None}]}, "zeal": 7}
"""Fields that nobody knows yet."""
of_each_release = pytest.mark.parametrize("kept", RELEASES, ids=lambda it: it.release)


def test_this_release_has_written_down_what_it_keeps() -> None:
    kept = {it.release: it for it in RELEASES}
    assert allhands.__version__ in kept, "run `python -m tests.formats`"
    assert kept[allhands.__version__] == of_today(), "what is kept was changed after it was written down"


@of_each_release
def test_records_of_groups_mean_what_they_meant(kept: Formats) -> None:
    for record in kept.records:
        read = read_record({SCHEDULING: record.text})
        assert read != NO_STATUS
        meant = json.loads(msgspec.json.encode(read))
        assert {name: meant.get(name) for name in record.means} == record.means


@of_each_release
def test_what_a_newer_release_has_added_to_a_record_is_passed_over(kept: Formats) -> None:
    for record in kept.records:
        fields = json.loads(record.text)
        newer = json.dumps({**FUTURE, **fields})
        assert read_record({SCHEDULING: newer}) == read_record({SCHEDULING: record.text})


@of_each_release
def test_words_that_only_a_newer_release_has_cost_nothing_but_themselves(kept: Formats) -> None:
    unknown = {"explanation": {"reason": "TheMoonIsFull", "message": "It is.", "numbers": []}}
    for record in kept.records:
        fields = json.loads(record.text)
        newer = json.dumps({**fields, "said": unknown})
        older = json.dumps({name: value for name, value in fields.items() if name != "said"})
        assert read_record({SCHEDULING: newer}) == read_record({SCHEDULING: older})


@of_each_release
def test_any_field_may_be_missing(kept: Formats) -> None:
    for record in kept.records:
        fields = json.loads(record.text)
        for missing in fields:
            rest = {name: value for name, value in fields.items() if name != missing}
            assert json.loads(record_text(read_record({SCHEDULING: json.dumps(rest)}))) == rest


@on_virtual_time
async def test_a_leader_goes_by_the_record_of_a_newer_one() -> None:
    """The group had failed to start and is to wait; the newer leader wrote more than we know about it."""
    world = SchedulerWorld()
    await world.node("a", 4)
    await world.gang("gang", 2)
    at = int(world.clock.now().timestamp()) + 100
    said = {"explanation": {"reason": "TheMoonIsFull", "message": "It is.", "numbers": []}}
    text = json.dumps({**FUTURE, "failed_starts": 1, "retry_at_seconds": at, "said": said})
    await world.objects.patch(JOBS, "gang", "merge", {"metadata": {"annotations": {SCHEDULING: text}}}, "default")
    async with world.scheduling():
        await asyncio.sleep(60)
        assert await world.bound() == {}
        await asyncio.sleep(60)
        assert sorted(await world.bound()) == ["gang-0", "gang-1"]


@of_each_release
def test_the_ledger_is_read_also_with_what_a_newer_release_has_added(kept: Formats) -> None:
    ledger = decode(kept.ledger["usage"].encode())
    assert ledger.entries
    newer = {**json.loads(kept.ledger["usage"]), **FUTURE}
    newer["entries"] = [[*entry, "more"] for entry in newer["entries"]]
    assert decode(json.dumps(newer).encode()) == ledger


@of_each_release
@on_virtual_time
async def test_a_leader_takes_the_ledger_over_and_leaves_what_it_does_not_know(kept: Formats) -> None:
    world = SchedulerWorld()
    await world.install()
    await world.queue("research")
    await world.node("a", 8)
    await world.objects.create(NAMESPACES, {"metadata": {"name": "allhands-system"}})
    data = {**kept.ledger, "forecast": "of a newer release"}
    body = {"metadata": {"name": "usage-ledger"}, "data": data}
    await world.objects.create(CONFIG_MAPS, body, "allhands-system")
    async with world.scheduling() as scheduler:
        await asyncio.sleep(1)
        assert scheduler.watched.facts.ledger.entries
        assert scheduler.watched.facts.past_runs["research"].count == 1
        await world.gang("gang", 2)
        await asyncio.sleep(60)
    after = (await world.objects.get(CONFIG_MAPS, "usage-ledger", "allhands-system")).manifest()["data"]
    assert after["forecast"] == "of a newer release"
    assert "unreadable" not in after
    assert after["usage"] != kept.ledger["usage"], "it was written since"


@of_each_release
@on_virtual_time
async def test_a_lease_is_taken_over_once_it_has_run_out_and_is_handed_back(kept: Formats) -> None:
    world = cluster()
    metadata = {"name": "leader", "annotations": {"example.com/note": "of a newer release"}}
    await world.objects.create(LEASES, {"metadata": metadata, "spec": kept.lease}, "default")
    lease = LeaderLease(world.objects, world.clock, name="leader", namespace="default", identity="we")

    async def led_for(seconds: float) -> Any:
        await asyncio.sleep(seconds)
        return (await world.objects.get(LEASES, "leader", "default")).manifest()

    async with running(lease.lead(_for_ever)):
        before, held = await led_for(14), await led_for(5)
    handed_back = await led_for(0)
    assert before["spec"]["holderIdentity"] == kept.lease["holderIdentity"]
    assert (held["spec"]["holderIdentity"], handed_back["spec"].get("holderIdentity", "")) == ("we", "")
    assert held["spec"]["leaseTransitions"] == kept.lease["leaseTransitions"] + 1
    assert handed_back["metadata"]["annotations"] == metadata["annotations"]


async def _for_ever() -> None:
    await asyncio.Event().wait()
