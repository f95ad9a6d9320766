"""Laws and corners of custom kinds: their shape, their kinds, their definitions' status."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.builtin.definition_schemas import validate_schema
from allhands.api.builtin.definitions import RULES, established_status
from allhands.api.custom import kinds_of
from allhands.api.kinds import Resource, ScalePlaces
from allhands.api.schema.formats import format_check
from allhands.api.schema.goregex import searcher, why_not
from allhands.api.schema.numeric import go_float
from allhands.api.schema.structural import StructuralShape
from allhands.api.schema.values import ValueSchema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "default": 1, "minimum": 0},
                "b": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "c": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}},
            },
        },
        "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "object"}}},
        "c": {"type": "object", "additionalProperties": {"type": "string", "nullable": True, "maxLength": 2}},
        "d": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "e": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
}
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "metadata", "kind", "z"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
DOCUMENTS = st.dictionaries(NAMES, JSON, max_size=6)
SHAPE = StructuralShape(SCHEMA)
VALUES = ValueSchema(SCHEMA)


@given(DOCUMENTS)
def test_the_normal_form_of_a_normal_form_is_itself(document: dict[str, Any]) -> None:
    sent = copy.deepcopy(document)
    checked = SHAPE.check(document)
    assert document == sent
    if not checked.mismatch:
        again = SHAPE.check(checked.document)
        assert (again.document, again.unknown, again.mismatch) == (checked.document, [], "")


@given(DOCUMENTS)
def test_what_was_stored_may_be_stored_again_whatever_the_schema_says_now(document: dict[str, Any]) -> None:
    checked = SHAPE.check(document)
    if not checked.mismatch:
        assert VALUES.errors(checked.document, copy.deepcopy(checked.document)) == []


KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "anyOf", "allOf", "oneOf", "not", "default", "nullable"]
    + ["pattern", "format", "additionalProperties", "maximum", "minLength"]
    + [f"x-kubernetes-{word}" for word in ("list-type", "list-map-keys", "preserve-unknown-fields", "validations")]
    + [f"x-kubernetes-{word}" for word in ("embedded-resource", "int-or-string")]
)
WORDS = st.sampled_from(["object", "array", "string", "integer", "map", "set", "(", "^x$", "a"])
SCHEMAS = st.recursive(
    SCALARS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYWORDS, inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=2)
    ),
    max_leaves=12,
)


@given(st.dictionaries(KEYWORDS, SCHEMAS, max_size=5), DOCUMENTS)
def test_any_schema_is_refused_or_can_be_used(schema: dict[str, Any], document: dict[str, Any]) -> None:
    if validate_schema(schema, "schema", has_status=False):
        return
    checked = StructuralShape(schema).check(document)
    if not checked.mismatch:
        ValueSchema(schema).errors(checked.document)


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_bottomless_nesting_is_refused() -> None:
    assert SHAPE.check({"b": {"z": nested(5000)}}).mismatch == "exceeded max depth"
    schema: Any = {"type": "object"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert [str(error) for error in validate_schema(schema, "s", has_status=False)] == [
        "s: Invalid value: exceeded max depth"
    ]


def definition(**spec: Any) -> dict[str, Any]:
    inner = {"type": "object", "properties": {"colour": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": inner}}}
    version = {"served": True, "storage": False, "schema": schema}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "scope": "Cluster",
            "versions": [
                {**version, "name": "v2", "storage": True, "subresources": {"status": {}}},
                {**version, "name": "v1", "selectableFields": [{"jsonPath": ".spec.colour"}]},
                {**version, "name": "v1alpha1", "served": False},
            ],
        }
        | spec,
    }


def test_every_served_version_is_a_kind_in_the_collection_of_the_stored_one() -> None:
    newest, older = kinds_of(definition())
    assert (newest.resource, older.resource) == (
        Resource("example.com", "v2", "widgets"),
        Resource("example.com", "v1", "widgets"),
    )
    assert (newest.storage, older.storage) == (None, newest.resource)
    assert (newest.singular, newest.short_names, newest.categories) == ("widget", ("wd",), ("all",))
    assert (newest.subresources, older.subresources) == (("status",), ())
    assert not newest.namespaced
    assert not newest.allow_unconditional_update
    assert newest.has_generation


def test_a_selectable_field_is_selected_by_its_path() -> None:
    older = kinds_of(definition())[1]
    assert older.selectable == ("spec.colour",)
    assert older.select({"spec": {"colour": "red"}}) == ("red",)


def test_a_status_that_comes_with_a_new_object_is_dropped_only_if_it_has_its_own_door() -> None:
    newest, older = kinds_of(definition())
    with_status, without = {"status": {"a": 1}}, {"status": {"a": 1}}
    newest.rules.prepare_create(with_status)
    older.rules.prepare_create(without)
    assert (with_status, without) == ({}, {"status": {"a": 1}})


def test_the_paths_of_a_scale_are_told() -> None:
    scaled = definition()
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    scaled["spec"]["versions"][0]["subresources"] = {"scale": scale}
    (kind, _) = kinds_of(scaled)
    scales = dict(kind.scales)
    assert scales.pop(kind.api_version) == ScalePlaces(("spec", "n"), ("status", "n"))
    assert set(scales.values()) == {None}
    errors = kind.rules.validate_create({"spec": {"n": -1}})
    assert [str(error) for error in errors] == [".spec.n: Invalid value: -1: should be a non-negative integer"]


def test_rules_in_cel_are_named_as_unchecked_when_the_object_is_wrong_otherwise() -> None:
    ruled = definition()
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}}}
    ruled["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    kind = kinds_of(ruled)[0]
    assert kind.rules.validate_create({"a": "x"}) == []
    assert str(kind.rules.validate_create({"a": 1})[-1]).startswith("<nil>: Invalid value: null: some validation rules")


def test_the_status_of_an_established_definition() -> None:
    new = definition()
    rules = RULES["CustomResourceDefinition"]
    rules.default(new)
    rules.prepare_create(new)
    status = established_status(new, "2026-01-01T00:00:00Z")
    assert [(each["type"], each["status"], each["reason"], each["message"]) for each in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    assert status["acceptedNames"] == new["spec"]["names"]
    assert status["storedVersions"] == ["v2"]
    new["status"] = status
    assert established_status(new, "2027-01-01T00:00:00Z") == status


def test_a_version_that_was_stored_once_must_stay() -> None:
    old = definition()
    rules = RULES["CustomResourceDefinition"]
    rules.default(old)
    rules.prepare_create(old)
    new = copy.deepcopy(old)
    new["spec"]["versions"] = [{**new["spec"]["versions"][1], "storage": True}]
    rules.prepare_update(new, old)
    assert new["status"]["storedVersions"] == ["v2", "v1"]
    assert old["status"]["storedVersions"] == ["v2"]
    (error,) = rules.validate_update(new, old)
    assert str(error).startswith('status.storedVersions[0]: Invalid value: "v2": missing from spec.versions; v2 was')


@pytest.mark.parametrize("field", ["scope", "group"])
def test_what_an_established_definition_may_not_change(field: str) -> None:
    old = definition()
    rules = RULES["CustomResourceDefinition"]
    rules.default(old)
    rules.prepare_create(old)
    old["status"] = established_status(old, "2026-01-01T00:00:00Z")
    new = copy.deepcopy(old)
    new["spec"][field] = {"scope": "Namespaced", "group": "example.org"}[field]
    value = new["spec"][field]
    assert f'spec.{field}: Invalid value: "{value}": field is immutable' in map(str, rules.validate_update(new, old))


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("^a$", "a", True, id="the whole text"),
        pytest.param("^a$", "a\n", False, id="a dollar does not look behind a line break"),
        pytest.param("[$]", "a$", True, id="a dollar in a class is a dollar"),
        pytest.param(r"^\d$", "٣", False, id="digits are ASCII"),
        pytest.param("^[[:alpha:]]+$", "ab", True, id="a named class"),
        pytest.param("^[^[:digit:]x]+$", "a1", False, id="a named class inside another"),
        pytest.param("^[]a]$", "]", True, id="a bracket that comes first is itself"),
        pytest.param("^[a[]$", "[", True, id="an opening bracket in a class is itself"),
        pytest.param(r"^\pL$", "1", False, id="a digit is no letter"),
        pytest.param(r"^\pL$", "é", True, id="letters of any script"),
        pytest.param("^(a+)+$", "a" * 5000 + "!", False, id="a pattern that would make a backtracking engine hang"),
        pytest.param("(", "1", True, id="what is no pattern says nothing about values"),
    ],
)
def test_a_pattern_means_what_it_means_in_go(pattern: str, text: str, found: bool) -> None:
    assert bool(searcher(pattern)(text)) is found


@given(st.text(alphabet="ab$^[]().*+?\\|:-dw", max_size=12), st.text(alphabet="ab]$", max_size=4))
def test_any_pattern_can_be_asked(pattern: str, text: str) -> None:
    searcher(pattern)(text)
    assert re.fullmatch(r"|error parsing regexp: .+", why_not(pattern), re.DOTALL)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *[(1.0, "1"), (100000.0, "100000"), (1e6, "1e+06"), (1234567.0, "1.234567e+06"), (0.0001, "0.0001")],
        *[(1e-5, "1e-05"), (0.5, "0.5"), (-2.5, "-2.5"), (0.0, "0"), (1e21, "1e+21"), (7, "7")],
    ],
)
def test_a_number_is_written_as_go_writes_it(number: float, text: str) -> None:
    assert go_float(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_written_as_go_writes_it_is_the_same_number(number: float) -> None:
    assert float(go_float(number)) == number


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
        ("ssn", "111-11-1111", "111111111"),
        ("hexcolor", "#fff", "#ffff"),
        ("rgbcolor", "rgb(0,255,3)", "rgb(0,256,3)"),
        ("uuid4", "9b2c7e1a-1c1a-4b1a-9b1a-1c1a4b1a9b1a", "9b2c7e1a-1c1a-3b1a-9b1a-1c1a4b1a9b1a"),
        ("bsonobjectid", "0123456789abcdef01234567", "x"),
        ("k8s-long-name", "a.b-c", "A"),
        ("ipv6", "::1", "1.2.3.4"),
    ],
)
def test_a_format_knows_its_own(name: str, good: str, bad: str) -> None:
    check = format_check(name)
    assert check is not None
    assert (check(good), check(bad)) == (True, False)


@given(st.text(max_size=12))
def test_no_format_fails_on_any_text(text: str) -> None:
    for name in (
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "isbn",
        "creditcard",
        "duration",
        "date-time",
    ):
        check = format_check(name)
        assert check is not None
        assert check(text) in (True, False)
