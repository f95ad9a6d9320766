"""How long simulated pods take: distributions that stay within their bounds and depend on nothing but seed and pod."""

from __future__ import annotations

import math
import random
import statistics

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.agents.addresses import Addresses
from allhands.agents.behaviour import Behaviour, Distribution, Exponential, Fixed, LogNormal, Uniform, plan

SECONDS = st.floats(0, 1e9)


@given(
    st.one_of(
        st.builds(Fixed, SECONDS),
        st.builds(lambda low, more: Uniform(low, low + more), st.floats(0, 1e8), st.floats(0, 1e8)),
        st.builds(Exponential, SECONDS, SECONDS),
        st.builds(LogNormal, SECONDS, st.floats(0, 10), SECONDS),
    ),
    st.integers(),
)
def test_draws_are_sensible_times(distribution: Distribution, seed: int) -> None:
    drawn = distribution.draw(random.Random(seed))
    assert drawn >= 0
    assert math.isfinite(drawn)


def test_distributions_have_the_middle_they_say() -> None:
    chance = random.Random(1)
    assert statistics.fmean(Exponential(50).draw(chance) for _ in range(4000)) == pytest.approx(50, rel=0.1)
    assert statistics.median(LogNormal(50, 1).draw(chance) for _ in range(4000)) == pytest.approx(50, rel=0.1)


def test_a_behaviour_can_be_written_in_a_file() -> None:
    text = b'{"run": {"type": "uniform", "least_seconds": 180, "most_seconds": 270}, "failure_rate": 0.1}'
    behaviour = msgspec.json.decode(text, type=Behaviour)
    assert behaviour == Behaviour(run=Uniform(180, 270), failure_rate=0.1)
    with pytest.raises(msgspec.ValidationError, match=r"failure_rate: 2 is not between 0 and 1"):
        msgspec.json.decode(b'{"failure_rate": 2}', type=Behaviour)


def test_what_an_annotation_says_shifts_nothing_else() -> None:
    behaviour = Behaviour(pull=Uniform(0, 10), run=Uniform(0, 100), failure_rate=0.5)
    for number in range(50):
        plain = plan(behaviour, 1, f"u{number}", 0, {}, restarts_always=False)
        told = plan(behaviour, 1, f"u{number}", 0, {"sim.allhands.dev/pull-seconds": "3"}, restarts_always=False)
        assert told == msgspec.structs.replace(plain, pull_seconds=3.0)


def test_addresses_come_back_and_run_out() -> None:
    addresses = Addresses("10.0.0.0/30")
    assert [addresses.take(), addresses.take()] == ["10.0.0.1", "10.0.0.2"]
    with pytest.raises(OverflowError, match=r"all 2 addresses of 10\.0\.0\.0/30 are in use"):
        addresses.take()
    addresses.give_back("10.0.0.1")
    assert addresses.take() == "10.0.0.1"
