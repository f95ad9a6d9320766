"""JSON with the last of duplicate keys and their paths, and Go's words for what is malformed (from a real server)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.server.gojson import MalformedError, parse

COMPLAINTS = {
    "a bare key": ("{bad", "invalid character 'b' looking for beginning of object key string"),
    "nothing": ("", "unexpected end of JSON input"),
    "an open string": ('{"a":"b', "unexpected end of JSON input"),
    "an open object": ('{"a":', "unexpected end of JSON input"),
    "an open list": ('[{"op"', "unexpected end of JSON input"),
    "something behind the value": ('{"a":1} trailing', "invalid character 't' after top-level value"),
    "a leading zero": ('{"metadata":{"name":01}}', "invalid character '1' after object key:value pair"),
    "half a literal": ('{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
    "an unknown escape": ('{"a":"\\x"}', "invalid character 'x' in string escape code"),
    "no colon": ('{"a" 1}', "invalid character '1' after object key"),
    "no comma in a list": ("[1 2]", "invalid character '2' after array element"),
    "a comma too many": ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    "no value": ('{"a":}', "invalid character '}' looking for beginning of value"),
    "a control character in a string": ('"a\nb"', "invalid character '\\n' in string literal"),
    "a number without digits": ("-x", "invalid character 'x' in numeric literal"),
    "a fraction without digits": ("1.x", "invalid character 'x' after decimal point in numeric literal"),
    "an exponent without digits": ("1ex", "invalid character 'x' in exponent of numeric literal"),
    "half a code point": ('"\\u12x4"', "invalid character 'x' in \\u hexadecimal character escape"),
    "not a number": ("NaN", "invalid character 'N' looking for beginning of value"),
}

DUPLICATES = {
    "none": ('{"a":{"b":1},"b":2}', []),
    "at the top": ('{"a":1,"a":2}', ["a"]),
    "deeper": ('{"metadata":{"name":"x","name":"y"},"data":{"a":"b","a":"c"}}', ["metadata.name", "data.a"]),
    "in a list": ('{"spec":{"containers":[{"name":"a"},{"name":"b","name":"c"}]}}', ["spec.containers[1].name"]),
    "three times is said once": ('{"a":1,"a":2,"a":3}', ["a"]),
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(("text", "complaint"), COMPLAINTS.values(), ids=COMPLAINTS)
def test_malformed(text: str, complaint: str) -> None:
    with pytest.raises(MalformedError) as refusal:
        parse(text.encode())
    assert str(refusal.value) == complaint


@pytest.mark.parametrize(("text", "paths"), DUPLICATES.values(), ids=DUPLICATES)
def test_duplicates(text: str, paths: list[str]) -> None:
    value, found = parse(text.encode())
    assert (value, found) == (json.loads(text), paths)


HALVES = {
    "the first half": ('"\\ud83d"', "\ufffd"),
    "the second half": ('"\\uDE00"', "\ufffd"),
    "the wrong way round": ('"\\ude00\\ud83d"', "\ufffd\ufffd"),
    "a half before another character": ('"\\ud83d\\u0041"', "\ufffdA"),
    "a half before a whole one": ('"\\ud83d\\ud83d\\ude00"', "\ufffd\U0001f600"),
    "in a key": ('{"\\ud800":1}', {"\ufffd": 1}),
    "both halves are one": ('"\\ud83d\\ude00"', "\U0001f600"),
    "an escaped backslash begins nothing": ('"\\\\ud83d"', "\\ud83d"),
}


@pytest.mark.parametrize(("text", "value"), HALVES.values(), ids=HALVES)
def test_half_a_surrogate_pair_is_replaced(text: str, value: Any) -> None:
    assert parse(text.encode()) == (value, [])


@given(st.lists(st.sampled_from(["\\ud83d", "\\ude00", "\\u0041", "\\\\", "ud83d", "x"])))
def test_what_was_read_can_be_written(parts: list[str]) -> None:
    value, _ = parse(f'"{"".join(parts)}"'.encode())
    assert isinstance(value, str)
    value.encode()


@given(json_values)
def test_json_reads_back(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == (value, [])


@given(st.binary())
def test_any_bytes_are_a_value_or_malformed(text: bytes) -> None:
    try:
        parse(text)
    except MalformedError as refusal:
        assert str(refusal)


@given(json_values, st.data())
def test_a_cut_text_is_malformed_or_a_value(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text)))
    try:
        parse(text[:cut].encode())
    except MalformedError as refusal:
        assert "invalid" in str(refusal) or str(refusal) == "unexpected end of JSON input"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[" * 600 + "]" * 600], ids=["lists", "maps", "closed"]
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        parse(text.encode())
