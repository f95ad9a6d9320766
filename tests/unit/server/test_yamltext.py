"""YAML as the API server reads and writes it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.server.yamltext import MalformedError, dump, parse

VALUES = {
    "a date stays text": ("a: 2026-01-31", {"a": "2026-01-31"}),
    "a time of day stays text": ("a: 12:30", {"a": "12:30"}),
    "yes is true": ("a: yes", {"a": True}),
    "a quoted yes is text": ("a: 'yes'", {"a": "yes"}),
    "nothing is null": ("a:", {"a": None}),
    "numbers": ("[1, -2, 0x10, 017, 1.5, 1e3]", [1, -2, 16, 15, 1.5, 1000.0]),
    "a number as key becomes text": ("1: a", {"1": "a"}),
    "an explicit text": ("a: !!str 1", {"a": "1"}),
    "an alias": ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
    "a merge": ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
    "JSON": ('{"a": ["b", null, true]}', {"a": ["b", None, True]}),
    "an empty document": ("", None),
    "only the first of several documents": ("a: 1\n---\nb: 2", {"a": 1}),
    "a quantity": ("cpu: 500m", {"cpu": "500m"}),
}

BAD = {
    "an open list": "kind: [ConfigMap",
    "a list as key": "? [a]\n: b",
    "an unknown alias": "a: *x",
    "deep nesting": "[" * 100_000,
    "aliases of aliases": "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    ),
    "a tab for indentation": "a:\n\tb: 1",
}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii", min_codepoint=32)), inner),
    max_leaves=15,
)


@pytest.mark.parametrize(("text", "value"), VALUES.values(), ids=VALUES)
def test_the_value_of(text: str, value: Any) -> None:
    assert parse(text.encode()) == (value, [])


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_malformed(text: str) -> None:
    with pytest.raises(MalformedError, match=r"^yaml: "):
        parse(text.encode())


def test_a_duplicate_key_is_reported_with_its_line() -> None:
    assert parse(b"metadata: {name: q}\ndata: {a: b, a: c}") == (
        {"metadata": {"name": "q"}, "data": {"a": "c"}},
        ['line 2: key "a" already set in map'],
    )


@given(json_values)
def test_what_is_written_reads_back(value: Any) -> None:
    assert parse(dump(value)) == (value, [])


@given(st.binary() | st.text("[]{}:,&*!|>-\n a1'\"%@`?").map(str.encode))
def test_any_bytes_are_a_value_or_malformed(text: bytes) -> None:
    try:
        parse(text)
    except MalformedError as refusal:
        assert str(refusal).startswith("yaml: ")


def test_times_are_quoted_as_the_real_server_does() -> None:
    written = dump({"at": "2026-11-15T22:38:00Z", "count": "1", "name": "a"})
    assert written == b'at: "2026-11-15T22:38:00Z"\ncount: "1"\nname: a\n'


def test_a_large_document_without_aliases_is_read_however_deep_its_values_are() -> None:
    depth, values = 40, 30_000
    text = "".join(f"{' ' * level}a:\n" for level in range(depth)) + f"{' ' * depth}- x\n" * values
    value, complaints = parse(text.encode())
    for _ in range(depth):
        value = value["a"]
    assert (len(value), complaints) == (values, [])
