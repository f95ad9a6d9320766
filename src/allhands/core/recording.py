"""One cycle as bytes: all that it was given and, if wanted, the plan that it made, to be made again on any machine.

The memo is left out: an empty one gives the same plan. Reading a recording runs nothing and trusts nothing: what does
not fit together is refused with a sentence. Opening and writing files is others' business.
"""

import zlib
from typing import Annotated, Final

import msgspec

from allhands.api.configuration import ConfigurationError
from allhands.api.policy import SchedulingPolicy
from allhands.core import dump
from allhands.core.columns import ABSURD_UNITS
from allhands.core.configuration.building import build_policy
from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.plan import Plan
from allhands.core.policy import Policy
from allhands.core.snapshot import GroupEntry, Snapshot

FORMAT: Final = "allhands.dev/recording/1"
MAX_PACKED_BYTES: Final = 1 << 30
"""What is read at all."""
MAX_SECONDS: Final = 1 << 53
"""No time is later, nor so long before 1970: sums of times stay within 64 bits."""
_GZIP: Final = 31
"""For zlib: with the header and the checksum of gzip, so that the usual tools can look inside."""


class RecordingError(ValueError):
    """The bytes are no recording that this version can use, or a cycle cannot be recorded; the message says why."""


class Recording(msgspec.Struct, frozen=True):
    """What `cycle` was given, and what it answered."""

    snapshot: Snapshot
    configuration: SchedulingPolicy
    now: int
    rng: int = 0
    plan: bytes | None = None
    """The plan in canonical form, if it was recorded too."""

    def policy(self) -> Policy:
        try:
            return build_policy(self.configuration)
        except ConfigurationError as error:
            raise RecordingError(f"its policy cannot be built here: {error}") from None

    def replay(self, policy: Policy | None = None) -> Plan:
        """What the cycle decides now; with another policy, what it would have decided."""
        return cycle(self.snapshot, policy or self.policy(), Memo(), self.now, self.rng)[0]


class _Format(msgspec.Struct):
    format: str


class _File(_Format, omit_defaults=True):
    snapshot: bytes
    policy: SchedulingPolicy
    now: Annotated[int, msgspec.Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]
    rng: int = 0
    plan: bytes | None = None


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def record(snapshot: Snapshot, policy: Policy, now: int, rng: int = 0, plan: Plan | None = None) -> Recording:
    """A policy that was put together by hand cannot be recorded: nobody could build it again."""
    if policy.configuration is None:
        raise RecordingError("the policy was not built from a configuration, so that it cannot be recorded")
    return Recording(snapshot, policy.configuration, now, rng, None if plan is None else canonical_plan(plan))


def canonical_plan(plan: Plan) -> bytes:
    """Equal exactly for equal plans."""
    return _ENCODER.encode(plan)


def encode(recording: Recording) -> bytes:
    if not -MAX_SECONDS <= recording.now <= MAX_SECONDS:
        raise RecordingError(f"{recording.now} is no time that can be recorded")
    values = _File(
        FORMAT,
        dump.encode(recording.snapshot),
        recording.configuration,
        recording.now,
        recording.rng,
        recording.plan,
    )
    try:
        raw = _ENCODER.encode(values)
    except OverflowError:
        raise RecordingError("a number of the recording does not fit into 64 bits") from None
    packer = zlib.compressobj(level=1, wbits=_GZIP)
    return packer.compress(raw) + packer.flush()


def decode(packed: bytes) -> Recording:
    raw = _unpacked(packed)
    try:
        found = msgspec.msgpack.decode(raw, type=_Format).format
    except msgspec.MsgspecError:
        raise RecordingError("this is not a recording of a cycle") from None
    if found != FORMAT:
        raise RecordingError(f'it has the format "{found[:60]}"; this version of allhands reads "{FORMAT}"')
    try:
        values = msgspec.msgpack.decode(raw, type=_File)
        snapshot = dump.decode(values.snapshot)
        if values.plan is not None:
            msgspec.msgpack.decode(values.plan, type=Plan)
    except (msgspec.MsgspecError, dump.DumpError, UnicodeDecodeError) as error:
        raise RecordingError(f"the recording is damaged: {error}") from None
    if (problem := _problem(snapshot)) is not None:
        raise RecordingError(f"the recording is damaged: {problem}")
    return Recording(snapshot, values.policy, values.now, values.rng, values.plan)


def _unpacked(packed: bytes) -> bytes:
    if not packed:
        raise RecordingError("the file is empty")
    if len(packed) > MAX_PACKED_BYTES:
        raise RecordingError(f"it has {len(packed)} bytes; at most {MAX_PACKED_BYTES} are read")
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        raw = unpacker.decompress(packed, dump.MAX_DUMP_BYTES)
    except zlib.error:
        raise RecordingError("this is not a recording of a cycle, or it is damaged") from None
    if unpacker.unconsumed_tail:
        raise RecordingError(f"unpacked, it is larger than {dump.MAX_DUMP_BYTES} bytes")
    if not unpacker.eof:
        raise RecordingError("the recording ends too early: it was not written or copied to its end")
    return raw


def _problem(snapshot: Snapshot) -> str | None:
    """What does not fit together in it; the core relies on all of this."""
    return _problem_of_nodes(snapshot) or _problem_of_pods(snapshot) or _problem_of_groups(snapshot)


def _problem_of_nodes(snapshot: Snapshot) -> str | None:
    columns = snapshot.columns
    if list(columns.names) != sorted(set(columns.names)) or columns.names != tuple(it.name for it in columns.nodes):
        return "its nodes are not in order"
    if list(columns.resources) != sorted({*columns.resources, "cpu", "memory", "pods"}):
        return "its resources are not in order"
    size = (len(columns.resources), len(columns.names))
    if columns.allocatable.shape != size or columns.used.shape != size:
        return "the columns of its nodes have different lengths"
    if (
        columns.allocatable.size
        and not 0 <= int(columns.allocatable.min()) <= int(columns.allocatable.max()) < ABSURD_UNITS
    ):
        return "a node has an absurd amount of a resource"
    if columns.used.size and not 0 <= int(columns.used.min()) <= int(columns.used.max()) < 1 << 62:
        return "an absurd amount of a resource is in use"
    return None


def _problem_of_pods(snapshot: Snapshot) -> str | None:
    pods = snapshot.pods
    size = (len(pods.keys),)
    columns = (pods.node, pods.shape, pods.priority, pods.since, pods.flags)
    if len(pods.uids) != size[0] or any(column.shape != size for column in columns):
        return "the columns of its pods have different lengths"
    if size[0] and not -1 <= int(pods.node.min()) <= int(pods.node.max()) < len(snapshot.columns):
        return "a pod is on a node that is not there"
    if size[0] and not 0 <= int(pods.shape.min()) <= int(pods.shape.max()) < len(pods.shapes):
        return "a pod has a shape that is not there"
    return None


def _problem_of_groups(snapshot: Snapshot) -> str | None:
    if list(snapshot.groups) != sorted(snapshot.groups):
        return "its groups are not in order"
    pods = len(snapshot.pods)
    for entry in snapshot.groups.values():
        rows = (*entry.bound, *entry.leaving)
        if len(entry.bound) != len(entry.bound_parts) or (rows and not 0 <= min(rows) <= max(rows) < pods):
            return f'group "{entry.key}" has members that are not there'
        if entry.problem is None and not _is_sound(entry):
            return f'group "{entry.key}" asks for something absurd'
    return None


def _is_sound(entry: GroupEntry) -> bool:
    parts = {part.name for part in entry.group.members.walk()}
    return all(
        members.pods
        and members.slot.subgroup in parts
        and all(0 <= units < ABSURD_UNITS for _, units in members.shape.requests.entries)
        for members in entry.pending
    )
