"""Columns of custom resources: which value a path finds, and how a cell shows it. Read off a real kube-apiserver."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from allhands.api.tables.column import FieldDoc
from allhands.api.tables.custom import custom_printer
from allhands.api.tables.jsonpath import PathSyntaxError, compile_path

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

DOCUMENT: dict[str, Any] = {
    "metadata": {
        "name": "x",
        "creationTimestamp": "2026-03-01T11:00:00Z",
        "labels": {"example.com/team": "red"},
    },
    "spec": {
        "text": "words",
        "html": "a<b>&c",
        "empty": "",
        "count": 5,
        "zero": 0,
        "share": 0.5,
        "whole": 5.0,
        "large": 12345678901234567.0,
        "small": 0.00001,
        "yes": True,
        "no": False,
        "nothing": None,
        "list": ["a", "b", "c"],
        "numbers": [3, 1, 2],
        "none": [],
        "mapping": {"b": 1, "a": "<x>", "c": [True, None, 1.5]},
        "ports": [
            {"name": "http", "port": 80, "tls": False},
            {"name": "https", "port": 443, "tls": True, "note": "it's"},
        ],
        "when": "2026-03-01T11:55:00Z",
        "wrong": "yesterday",
    },
    "status": {
        "conditions": [
            {"type": "Synced", "status": "False", "reason": "Late"},
            {"type": "Ready", "status": "True", "reason": "Fine"},
        ]
    },
}

CASES: dict[str, tuple[str, str, Any]] = {
    "a text": ("string", ".spec.text", "words"),
    "a text of the metadata": ("string", ".metadata.name", "x"),
    "an empty text is not an empty cell": ("string", ".spec.empty", ""),
    "nothing at the path is an empty cell": ("string", ".spec.absent", None),
    "nothing on the way is an empty cell": ("string", ".absent.deeper.still", None),
    "a field of a text is an empty cell": ("string", ".spec.text.more", None),
    "a number as text": ("string", ".spec.count", "5"),
    "a fraction as text": ("string", ".spec.share", "0.5"),
    "a whole fraction as text": ("string", ".spec.whole", "5"),
    "a large fraction as text": ("string", ".spec.large", "12345678901234568"),
    "a small fraction as text": ("string", ".spec.small", "1e-05"),
    "a truth as text": ("string", ".spec.yes", "true"),
    "a null as text": ("string", ".spec.nothing", "<no value>"),
    "a list as text is JSON": ("string", ".spec.list", '["a","b","c"]'),
    "a mapping as text is sorted JSON": (
        "string",
        ".spec.mapping",
        '{"a":"\\u003cx\\u003e","b":1,"c":[true,null,1.5]}',
    ),
    "a text is shown as it is, whatever it holds": ("string", ".spec.html", "a<b>&c"),
    "an integer": ("integer", ".spec.count", 5),
    "a zero is not an empty cell": ("integer", ".spec.zero", 0),
    "a fraction in an integer column is cut": ("integer", ".spec.share", 0),
    "a text in an integer column is an empty cell": ("integer", ".spec.text", None),
    "a truth in an integer column is an empty cell": ("integer", ".spec.yes", None),
    "a null in an integer column is an empty cell": ("integer", ".spec.nothing", None),
    "a fraction": ("number", ".spec.share", 0.5),
    "an integer in a number column": ("number", ".spec.count", 5),
    "a truth": ("boolean", ".spec.yes", True),
    "an untruth is not an empty cell": ("boolean", ".spec.no", False),
    "a text in a boolean column is an empty cell": ("boolean", ".spec.text", None),
    "a date is shown as an age": ("date", ".spec.when", "5m"),
    "the creation is a date like any other": ("date", ".metadata.creationTimestamp", "60m"),
    "an empty date is unknown": ("date", ".spec.empty", "<unknown>"),
    "a text that is no date is invalid": ("date", ".spec.wrong", "<invalid>"),
    "a number in a date column is an empty cell": ("date", ".spec.count", None),
    "the first of a list": ("string", ".spec.list[0]", "a"),
    "the last of a list": ("string", ".spec.list[-1]", "c"),
    "an index beyond the list is an empty cell": ("string", ".spec.list[7]", None),
    "an index into an empty list is an empty cell": ("string", ".spec.none[0]", None),
    "an index into a text is an empty cell": ("string", ".spec.text[0]", None),
    "a slice shows its first value": ("string", ".spec.list[1:]", "b"),
    "a slice with both ends": ("string", ".spec.list[1:2]", "b"),
    "a slice with a step": ("string", ".spec.list[1:3:2]", "b"),
    "all of a list shows the first value": ("string", ".spec.list[*]", "a"),
    "all of an empty list is an empty cell": ("string", ".spec.none[*]", None),
    "a field of all of a list shows the first": ("integer", ".spec.ports[*].port", 80),
    "a union shows its first value": ("string", ".spec.list[2,0]", "c"),
    "a condition by its type": ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
    "a condition by its type in single quotes": ("string", ".status.conditions[?(@.type=='Ready')].reason", "Fine"),
    "a condition with spaces around the comparison": (
        "string",
        '.status.conditions[?(@.type == "Synced")].reason',
        "Late",
    ),
    "a condition nobody set is an empty cell": ("string", '.status.conditions[?(@.type=="Lost")].status', None),
    "a filter by another type": ("string", '.status.conditions[?(@.type!="Ready")].type', "Synced"),
    "a filter over numbers": ("string", ".spec.ports[?(@.port>100)].name", "https"),
    "a filter over truths": ("string", ".spec.ports[?(@.tls==true)].name", "https"),
    "a filter for a field that is there": ("string", ".spec.ports[?(@.note)].name", "https"),
    "a filter that compares two types is an empty cell": ("string", '.spec.ports[?(@.port=="80")].name', None),
    "a filter over what is no list is an empty cell": ("string", '.spec.mapping[?(@.a=="x")].b', None),
    "a filter over nothing is an empty cell": ("string", '.spec.absent[?(@.a=="x")].b', None),
    "a quote inside a filter": ("string", '.spec.ports[?(@.note=="it\'s")].name', "https"),
    "a key with a dot, escaped": ("string", r".metadata.labels.example\.com/team", "red"),
    "a key with a dot in brackets, escaped": ("string", r".metadata.labels['example\.com/team']", "red"),
    "a dot in brackets that is not escaped parts two fields": ("string", ".metadata.labels['example.com/team']", None),
    "a key in brackets": ("string", ".spec['text']", "words"),
    "every descendant of a name": ("string", "..reason", "Late"),
}


def column(type: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": "C", "type": type, "jsonPath": path, **more}


@pytest.mark.parametrize(("type", "path", "expected"), CASES.values(), ids=CASES.keys())
def test_cell_of_a_custom_column(type: str, path: str, expected: Any) -> None:
    cells = custom_printer([column(type, path)]).row(DOCUMENT, NOW)
    assert cells == ["x", expected]
    assert repr(cells[1]) == repr(expected)  # 5 is not 5.0, and True is not 1


def test_without_columns_the_age_is_shown() -> None:
    printer = custom_printer([])
    assert [(each.name, each.type, each.format, each.priority) for each in printer.columns] == [
        ("Name", "string", "name", 0),
        ("Age", "date", "", 0),
    ]
    assert printer.row(DOCUMENT, NOW) == ["x", "60m"]


def test_a_column_without_a_description_gets_its_path() -> None:
    plain, told = custom_printer(
        [column("string", ".a"), column("integer", ".b", description="Words", priority=1, format="int32")]
    ).columns[1:]
    assert plain.description == "Custom resource definition column (in JSONPath format): .a"
    assert (told.description, told.priority, told.format, told.type) == ("Words", 1, "int32", "integer")


def test_the_name_comes_first_and_is_described_by_the_api() -> None:
    first = custom_printer([column("string", ".a")]).columns[0]
    assert first.description == FieldDoc("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name")


def test_a_malformed_column_ends_the_table() -> None:
    printer = custom_printer([column("string", ".spec.text"), column("string", ".spec[oops"), column("string", ".a")])
    assert printer.row(DOCUMENT, NOW) == ["x", "words"]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(".a[0", id="an open bracket"),
        pytest.param(".a[x]", id="a word as an index"),
        pytest.param(".a[?(@.b==1)", id="an open filter"),
        pytest.param('.a[?(@.b=="x)].c', id="an open quote in a filter"),
        pytest.param("#a", id="a sign in front"),
        pytest.param("'a", id="an open quote"),
        pytest.param("....a", id="two descents in a row"),
        pytest.param("1.2.3", id="a number with two points"),
    ],
)
def test_a_malformed_path_is_refused(path: str) -> None:
    with pytest.raises(PathSyntaxError):
        compile_path(path)
