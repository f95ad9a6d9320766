"""What releases have kept in the API, as they wrote it: a file for each, which all later ones must be able to read.

`python -m tests.formats` writes that of this release. Never change the file of a release that is out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import allhands
from allhands.core.quota.usage import Usage, UsageKey, UsageLedger, encode
from allhands.dialects.scheduling_record import record_text
from allhands.model.group_status import GroupStatus, Said
from allhands.model.queue import ShareBy
from allhands.model.reason import Reason, explain

FOLDER = Path(__file__).parent


class Kept(msgspec.Struct, frozen=True):
    """An annotation of a group, and what it means."""

    text: str
    means: dict[str, Any]


class Formats(msgspec.Struct, frozen=True):
    """`records`: annotations. `ledger`: the data of the ConfigMap. `lease`: its spec."""

    release: str
    records: list[Kept]
    ledger: dict[str, str]
    lease: dict[str, Any]


def releases() -> list[Formats]:
    return [msgspec.json.decode(path.read_bytes(), type=Formats) for path in sorted(FOLDER.glob("*.json"))]


def of_today() -> Formats:
    """What this release writes: every field at least once."""
    said = Said(explain(Reason.QUEUE_CLOSED, queue="research"), expected_start_seconds=1_790_000_000)
    statuses = [
        GroupStatus(admitted_at_seconds=1_780_000_000),
        GroupStatus(failed_starts=2, retry_at_seconds=1_780_000_300, avoid_nodes=("a", "b")),
        GroupStatus(preempting_since_seconds=1_780_000_010, nominated_nodes=("c",)),
        GroupStatus(said=said),
        GroupStatus(
            admitted_at_seconds=1_780_000_000,
            started_at_seconds=1_780_000_060,
            failed_starts=1,
            retry_at_seconds=1_780_000_200,
            avoid_nodes=("a",),
            preempting_since_seconds=1_780_000_010,
            nominated_nodes=("c", "d"),
            said=said,
            after_completed=("prepare",),
        ),
    ]
    entries = (
        Usage(UsageKey("default"), 123_456, 1_780_000_000),
        Usage(UsageKey("research", ShareBy.USER, "ada"), 42, 1_780_000_000),
    )
    lease = {
        "holderIdentity": "allhands-scheduler-0_5f",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-16T10:00:00.000000Z",
        "renewTime": "2026-11-16T10:00:30.000000Z",
        "leaseTransitions": 3,
    }
    return Formats(
        release=allhands.__version__,
        records=[Kept(record_text(it), json.loads(msgspec.json.encode(it))) for it in statuses],
        ledger={"usage": encode(UsageLedger(entries)).decode(), "runs": '{"default":[60,90],"research":[3600]}'},
        lease=lease,
    )


def main() -> None:
    today = of_today()
    data = msgspec.json.format(msgspec.json.encode(today, order="sorted"), indent=1)
    (FOLDER / f"{today.release}.json").write_bytes(data + b"\n")
