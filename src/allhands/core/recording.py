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
from allhands.core.configuration.building import build_policy
from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.plan import Plan
from allhands.core.policy import Policy
from allhands.core.snapshot import Snapshot

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
