"""Resource vectors: units, absent against zero, and the questions asked of them."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from allhands.model.quantity import QuantityError
from allhands.model.resources import EMPTY, MAX_UNITS, ResourceVector, text_of_units


def vector(**amounts: int) -> ResourceVector:
    return ResourceVector.of(amounts)


def test_cpu_counts_in_millis_and_everything_else_in_whole_units() -> None:
    read = ResourceVector.from_quantities(
        {"nvidia.com/gpu": "8", "memory": "1.5Gi", "cpu": "2500m", "pods": 110, "ephemeral-storage": "100m"}
    )
    assert dict(read.entries) == {
        "cpu": 2500,
        "ephemeral-storage": 1,
        "memory": 1610612736,
        "nvidia.com/gpu": 8,
        "pods": 110,
    }


def test_absent_and_zero_are_different() -> None:
    zero, absent = ResourceVector.from_quantities({"cpu": "0"}), ResourceVector.from_quantities({})
    assert zero != absent
    assert "cpu" in zero
    assert "cpu" not in absent
    assert absent.get("cpu") == 0
    with pytest.raises(KeyError):
        absent["cpu"]
    assert zero + absent == zero


def test_a_missing_map_is_an_empty_vector() -> None:
    assert ResourceVector.from_quantities(None) == EMPTY


def test_amounts_too_large_for_64_bits_are_clamped() -> None:
    read = ResourceVector.from_quantities({"cpu": "1E", "memory": "9223372036854775808", "x": "-1e30"})
    assert set(dict(read.entries).values()) == {MAX_UNITS, -MAX_UNITS}


def test_a_malformed_amount_is_refused_with_the_name_of_its_resource() -> None:
    with pytest.raises(QuantityError, match=r"^memory: unable to parse quantity's suffix$"):
        ResourceVector.from_quantities({"cpu": "1", "memory": "1K"})


def test_a_vector_is_written_as_people_expect_each_resource() -> None:
    amounts = {"cpu": 1500, "memory": 3 << 30, "hugepages-2Mi": 4 << 20, "nvidia.com/gpu": 8, "ephemeral-storage": 5}
    assert ResourceVector.of(amounts).to_quantities() == {
        "cpu": "1500m",
        "memory": "3Gi",
        "hugepages-2Mi": "4Mi",
        "nvidia.com/gpu": "8",
        "ephemeral-storage": "5",
    }


@pytest.mark.parametrize(
    "entries", [(("b", 1), ("a", 1)), (("a", 1), ("a", 2)), (("", 1),)], ids=["unsorted", "repeated", "without a name"]
)
def test_entries_that_are_not_sorted_and_distinct_are_refused(entries: tuple[tuple[str, int], ...]) -> None:
    with pytest.raises(ValueError, match="sorted, distinct and not empty"):
        ResourceVector(entries)


@pytest.mark.parametrize(
    ("request_", "room", "fits", "shortage"),
    [
        (vector(cpu=1), vector(cpu=1), True, EMPTY),
        (vector(cpu=2), vector(cpu=1), False, vector(cpu=1)),
        (vector(gpu=0), EMPTY, True, EMPTY),
        (vector(gpu=1), EMPTY, False, vector(gpu=1)),
        (vector(cpu=0), vector(cpu=-5), True, EMPTY),
        (vector(cpu=1), vector(cpu=-5), False, vector(cpu=6)),
        (EMPTY, EMPTY, True, EMPTY),
    ],
    ids=[
        "an exact fit fits",
        "one too many does not",
        "asking for zero of what is not there fits",
        "asking for what is not there does not",
        "asking for zero fits an overfull room",
        "an overfull room lacks its debt too",
        "nothing fits nowhere",
    ],
)
def test_fitting_into_a_room(
    request_: ResourceVector, room: ResourceVector, fits: bool, shortage: ResourceVector
) -> None:
    assert request_.fits(room) is fits
    assert request_.shortage(room) == shortage


def test_limits_bind_only_what_they_list() -> None:
    use = vector(cpu=5, memory=7)
    assert use.within(EMPTY)
    assert use.within(vector(cpu=5))
    assert not use.within(vector(cpu=4))
    assert not use.within(vector(cpu=5, memory=0))
    assert EMPTY.within(vector(cpu=0))


def test_the_larger_of_each_keeps_what_only_one_has() -> None:
    assert vector(cpu=1, memory=9).max(vector(cpu=3, gpu=-2)) == vector(cpu=3, memory=9, gpu=-2)


def test_arithmetic() -> None:
    assert vector(cpu=1) + vector(cpu=2, gpu=1) == vector(cpu=3, gpu=1)
    assert vector(cpu=1) - vector(cpu=2, gpu=1) == vector(cpu=-1, gpu=-1)
    assert vector(cpu=2, gpu=0) * 3 == vector(cpu=6, gpu=0)


@pytest.mark.parametrize(
    ("use", "share", "resource"),
    [
        (vector(cpu=1, memory=5), Fraction(1, 2), "memory"),
        (vector(cpu=4, memory=4), Fraction(2, 5), "cpu"),
        (vector(gpu=1), Fraction(1), "gpu"),
        (vector(gpu=0), Fraction(0), ""),
        (EMPTY, Fraction(0), ""),
    ],
    ids=["largest wins", "a tie goes to the first name", "a resource without a total", "unused", "empty"],
)
def test_dominant_share(use: ResourceVector, share: Fraction, resource: str) -> None:
    assert use.dominant_share(vector(cpu=10, memory=10)) == (share, resource)


def test_a_vector_survives_a_dump() -> None:
    original = vector(cpu=1, memory=2)
    assert msgspec.json.decode(msgspec.json.encode(original), type=ResourceVector) == original


@pytest.mark.parametrize(
    ("name", "units", "text"),
    [
        ("cpu", 57_600, "57.6"),
        ("cpu", 57_000, "57"),
        ("cpu", 20, "0.02"),
        ("cpu", 1_005, "1.005"),
        ("cpu", 0, "0"),
        ("memory", 3 << 29, "1536Mi"),
        ("nvidia.com/gpu", 100, "100"),
    ],
)
def test_cpu_is_told_in_one_unit_in_sentences(name: str, units: int, text: str) -> None:
    assert text_of_units(name, units) == text
    assert ResourceVector.from_quantities({name: text})[name] == units
