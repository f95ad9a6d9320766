"""Laws of resource vectors and of effective requests."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from allhands.model.pod_document import PodDocument
from allhands.model.pod_requests import effective_requests
from allhands.model.resources import EMPTY, ResourceVector

names = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-2Mi"])
vectors = st.dictionaries(names, st.integers(-100, 100)).map(ResourceVector.of)
amounts = st.dictionaries(names, st.integers(0, 5000).map(lambda millis: f"{millis}m"), max_size=3)


@given(vectors, vectors, vectors)
def test_addition_is_a_commutative_group_up_to_zeros(
    one: ResourceVector, two: ResourceVector, three: ResourceVector
) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + EMPTY == one
    difference = (one + two) - two
    assert all(difference.get(name) == one.get(name) for name in ("cpu", "memory", "pods"))


@given(vectors, st.integers(0, 6))
def test_scaling_is_repeated_addition(vector: ResourceVector, times: int) -> None:
    total = vector * 0
    for _ in range(times):
        total = total + vector
    assert vector * times == total


@given(vectors, vectors)
def test_the_larger_of_each_bounds_both_and_is_one_of_them(one: ResourceVector, other: ResourceVector) -> None:
    larger = one.max(other)
    assert larger == other.max(one)
    for name in larger:
        present = [vector[name] for vector in (one, other) if name in vector]
        assert larger[name] == max(present)
    assert set(larger) == set(one) | set(other)


@given(vectors, vectors)
def test_a_request_fits_exactly_if_nothing_is_short(request_: ResourceVector, room: ResourceVector) -> None:
    shortage = request_.shortage(room)
    assert request_.fits(room) == (shortage == EMPTY)
    assert request_.fits(room + shortage)


@given(vectors)
def test_writing_and_reading_again_gives_the_same_vector(vector: ResourceVector) -> None:
    assert ResourceVector.from_quantities(vector.to_quantities()) == vector


def container(requests: dict[str, str]) -> dict[str, Any]:
    return {"resources": {"requests": requests}}


def requests_of(spec: dict[str, Any]) -> ResourceVector:
    return effective_requests(msgspec.convert({"spec": spec}, PodDocument))


@given(st.lists(amounts, max_size=3), st.lists(st.tuples(amounts, st.booleans()), max_size=4), amounts)
def test_effective_requests_cover_every_moment_of_the_pod(
    containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]], overhead: dict[str, str]
) -> None:
    init_containers = [
        {**container(requests), **({"restartPolicy": "Always"} if stays else {})} for requests, stays in inits
    ]
    spec = {"containers": [container(requests) for requests in containers], "initContainers": init_containers}
    whole = requests_of({**spec, "overhead": overhead})
    sidecars = [requests for requests, stays in inits if stays]
    running = requests_of({"containers": [container(requests) for requests in containers + sidecars]})
    moments = [running]
    alive: list[dict[str, str]] = []
    for requests, stays in inits:
        moments.append(requests_of({"containers": [container(it) for it in [*alive, requests]]}))
        alive += [requests] if stays else []
    peak = EMPTY
    for moment in moments:
        assert moment.fits(whole)
        peak = peak.max(moment)
    # And no more than the highest moment, except that one rounding covers the sum with the overhead.
    upper = peak + requests_of({"containers": [], "overhead": overhead})
    assert whole.fits(upper)
    if not overhead:
        assert whole == peak
