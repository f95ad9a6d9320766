"""Selectors as text and as objects: what they match, how they print, and how wrong ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.errors import StatusError
from allhands.api.selectors import (
    EVERYTHING,
    NOTHING,
    FieldRequirement,
    label_selector,
    parse_field_selector,
    parse_label_selector,
    validate_label_selector,
)

MATCHES = [
    pytest.param("", {}, True, id="no text selects everything"),
    pytest.param("a=1", {"a": "1"}, True, id="equal"),
    pytest.param("a==1", {"a": "2"}, False, id="not equal"),
    pytest.param("a!=1", {}, True, id="an absent label differs from any value"),
    pytest.param("a=", {"a": ""}, True, id="equal to nothing"),
    pytest.param("a=", {}, False, id="absent is not empty"),
    pytest.param("a in (1,2)", {"a": "2"}, True, id="one of several"),
    pytest.param("a notin (1,2)", {"a": "2"}, False, id="none of several"),
    pytest.param("a in ()", {"a": ""}, True, id="empty parentheses hold the empty value"),
    pytest.param("a in (,x)", {"a": ""}, True, id="so does the place beside a comma"),
    pytest.param("a", {"a": ""}, True, id="exists"),
    pytest.param("!a", {"a": ""}, False, id="does not exist"),
    pytest.param("in in (in)", {"in": "in"}, True, id="words are only words"),
    pytest.param("a>5", {"a": "10"}, True, id="numbers compare as numbers"),
    pytest.param("a<5", {"a": "1_0"}, False, id="what is no number compares with none"),
    pytest.param("a=1,b", {"a": "1"}, False, id="all must hold"),
]


@pytest.mark.parametrize(("text", "labels", "expected"), MATCHES)
def test_matches(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_label_selector(text).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b = 1 ,a", "a,b=1"),
        ("a in ( y,x , y )", "a in (x,y)"),
        ("! a , b!=x", "!a,b!=x"),
        ("a>1,a<9,c==d", "a>1,a<9,c==d"),
    ],
)
def test_prints_canonically(text: str, canonical: str) -> None:
    assert str(parse_label_selector(text)) == canonical


KEY = "name part must consist of alphanumeric characters, '-', '_' or '.'"
REFUSED = [
    pytest.param("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt", id="words"),
    pytest.param("=", "found '=', expected: !, identifier, or 'end of string'", id="no key"),
    pytest.param("a,", "found '', expected: identifier after ','", id="a comma at the end"),
    pytest.param("a=1 2", "found '2', expected: ',' or 'end of string'", id="two values"),
    pytest.param("!", "unable to parse requirement: found '', expected: identifier", id="not what"),
    pytest.param("!a=1", "found '=', expected: ',' or 'end of string'", id="absent and equal"),
    pytest.param("a in 1", "unable to parse requirement: found '1' expected: '('", id="a set without parentheses"),
    pytest.param("a in (1", "unable to parse requirement: found '', expected: ',' or ')'", id="an open set"),
    pytest.param("a in (1,", "unable to parse requirement: found '', expected: ',', or identifier", id="a cut set"),
    pytest.param("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier", id="a sign"),
    pytest.param("-=1", f'unable to parse requirement: <nil>: Invalid value: "-": {KEY}', id="a bad key"),
    pytest.param(
        "a=-", 'unable to parse requirement: values[0][a]: Invalid value: "-": a valid label', id="a bad value"
    ),
    pytest.param(
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, "
        "the value must be an integer",
        id="a bound that is no number",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_wrong_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_label_selector(text)
    assert caught.value.code == 400
    assert caught.value.message.startswith(message)


def test_an_index_learns_the_values_a_label_must_have() -> None:
    selector = parse_label_selector("a=1,b in (2,3),c!=4,d")
    assert selector.equalities() == [("a", frozenset("1")), ("b", frozenset("23"))]


def test_an_object_selects_what_its_text_would() -> None:
    selector = label_selector(
        {
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "c", "operator": "DoesNotExist"},
            ],
        }
    )
    assert str(selector) == "a in (x,y),b=1,!c"
    assert selector.matches({"a": "x", "b": "1"})


def test_no_object_selects_nothing_and_an_empty_one_everything() -> None:
    assert label_selector(None) == NOTHING
    assert not NOTHING.matches({})
    assert label_selector({}) == EVERYTHING
    assert EVERYTHING.everything
    assert not NOTHING.everything


def test_an_unknown_operator_of_an_object_is_refused() -> None:
    with pytest.raises(StatusError, match='"Like" is not a valid label selector operator'):
        label_selector({"matchExpressions": [{"key": "a", "operator": "Like"}]})


WRONG_OBJECTS = [
    pytest.param(
        {"key": "a", "operator": "In"},
        "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        id="in needs values",
    ),
    pytest.param(
        {"key": "a", "operator": "Exists", "values": ["x"]},
        "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        id="exists has none",
    ),
    pytest.param(
        {"key": "a", "operator": "Gt", "values": ["1"]},
        's.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator',
        id="objects know four operators",
    ),
    pytest.param(
        {"key": "-", "operator": "Exists"},
        f's.matchExpressions[0].key: Invalid value: "-": {KEY}',
        id="keys have a grammar",
    ),
    pytest.param(
        {"key": "a", "operator": "In", "values": ["ok", "-"]},
        's.matchExpressions[0].values[1]: Invalid value: "-": a valid label',
        id="values have a grammar",
    ),
]


@pytest.mark.parametrize(("expression", "text"), WRONG_OBJECTS)
def test_a_wrong_object_is_refused_with_its_path(expression: dict[str, Any], text: str) -> None:
    (error,) = validate_label_selector({"matchExpressions": [expression]}, "s")
    assert str(error).startswith(text)


def test_field_selectors_keep_escaped_signs_as_data() -> None:
    selector = parse_field_selector(r"b!=x\,y,a==1\=2")
    assert selector.requirements == (FieldRequirement("a", "=", "1=2"), FieldRequirement("b", "!=", "x,y"))
    assert str(selector) == r"a=1\=2,b!=x\,y"
    assert selector.matches({"a": "1=2"})
    assert not selector.matches({"a": "1=2", "b": "x,y"})
    assert selector.exact("a") == "1=2"
    assert selector.exact("b") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_wrong_field_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_field_selector(text)
    assert (caught.value.code, caught.value.message) == (400, message)
