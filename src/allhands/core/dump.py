"""A snapshot as bytes and back: what a bug report is made of, and what replays bit for bit on another machine.

The bytes are canonical: pods are ordered by name, whatever rows they had, and generations are left out; so two worlds
are equal exactly if their dumps are. Reading a dump never runs anything: it holds values only. Writing files is others'
business.
"""

import zlib
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from allhands.core.columns import NodeColumns
from allhands.core.consistency import problem_of
from allhands.core.facts import Facts
from allhands.core.snapshot import GroupEntry, PodTable, SetAside, Snapshot
from allhands.model.node import Node
from allhands.model.shape import PodShape

FORMAT: Final = "allhands.dev/snapshot/1"
MAX_DUMP_BYTES: Final = 4 << 30
"""What a dump may hold once it is unpacked."""
_ENDIAN: Final = "<"


class DumpError(ValueError):
    """The bytes are no dump that this version can read; the message says why."""


class _Array(msgspec.Struct, array_like=True):
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @staticmethod
    def of(array: NDArray[np.generic]) -> "_Array":
        plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder(_ENDIAN), copy=False)
        return _Array(plain.dtype.str, plain.shape, plain.tobytes())

    def back(self, dtype: str) -> NDArray[np.generic]:
        found = np.frombuffer(self.data, dtype=np.dtype(self.dtype))
        return found.reshape(self.shape).astype(dtype)


class _Columns(msgspec.Struct):
    names: tuple[str, ...]
    nodes: tuple[Node, ...]
    resources: tuple[str, ...]
    allocatable: _Array
    used: _Array


class _Pods(msgspec.Struct):
    keys: list[str]
    uids: list[str]
    node: _Array
    shape: _Array
    priority: _Array
    since: _Array
    flags: _Array
    shapes: tuple[PodShape, ...]


class _Dump(msgspec.Struct):
    format: str
    columns: _Columns
    pods: _Pods
    groups: tuple[GroupEntry, ...]
    facts: Facts
    set_aside: tuple[SetAside, ...]


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(_Dump)


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot, canonical and packed. Facts may hold numbers that no dump can: then it says so."""
    try:
        return zlib.compress(canonical(snapshot), level=1)
    except OverflowError:
        raise DumpError("the snapshot holds a number beyond 64 bits, which cannot be dumped") from None


def canonical(snapshot: Snapshot) -> bytes:
    """Equal for equal worlds, whatever happened before."""
    columns, pods = snapshot.columns, snapshot.pods
    taken = [row for row in range(len(pods)) if pods.uids[row]]
    order = sorted(taken, key=lambda row: (pods.keys[row], pods.uids[row]))
    new_row = {row: number for number, row in enumerate(order)}
    rows = np.array(order, dtype=np.int64)
    shapes = {int(number) for number in np.unique(pods.shape[rows])} if order else set()
    ordered_shapes = sorted(shapes, key=lambda number: pods.shapes[number].digest)
    new_shape = np.zeros(len(pods.shapes) + 1, dtype=np.int32)
    for number, old in enumerate(ordered_shapes):
        new_shape[old] = number
    return _ENCODER.encode(
        _Dump(
            FORMAT,
            _Columns(
                columns.names,
                columns.nodes,
                columns.resources,
                _Array.of(columns.allocatable),
                _Array.of(columns.used),
            ),
            _Pods(
                [pods.keys[row] for row in order],
                [pods.uids[row] for row in order],
                _Array.of(pods.node[rows]),
                _Array.of(new_shape[pods.shape[rows]]),
                _Array.of(pods.priority[rows]),
                _Array.of(pods.since[rows]),
                _Array.of(pods.flags[rows]),
                tuple(pods.shapes[number] for number in ordered_shapes),
            ),
            tuple(_moved(snapshot.groups[key], new_row) for key in sorted(snapshot.groups)),
            snapshot.facts,
            snapshot.set_aside,
        )
    )


def decode(packed: bytes) -> Snapshot:
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(packed, MAX_DUMP_BYTES)
        if unpacker.unconsumed_tail:
            raise DumpError(f"the dump is larger than {MAX_DUMP_BYTES} bytes")
        if not unpacker.eof:
            raise DumpError("the dump ends too early: it was not written or copied to its end")
        dump = _DECODER.decode(raw)
    except (zlib.error, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise DumpError(f"this is not a snapshot, or it is damaged: {error}") from None
    if dump.format != FORMAT:
        raise DumpError(f'the dump has the format "{dump.format}"; this version reads "{FORMAT}"')
    try:
        snapshot = _snapshot(dump)
    except (TypeError, ValueError) as error:
        raise DumpError(f"the dump is damaged: {error}") from None
    if (problem := problem_of(snapshot)) is not None:
        raise DumpError(f"the dump is damaged: {problem}")
    return snapshot


def _snapshot(dump: _Dump) -> Snapshot:
    columns = dump.columns
    generation = np.zeros(len(columns.names), dtype=np.int64)
    return Snapshot(
        columns=NodeColumns(
            names=columns.names,
            nodes=columns.nodes,
            row_by_name={name: row for row, name in enumerate(columns.names)},
            resources=columns.resources,
            column_by_resource={name: column for column, name in enumerate(columns.resources)},
            allocatable=columns.allocatable.back("int64"),  # type: ignore[arg-type]
            used=columns.used.back("int64"),  # type: ignore[arg-type]
            generation=generation,
            static_generation=generation.copy(),
            layout=1,
        ),
        pods=PodTable(
            keys=dump.pods.keys,
            uids=dump.pods.uids,
            node=dump.pods.node.back("int32"),  # type: ignore[arg-type]
            shape=dump.pods.shape.back("int32"),  # type: ignore[arg-type]
            priority=dump.pods.priority.back("int32"),  # type: ignore[arg-type]
            since=dump.pods.since.back("int64"),  # type: ignore[arg-type]
            flags=dump.pods.flags.back("uint8"),  # type: ignore[arg-type]
            shapes=dump.pods.shapes,
        ),
        groups={entry.key: entry for entry in dump.groups},
        facts=dump.facts,
        set_aside=dump.set_aside,
        version=1,
    )


def _moved(entry: GroupEntry, new_row: dict[int, int]) -> GroupEntry:
    if not entry.bound and not entry.leaving:
        return entry
    bound = sorted((new_row[row], part) for row, part in zip(entry.bound, entry.bound_parts, strict=True))
    return msgspec.structs.replace(
        entry,
        bound=tuple(row for row, _ in bound),
        bound_parts=tuple(part for _, part in bound),
        leaving=tuple(sorted(new_row[row] for row in entry.leaving)),
    )
