"""A recorded cycle can be decided again anywhere; what is no recording is refused with a sentence and nothing else."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.policy import API_VERSION, KIND, SchedulingPolicy
from allhands.core import dump
from allhands.core.configuration.building import build_policy
from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.plan_difference import Difference, differences
from allhands.core.policy import DEFAULT, Policy
from allhands.core.recording import FORMAT, Recording, RecordingError, canonical_plan, decode, encode, record
from allhands.measure.busy_cluster import NOW_SECONDS, busy_cluster
from allhands.measure.dump import dump_of, known_names
from tests.depth import examples
from tests.random_worlds import build, objects

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

ROOT = Path(__file__).parents[3]
RECORDED = sorted((*ROOT.glob("tests/unit/core/recorded/*.dump.gz"), *ROOT.glob("examples/dumps/*.dump.gz")))


def packed(**fields: object) -> bytes:
    """A recording whose fields are set by hand."""
    snapshot = busy_cluster()
    values = {"format": FORMAT, "snapshot": dump.encode(snapshot), "now": 0, "policy": policy_values(), **fields}
    return gzip.compress(msgspec.msgpack.encode(values), mtime=0)


def policy_values() -> dict[str, object]:
    return {"apiVersion": API_VERSION, "kind": KIND}


def replaced(snapshot: Snapshot, **parts: object) -> bytes:
    """A recording of a snapshot in which some columns are others."""
    columns = {name: value for name, value in parts.items() if name in snapshot.columns.__struct_fields__}
    pods = {name: value for name, value in parts.items() if name in snapshot.pods.__struct_fields__}
    broken = msgspec.structs.replace(
        snapshot,
        columns=msgspec.structs.replace(snapshot.columns, **columns),
        pods=msgspec.structs.replace(snapshot.pods, **pods),
    )
    return packed(snapshot=dump.encode(broken))


def busy_recording(*, plan: Plan | None = None, policy: Policy = DEFAULT) -> Recording:
    return record(busy_cluster(), policy, NOW_SECONDS, 7, plan)


# -- another machine


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name)
def test_a_cycle_recorded_on_another_machine_gives_the_very_same_plan(file: Path) -> None:
    """When decisions or sentences have changed on purpose, all are recorded anew by

    python -m allhands.measure.dump --again examples/dumps/*.gz tests/unit/core/recorded/*.gz
    """
    recording = decode(file.read_bytes())
    plan = recording.replay()
    assert recording.plan is not None
    assert differences(recording.plan, plan) == ()
    assert canonical_plan(plan) == recording.plan


def test_some_recordings_are_kept() -> None:
    assert {file.name.partition(".")[0] for file in RECORDED} >= {"busy-cluster", "topology", "reclaim"}


@pytest.mark.parametrize("name", known_names())
def test_every_cluster_that_can_be_dumped_replays(name: str) -> None:
    recording = decode(dump_of(name))
    assert canonical_plan(recording.replay()) == recording.plan


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_recorded_comes_back_and_decides_the_same(seed: int) -> None:
    snapshot = build(objects(seed)).snapshot()
    plan = cycle(snapshot, DEFAULT, Memo(), 100, 5)[0]
    recording = decode(encode(record(snapshot, DEFAULT, 100, 5, plan)))
    assert (recording.now, recording.rng, recording.plan) == (100, 5, canonical_plan(plan))
    assert dump.canonical(recording.snapshot) == dump.canonical(snapshot)
    assert recording.replay() == plan


def test_the_policy_is_part_of_it() -> None:
    policy = build_policy(SchedulingPolicy(api_version=API_VERSION, kind=KIND, start_timeout_seconds=77, scores=()))
    again = decode(encode(busy_recording(policy=policy))).policy()
    assert again.start_timeout_seconds == 77
    assert again.scores == ()


def test_a_policy_made_by_hand_cannot_be_recorded() -> None:
    with pytest.raises(RecordingError, match="not built from a configuration"):
        busy_recording(policy=msgspec.structs.replace(DEFAULT, configuration=None))


def test_a_plugin_that_is_not_known_here_is_told_when_it_is_needed() -> None:
    recording = decode(packed(policy={**policy_values(), "orders": [{"name": "astrology"}]}))
    with pytest.raises(RecordingError, match="astrology"):
        recording.replay()
    assert recording.replay(DEFAULT).waits


@pytest.mark.parametrize(("now", "rng"), [(2**70, 0), (2**63, 0), (0, 2**64)])
def test_numbers_beyond_all_bounds_cannot_be_recorded(now: int, rng: int) -> None:
    with pytest.raises(RecordingError, match=r"no time|64 bits"):
        encode(record(busy_cluster(), DEFAULT, now, rng))


# -- what is no recording


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"hello", "not a recording"),
        (b"\x1f\x8b\x08 garbage", "not a recording"),
        (gzip.compress(b"hello", mtime=0), "not a recording"),
        (gzip.compress(msgspec.msgpack.encode([1, 2]), mtime=0), "not a recording"),
        (dump.encode(busy_cluster()), "not a recording"),
        (packed(format="allhands.dev/recording/2"), 'has the format "allhands.dev/recording/2"; this version'),
        (packed(format="x" * 10_000), "has the format"),
        (packed(now="noon"), "damaged"),
        (packed(now=2**63), "damaged"),
        (packed(snapshot=b"none"), "damaged"),
        (packed(snapshot=zlib.compress(b"")), "damaged"),
        (packed(policy={**policy_values(), "preempts": "perhaps"}), "damaged"),
        (packed(plan=b"\xc1"), "damaged"),
        (packed(plan=msgspec.msgpack.encode({"starts": [{"group": 1}]})), "damaged"),
    ],
)
def test_what_is_no_recording_is_refused_with_a_sentence(content: bytes, complaint: str) -> None:
    with pytest.raises(RecordingError, match=complaint) as refusal:
        decode(content)
    assert len(str(refusal.value)) < 300


def test_a_recording_that_was_cut_short_is_refused() -> None:
    whole = encode(busy_recording())
    for length in (1, 10, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        with pytest.raises(RecordingError):
            decode(whole[:length])


def test_a_damaged_byte_is_noticed() -> None:
    whole = bytearray(encode(busy_recording()))
    whole[len(whole) // 2] ^= 0x10
    with pytest.raises(RecordingError):
        decode(bytes(whole))


@pytest.mark.parametrize(
    "parts",
    [
        {"names": ("a", "b")},
        {"resources": ("cpu", "memory")},
        {"allocatable": np.zeros((2, 2), dtype=np.int64)},
        {"used": np.zeros(3, dtype=np.int64)},
        {"allocatable": np.full((4, 6), 2**60, dtype=np.int64)},
        {"allocatable": np.full((4, 6), -1, dtype=np.int64)},
        {"used": np.full((4, 6), 2**63 - 1, dtype=np.int64)},
        {"node": np.full(7, 6, dtype=np.int32)},
        {"node": np.full(7, -2, dtype=np.int32)},
    ],
    ids=lambda parts: f"other {next(iter(parts))}",
)
def test_columns_that_do_not_fit_together_are_refused(parts: dict[str, object]) -> None:
    with pytest.raises(RecordingError, match="damaged: "):
        decode(replaced(busy_cluster(), **parts))


@settings(max_examples=examples(200))
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_is_changed_in_a_recording_it_is_read_or_refused(seed: int) -> None:
    """With checksums made right again, as somebody would who edits one."""
    chance = random.Random(seed)
    raw = bytearray(zlib.decompress(dump.encode(busy_cluster())))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(raw))
        if chance.random() < 0.5:
            raw[at] = chance.randrange(256)
        else:
            del raw[at : at + chance.randint(1, 40)]
    try:
        found = decode(packed(snapshot=zlib.compress(bytes(raw))))
    except RecordingError:
        return
    assert isinstance(found, Recording)


# -- differences


def test_equal_plans_do_not_differ() -> None:
    plan = busy_recording().replay()
    assert differences(canonical_plan(plan), plan) == ()


def test_a_pod_on_another_node_and_a_group_that_no_longer_waits_are_named() -> None:
    plan = busy_recording().replay()
    start, wait = plan.starts[0], plan.waits[0]
    other = msgspec.structs.replace(start, binds=(start.binds[0]._replace(node="gpu-9"), *start.binds[1:]))
    before = msgspec.structs.replace(plan, starts=(other, *plan.starts[1:]), waits=plan.waits[1:])
    found = differences(canonical_plan(before), plan)
    assert Difference(f"bind {start.binds[0].pod}", "gpu-9", start.binds[0].node) in found
    assert [(it.what, it.recorded) for it in found if it.what.startswith("wait ")] == [(f"wait {wait.group}", "")]
    assert len(found) == 2


def test_what_an_older_version_could_not_say_is_not_compared() -> None:
    plan = busy_recording().replay()
    older = msgspec.msgpack.decode(canonical_plan(plan))
    for wait in older["waits"]:
        del wait["say"]
    del older["set_aside"]
    assert differences(msgspec.msgpack.encode(older), plan) == ()


def test_another_order_is_a_difference() -> None:
    plan = busy_recording().replay()
    turned = msgspec.structs.replace(plan, waits=plan.waits[::-1])
    assert [it.what for it in differences(canonical_plan(turned), plan)] == ["order"]
