"""Requirements and selectors against labels, as Kubernetes decides it."""

from __future__ import annotations

import msgspec
import pytest

from allhands.model.selector import (
    EVERYTHING,
    LabelSelector,
    LabelSelectorDocument,
    Requirement,
    parse_int64,
    selector_of,
)

LABELS = {"app": "web", "size": "7", "empty": ""}


@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [
        (Requirement("app", "In", ("db", "web")), True),
        (Requirement("app", "In", ("db",)), False),
        (Requirement("none", "In", ("web",)), False),
        (Requirement("none", "In", ("",)), False),
        (Requirement("empty", "In", ("",)), True),
        (Requirement("app", "NotIn", ("db",)), True),
        (Requirement("app", "NotIn", ("web",)), False),
        (Requirement("none", "NotIn", ("web",)), True),
        (Requirement("app", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("app", "DoesNotExist"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("size", "Gt", ("6",)), True),
        (Requirement("size", "Gt", ("7",)), False),
        (Requirement("size", "Lt", ("8",)), True),
        (Requirement("size", "Lt", ("7",)), False),
        (Requirement("app", "Gt", ("0",)), False),
        (Requirement("none", "Lt", ("9",)), False),
        (Requirement("size", "Gt", ("1", "2")), False),
        (Requirement("app", "Like", ("web",)), False),
    ],
    ids=str,
)
def test_a_requirement_against_labels(requirement: Requirement, wanted: bool) -> None:
    assert requirement.matches(LABELS) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("007", 7),
        ("-7", -7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None),
        ("0" * 5000 + "3", 3),
        ("9" * 5000, None),
        ("", None),
        ("+", None),
        (" 1", None),
        ("1\n", None),
        ("1_000", None),
        ("1.0", None),
        ("0x1", None),
        ("٣", None),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, wanted: int | None) -> None:
    assert parse_int64(text) == wanted


@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [
        (Requirement("a.b/c", "Exists"), True),
        (Requirement("c", "In", ("",)), True),
        (Requirement("c", "In"), False),
        (Requirement("c", "NotIn"), False),
        (Requirement("c", "Exists", ("x",)), False),
        (Requirement("c", "Gt", ("1",)), True),
        (Requirement("c", "Gt", ("one",)), False),
        (Requirement("c", "Gt", ("-1",)), False),
        (Requirement("c", "Lt", ("1", "2")), False),
        (Requirement("c", "Like"), False),
        (Requirement("", "Exists"), False),
        (Requirement("/c", "Exists"), False),
        (Requirement("a/b/c", "Exists"), False),
        (Requirement("Upper/c", "Exists"), False),
        (Requirement("c" * 63, "Exists"), True),
        (Requirement("c" * 64, "Exists"), False),
        (Requirement("c", "In", ("v" * 64,)), False),
        (Requirement("c", "NotIn", ("not a label value",)), False),
    ],
    ids=str,
)
def test_what_a_server_can_parse(requirement: Requirement, wanted: bool) -> None:
    assert requirement.is_valid is wanted


def test_a_selector_wants_all_of_its_pairs_and_expressions() -> None:
    selector = LabelSelector.of({"size": "7", "app": "web"}, [Requirement("tier", "DoesNotExist")])
    assert selector.match_labels == (("app", "web"), ("size", "7"))
    assert selector.matches(LABELS)
    assert not selector.matches({**LABELS, "tier": "1"})
    assert not selector.matches({"app": "web"})
    assert selector.keys == {"app", "size", "tier"}
    assert not selector.is_empty


def test_an_empty_selector_matches_everything() -> None:
    assert EVERYTHING.is_empty
    assert EVERYTHING.matches({})
    assert EVERYTHING.keys == frozenset()


@pytest.mark.parametrize(
    "selector",
    [
        LabelSelector.of(None, [Requirement("app", "NotIn")]),
        LabelSelector.of(None, [Requirement("size", "Gt", ("1",))]),
        LabelSelector.of({"none": "not a label value"}),
    ],
    ids=["no values", "numbers are for nodes only", "a value that no label has"],
)
def test_a_selector_that_cannot_be_parsed_matches_nothing(selector: LabelSelector) -> None:
    assert not selector.is_valid
    assert not selector.matches({**LABELS, "none": "not a label value"})


def test_a_condition_is_added_once() -> None:
    added = EVERYTHING.with_requirement(Requirement("a", "Exists"))
    assert added == LabelSelector((), (Requirement("a", "Exists"),))
    assert added.with_requirement(Requirement("a", "Exists")) is added


def test_a_selector_is_read_from_its_json_and_an_absent_one_stays_absent() -> None:
    document = msgspec.json.decode(
        b'{"matchLabels":{"b":"2","a":"1"},"matchExpressions":[{"key":"c","operator":"Exists","values":null}]}',
        type=LabelSelectorDocument,
    )
    assert selector_of(document) == LabelSelector((("a", "1"), ("b", "2")), (Requirement("c", "Exists"),))
    assert selector_of(None) is None
    nulls = msgspec.json.decode(b'{"matchLabels":null,"matchExpressions":null}', type=LabelSelectorDocument)
    assert selector_of(nulls) == EVERYTHING


def test_a_selector_of_the_wrong_shape_is_refused_with_the_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.matchExpressions\[0\]\.values"):
        msgspec.json.decode(b'{"matchExpressions":[{"key":"a","values":"x"}]}', type=LabelSelectorDocument)
