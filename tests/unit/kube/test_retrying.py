"""Which failures are tried again, when, and what a caller is told about a write that failed."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.kube import refusals
from allhands.kube.paths import Asked
from allhands.kube.retrying import IMPATIENT, Patience, is_repeatable, is_unknown, pause_seconds
from tests.depth import examples

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ASKED = Asked("list", "pods", "team")


@pytest.mark.parametrize("method", METHODS)
def test_what_never_reached_the_server_may_always_be_repeated(method: str) -> None:
    error = refusals.not_reached("https://x", "Connection refused")
    assert is_repeatable(method, error)
    assert not is_unknown(method, error)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", [refusals.answer_lost("x", "reset"), refusals.too_late("x", 1)])
def test_only_a_read_is_repeated_when_the_answer_is_lost(method: str, error: StatusError) -> None:
    assert is_repeatable(method, error) == (method == "GET")
    assert is_unknown(method, error) == (method != "GET")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422])
def test_a_decision_of_the_server_is_final_and_known(method: str, code: int) -> None:
    assert not is_repeatable(method, StatusError(code, "", ""))
    assert not is_unknown(method, StatusError(code, "", ""))


def test_a_certificate_that_is_not_trusted_will_not_be_trusted_the_next_time() -> None:
    assert not is_repeatable("GET", refusals.not_trusted("x", "self-signed"))


@settings(max_examples=examples(200))
@given(
    method=st.sampled_from(METHODS),
    code=st.integers(400, 599),
    after=st.none() | st.integers(0, 60),
    attempt=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_a_pause_is_bounded_and_never_shorter_than_asked_for(
    method: str, code: int, after: int | None, attempt: int, seed: int
) -> None:
    headers = {} if after is None else {"Retry-After": str(after)}
    error = refusals.refusal(code, b"busy", ASKED, headers)
    patience = Patience()
    pause = pause_seconds(patience, method, error, attempt, random.Random(seed))
    if pause is None:
        assert not is_repeatable(method, error) or attempt >= patience.attempts
        return
    assert (after or 0) <= pause <= (after or 0) + patience.most_seconds
    assert attempt < patience.asked_to_wait_attempts
    assert not is_unknown(method, error)
    assert pause_seconds(IMPATIENT, method, error, attempt, random.Random(seed)) is None


@settings(max_examples=examples(200))
@given(code=st.integers(400, 599), raw=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_body_becomes_a_refusal(code: int, raw: bytes) -> None:
    error = refusals.refusal(code, raw, ASKED, {"Retry-After": "soon"})
    assert error.message
    assert "\n" not in error.message


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kind":"Status","code":"many"}',
        b'{"kind":"Status","details":[1]}',
        b'{"kind":"Status","details":null}',
        b'{"kind":"Status","details":{"causes":7}}',
        b'{"kind":"Status","details":{"causes":[7]}}',
        b'{"kind":"Status","details":{"retryAfterSeconds":"late"}}',
        b'{"kind":"Status"}',
        b"[]",
        b'"x"',
        b"",
    ],
)
def test_a_status_that_is_none_does_no_harm(raw: bytes) -> None:
    error = refusals.refusal(429, raw, ASKED, {"Retry-After": "1"})
    assert (error.code, error.retry_after_seconds) == (429, 1)
    assert pause_seconds(Patience(), "GET", error, 1, random.Random(0)) is not None


def test_missing_rights_name_verb_and_resource_once() -> None:
    theirs = 'pods is forbidden: User "me" cannot list resource "pods" in API group "" in the namespace "team"'
    status = StatusError(403, "Forbidden", theirs).status()
    assert refusals.refusal(403, msgspec.json.encode(status), ASKED).message == theirs
    assert refusals.refusal(403, b"no", ASKED).message == 'list pods in namespace "team" is not allowed: no'
