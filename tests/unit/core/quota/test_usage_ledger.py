"""Past use fades by halves, survives a restart, and is the same on every machine."""

from __future__ import annotations

from fractions import Fraction

import pytest

from allhands.core.quota.decay import BITS, ONE, ONE_OVER_LN2, decay_factor
from allhands.core.quota.usage import (
    AMOUNT_BITS,
    EMPTY_LEDGER,
    Usage,
    UsageKey,
    UsageLedger,
    amount_at,
    decode,
    encode,
    fold,
    fold_all,
    forget,
    past_share,
    weighted_units,
)
from allhands.model.queue import ShareBy

ALICE = UsageKey("q", ShareBy.USER, "alice")
BOB = UsageKey("q", ShareBy.USER, "bob")
HOUR = 3600
UNIT = 1 << AMOUNT_BITS


def test_factors_are_these_numbers_on_every_machine() -> None:
    assert [decay_factor(elapsed, 7) for elapsed in (0, 1, 3, 7, 14)] == [
        ONE,
        4176913159044681464,
        3426469543337908774,
        ONE // 2,
        ONE // 4,
    ]
    assert decay_factor(10**12, 1) == 0


def test_factors_are_exact_powers_of_two_to_forty_bits() -> None:
    for elapsed in range(0, 1000, 37):
        factor = Fraction(decay_factor(elapsed, 1000), ONE)
        assert abs(factor**1000 * 2**elapsed - 1) < Fraction(1, 2**37)


def test_the_constant_is_one_over_the_logarithm_of_two() -> None:
    logarithm = sum(Fraction(1, n * 2**n) for n in range(1, 120))
    assert abs(Fraction(ONE_OVER_LN2, ONE) * logarithm - 1) < Fraction(1, 2 ** (BITS - 1))


def test_use_is_halved_after_every_half_life() -> None:
    ledger = UsageLedger((Usage(ALICE, 1000 * UNIT, 0),))
    assert [amount_at(ledger, ALICE, 0, hours * HOUR, HOUR) // UNIT for hours in range(4)] == [1000, 500, 250, 125]


def test_steady_use_approaches_the_half_life_over_the_logarithm_of_two() -> None:
    ledger = fold(fold(EMPTY_LEDGER, ALICE, 5, 0, HOUR), ALICE, 5, 50 * HOUR, HOUR)
    assert amount_at(ledger, ALICE, 5, 50 * HOUR, HOUR) // UNIT == 25968


def test_use_folded_every_second_is_not_lost_to_rounding() -> None:
    week = 7 * 24 * HOUR
    ledger = fold(EMPTY_LEDGER, ALICE, 0, 0, week)
    for second in range(1, 1001):
        ledger = fold(ledger, ALICE, 1, second, week)
    once = fold(fold(EMPTY_LEDGER, ALICE, 0, 0, week), ALICE, 1, 1000, week)
    assert abs(ledger.entries[0].amount - once.entries[0].amount) <= UNIT // 100


def test_the_first_fold_starts_the_clock_and_time_never_runs_backwards() -> None:
    ledger = fold(EMPTY_LEDGER, ALICE, 100, 50, HOUR)
    assert ledger.entries == (Usage(ALICE, 0, 50),)
    later = fold(ledger, ALICE, 1, 60, HOUR)
    assert fold(later, ALICE, 10**6, 55, HOUR) is later


def test_without_a_half_life_nothing_fades_and_with_one_of_zero_nothing_is_remembered() -> None:
    ledger = fold(EMPTY_LEDGER, ALICE, 0, 0, None)
    assert fold(ledger, ALICE, 3, 100, None).entries[0].amount == 300 * UNIT
    assert fold(ledger, ALICE, 3, 100, 0).entries[0].amount == 0


def test_amounts_saturate_within_64_bits() -> None:
    ledger = fold(EMPTY_LEDGER, ALICE, 0, 0, None)
    for half_life in (None, 10**9):
        assert fold(ledger, ALICE, 2**70, 10**9, half_life).entries[0].amount == 2**63 - 1
    assert fold(ledger, ALICE, -5, 10, None).entries[0].amount == 0


def test_many_keys_fold_as_each_alone() -> None:
    start = fold_all(EMPTY_LEDGER, {BOB: 0, ALICE: 0, UsageKey("q"): 0}, 0, HOUR)
    assert [entry.key for entry in start.entries] == [UsageKey("q"), ALICE, BOB]
    together = fold_all(start, {BOB: 2, ALICE: 7}, HOUR, HOUR)
    assert together == fold(fold(start, ALICE, 7, HOUR, HOUR), BOB, 2, HOUR, HOUR)


def test_a_ledger_survives_a_restart_to_the_bit() -> None:
    ledger = fold_all(fold_all(EMPTY_LEDGER, {ALICE: 0, BOB: 0}, 0, HOUR), {ALICE: 3, BOB: 9}, 1234, HOUR)
    assert decode(encode(ledger)) == ledger
    assert decode(encode(EMPTY_LEDGER)) == EMPTY_LEDGER


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "not a usage ledger"),
        (b"[]", "not a usage ledger"),
        (b'{"entries":[[["q","User","a"],1.5,0]]}', "not a usage ledger"),
        (b'{"entries":[[["q","User","a"],-1,0]]}', "the amount of .* is -1"),
        (b'{"entries":[[["q","User","b"],1,0],[["q","User","a"],1,0]]}', "comes after"),
        (b'{"entries":[[["q","User","a"],1,0],[["q","User","a"],1,0]]}', "comes after"),
    ],
)
def test_a_damaged_ledger_is_refused_with_the_problem(text: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode(text)


def test_those_of_whom_nothing_is_left_are_forgotten() -> None:
    ledger = UsageLedger((Usage(ALICE, 100, 0), Usage(BOB, 2**62, 0)))
    assert forget(ledger, HOUR, HOUR) is ledger
    assert [entry.key for entry in forget(ledger, 20 * HOUR, HOUR).entries] == [BOB]
    assert amount_at(ledger, UsageKey("elsewhere"), 5, HOUR, HOUR) == 0


def test_past_use_compares_with_shares_of_the_cluster() -> None:
    ledger = fold(fold(EMPTY_LEDGER, ALICE, 0, 0, HOUR), ALICE, 25, 40 * HOUR, HOUR)
    assert past_share(ledger.entries[0].amount, 100, HOUR) in (249_999, 250_000)
    assert past_share(5, 0, HOUR) == 0


def test_resources_are_weighed_into_one_number() -> None:
    demand = (("*", "cpu", 2000), ("a100", "gpu", 3), ("*", "memory", 5 << 30), ("*", "other", 9))
    weights = {"cpu": (1, 1), "gpu": (8000, 1), "memory": (250, 1 << 30)}
    assert weighted_units(demand, weights) == 2000 + 24_000 + 1250
