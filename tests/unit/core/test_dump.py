"""A dump is a snapshot on paper: complete, canonical, and refused with a sentence if it is anything else."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.dump import FORMAT, DumpError, canonical, decode, encode
from allhands.core.facts import Facts
from allhands.core.world import World
from allhands.model.domain import Domain
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup, SubGroup
from tests.depth import examples
from tests.random_worlds import build, objects

if TYPE_CHECKING:
    from collections.abc import Callable

PACKED = encode(build(objects(7)).snapshot())


def test_a_snapshot_comes_back_as_it_was() -> None:
    snapshot = build(objects(7)).snapshot()
    loaded = decode(encode(snapshot))
    assert loaded.groups.keys() == snapshot.groups.keys()
    assert loaded.columns.names == snapshot.columns.names
    assert loaded.facts.accounts == snapshot.facts.accounts
    assert canonical(loaded) == canonical(snapshot)


def test_an_empty_world_can_be_dumped() -> None:
    assert canonical(decode(encode(World().snapshot()))) == canonical(World().snapshot())


@settings(max_examples=examples(60))
@given(length=st.integers(0, len(PACKED) - 1))
def test_a_dump_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(DumpError):
        decode(PACKED[:length])


@settings(max_examples=examples(60))
@given(garbage=st.binary(max_size=300))
def test_garbage_is_refused(garbage: bytes) -> None:
    for packed in (garbage, zlib.compress(garbage)):
        with pytest.raises(DumpError):
            decode(packed)


@settings(max_examples=examples(60))
@given(at=st.integers(0, len(PACKED) - 1), bit=st.integers(0, 7))
def test_a_dump_with_a_bit_turned_is_refused(at: int, bit: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= 1 << bit
    try:
        loaded = decode(bytes(damaged))
    except DumpError:
        return
    # A few bits of the packing mean nothing.
    assert canonical(loaded) == zlib.decompress(PACKED)


def test_another_format_is_named_in_the_refusal() -> None:
    values = msgspec.msgpack.decode(zlib.decompress(PACKED))
    values["format"] = "allhands.dev/snapshot/99"
    with pytest.raises(DumpError, match=f'format "allhands.dev/snapshot/99"; this version reads "{FORMAT}"'):
        decode(zlib.compress(msgspec.msgpack.encode(values)))


def test_columns_of_the_wrong_size_are_refused() -> None:
    values = msgspec.msgpack.decode(zlib.decompress(PACKED))
    values["columns"]["used"][1] = [1, 1]
    with pytest.raises(DumpError, match="damaged"):
        decode(zlib.compress(msgspec.msgpack.encode(values)))


def test_groups_nested_beyond_all_measure_are_refused() -> None:
    values = msgspec.msgpack.decode(zlib.decompress(PACKED))
    members = b"\x81\xa8children\x91" * 30_000 + b"\x80"
    raw = msgspec.msgpack.encode({**values, "groups": [{"group": {"members": msgspec.Raw(members)}}]})
    with pytest.raises(DumpError):
        decode(zlib.compress(raw))


def test_what_no_dump_can_hold_is_said_when_it_is_written() -> None:
    world = World()
    world.set_facts(Facts(domains=(Domain("d", 2**80),)))
    with pytest.raises(DumpError, match="beyond 64 bits"):
        encode(world.snapshot())


def test_two_worlds_with_the_same_objects_have_the_same_dump_whatever_happened_before() -> None:
    plain, eventful = World(), World()
    for world in (plain, eventful):
        if world is eventful:
            world.set_pod(Pod("default", "gone", "gone", node_name="n"))
            world.set_group(PodGroup("default", "g", "other"))
            world.snapshot()
            world.delete_pod("gone")
        world.set_group(PodGroup("default", "g", "q", members=SubGroup(min_count=2)))
        world.set_pod(Pod("default", "p", "p"), group="default/g")
    assert canonical(plain.snapshot()) == canonical(eventful.snapshot())


def damaged(change: Callable[[dict[str, Any]], object]) -> bytes:
    values = msgspec.msgpack.decode(zlib.decompress(PACKED))
    change(values)
    return zlib.compress(msgspec.msgpack.encode(values))


def column(values: list[int], dtype: str) -> list[object]:
    data = np.array(values, dtype=dtype)
    return [data.dtype.str, list(data.shape), data.tobytes()]


def first_with_members(values: dict[str, Any]) -> dict[str, Any]:
    return next(group for group in values["groups"] if group["bound"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda it: it["columns"]["names"].reverse(), "nodes are not in order"),
        (lambda it: it["columns"]["resources"].reverse(), "resources are not in order"),
        (lambda it: it["pods"]["uids"].pop(), "columns of its pods have different lengths"),
        (lambda it: it["pods"].update(node=column([10**6] * len(it["pods"]["keys"]), "<i4")), "node that is not there"),
        (lambda it: it["pods"].update(shape=column([10**6] * len(it["pods"]["keys"]), "<i4")), "shape that is not"),
        (lambda it: it["groups"].reverse(), "groups are not in order"),
        (lambda it: first_with_members(it).update(bound=[10**6], bound_parts=[""]), "members that are not there"),
        (lambda it: first_with_members(it).update(leaving=first_with_members(it)["bound"]), "counted twice"),
    ],
    ids=[
        "nodes in disorder",
        "resources in disorder",
        "a pod without a uid",
        "a pod on an unknown node",
        "a pod of an unknown shape",
        "groups in disorder",
        "a member that is no pod",
        "a member twice",
    ],
)
def test_what_does_not_hold_together_is_refused(change: Callable[[dict[str, Any]], object], complaint: str) -> None:
    with pytest.raises(DumpError, match=f"damaged: .*{complaint}"):
        decode(damaged(change))
