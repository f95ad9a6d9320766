"""Past use that fades: what each queue, user or namespace has used, halved after every half-life.

The ledger is a value that survives restarts: it is folded at event times only, so the same events give the same ledger
on every machine, and how often it was looked at leaves no trace. Amounts are unit-seconds in fixed point, within 64
bits: they saturate rather than overflow. What a unit is, the caller decides (`weighted_units`, or millionths of the
cluster).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.core.quota.decay import BITS, HALF, ONE, ONE_OVER_LN2, decay_factor
from allhands.core.quota.shares import MILLION
from allhands.model.queue import ShareBy
from allhands.model.resources import MAX_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.quota.bill import Demand

AMOUNT_BITS: Final = 12
"""Bits after the point in an amount, so that use is not lost to rounding however often it is folded."""


class UsageKey(NamedTuple):
    """Whose use it is: that of a whole queue, or that of one user or namespace in it."""

    queue: str
    by: ShareBy = ShareBy.NONE
    name: str = ""


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An amount as it was at the moment of its last fold."""

    key: UsageKey
    amount: int
    folded_at_seconds: int


class UsageLedger(msgspec.Struct, frozen=True):
    """All past use, sorted by key."""

    entries: tuple[Usage, ...] = ()

    def entry(self, key: UsageKey) -> Usage | None:
        position = _position(self, key)
        return self.entries[position] if _is_at(self, key, position) else None


EMPTY_LEDGER: Final = UsageLedger()


def fold(
    ledger: UsageLedger, key: UsageKey, units_in_use: int, until_seconds: int, half_life_seconds: int | None
) -> UsageLedger:
    """Counts that so many units were in use since the last fold, and lets all of it fade until now.

    The first fold of a key only starts its clock. A time before the last fold changes nothing.
    """
    return fold_all(ledger, {key: units_in_use}, until_seconds, half_life_seconds)


def fold_all(
    ledger: UsageLedger, units_in_use: Mapping[UsageKey, int], until_seconds: int, half_life_seconds: int | None
) -> UsageLedger:
    """`fold` for many keys at once; keys that are not named stay as they are."""
    if len(units_in_use) == 1:
        ((key, units),) = units_in_use.items()
        return _with_one(ledger, key, units, until_seconds, half_life_seconds)
    entries = {entry.key: entry for entry in ledger.entries}
    for key, units in units_in_use.items():
        entries[key] = _folded(entries.get(key), key, units, until_seconds, half_life_seconds)
    return UsageLedger(tuple(entries[key] for key in sorted(entries)))


def amount_at(
    ledger: UsageLedger, key: UsageKey, units_in_use: int, now_seconds: int, half_life_seconds: int | None
) -> int:
    """What a fold at this moment would leave, without folding: the value to compare."""
    entry = ledger.entry(key)
    return 0 if entry is None else _folded(entry, key, units_in_use, now_seconds, half_life_seconds).amount


def past_share(amount: int, total_units: int, half_life_seconds: int) -> int:
    """An amount in millionths of what it would be had so many units been in use for ever: comparable with shares."""
    whole = total_units * half_life_seconds * ONE_OVER_LN2 << AMOUNT_BITS
    return (amount * MILLION << BITS) // whole if whole > 0 else 0


def forget(ledger: UsageLedger, now_seconds: int, half_life_seconds: int | None) -> UsageLedger:
    """The ledger without those of whom nothing is left at this moment, so that it does not grow for ever."""
    kept = tuple(
        entry
        for entry in ledger.entries
        if _folded(entry, entry.key, 0, now_seconds, half_life_seconds).amount > 0
        or entry.folded_at_seconds >= now_seconds
    )
    return ledger if len(kept) == len(ledger.entries) else UsageLedger(kept)


def weighted_units(demand: Demand, weights: Mapping[str, tuple[int, int]]) -> int:
    """One number for several resources: each counts `weight` for every `per` base units, in the form (weight, per)."""
    total = 0
    for _, resource, units in demand:
        weight, per = weights.get(resource, (0, 1))
        total += max(units, 0) * weight // per
    return total


def encode(ledger: UsageLedger) -> bytes:
    return _ENCODER.encode(ledger)


def decode(text: bytes) -> UsageLedger:
    """The way back. Anything that is no ledger raises ValueError with the place and the problem."""
    try:
        ledger = _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a usage ledger: {error}") from None
    previous = None
    for entry in ledger.entries:
        if previous is not None and entry.key <= previous:
            raise ValueError(f"not a usage ledger: {tuple(entry.key)} comes after {tuple(previous)}")
        if not 0 <= entry.amount <= MAX_UNITS:
            raise ValueError(f"not a usage ledger: the amount of {tuple(entry.key)} is {entry.amount}")
        previous = entry.key
    return ledger


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(UsageLedger)


def _with_one(
    ledger: UsageLedger, key: UsageKey, units: int, until_seconds: int, half_life_seconds: int | None
) -> UsageLedger:
    position = _position(ledger, key)
    found = _is_at(ledger, key, position)
    old = ledger.entries[position] if found else None
    new = _folded(old, key, units, until_seconds, half_life_seconds)
    if new == old:
        return ledger
    return UsageLedger((*ledger.entries[:position], new, *ledger.entries[position + found :]))


def _folded(old: Usage | None, key: UsageKey, units: int, until_seconds: int, half_life_seconds: int | None) -> Usage:
    """Use at a steady rate u adds u * half-life / ln 2 * (1 - f), where f is what fades; so folding twice is the same
    as folding once. Without a half-life nothing fades; with one of 0 nothing is remembered."""
    if old is None:
        return Usage(key, 0, until_seconds)
    elapsed = until_seconds - old.folded_at_seconds
    if elapsed <= 0:
        return old
    rate = min(max(units, 0), MAX_UNITS) << AMOUNT_BITS
    if half_life_seconds is None:
        amount = old.amount + rate * elapsed
    elif half_life_seconds <= 0:
        amount = 0
    else:
        factor = decay_factor(elapsed, half_life_seconds)
        added = rate * half_life_seconds * ONE_OVER_LN2 * (ONE - factor) + (1 << (2 * BITS - 1)) >> (2 * BITS)
        amount = (old.amount * factor + HALF >> BITS) + added
    return Usage(key, min(amount, MAX_UNITS), until_seconds)


def _position(ledger: UsageLedger, key: UsageKey) -> int:
    return bisect_left(ledger.entries, key, key=lambda entry: entry.key)


def _is_at(ledger: UsageLedger, key: UsageKey, position: int) -> bool:
    return position < len(ledger.entries) and ledger.entries[position].key == key
