"""Types become structural schemas that say all that the types say; what a schema cannot say is refused by its path."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from allhands.api.builtin.definitions import validate_create
from allhands.api.custom import kinds_of
from allhands.api.definitions import AGE, Column, Definition, Scale, Version
from allhands.api.field_types import AnyFields, Conditions, Count, Int32, Int64, Moment, ResourceList  # noqa: TC001 (msgspec reads them)
from allhands.api.schema.of_structs import WHOLE, SchemaError, schema_of
from allhands.api.volcano.queue import QUEUE
from allhands.runtime.installing import KINDS


class Colour(enum.StrEnum):
    """Which light."""

    RED = "red"
    GREEN = "green"


class Inner(msgspec.Struct, rename="camel"):
    """What is inside."""

    first_name: str


class Outer(msgspec.Struct, rename="camel", kw_only=True):
    """What is
    outside.

    And more.
    """

    needed: Inner
    maybe: Annotated[Inner | None, Meta(description="Perhaps.")] = None
    small: Int32 = 0
    large: Int64 | None = None
    count: Count | None = None
    between: Annotated[int, Meta(ge=1, le=9, multiple_of=2)] = 4
    beyond: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    flag: bool = False
    unsaid: str = ""
    text: Annotated[str, Meta(min_length=1, max_length=3, pattern="^a")] = "ab"
    colour: Colour = Colour.GREEN
    word: Literal["x", "y"] = "y"
    level: Literal[1, 2] = 1
    items: Annotated[tuple[Inner, ...], Meta(min_length=1, max_length=5)] = ()
    names: list[str] = msgspec.field(default_factory=lambda: ["a"])
    amounts: ResourceList | None = None
    labels: dict[str, str] = {}
    anything: AnyFields | None = None
    when: Moment | None = None
    conditions: Conditions = ()
    special: Annotated[object, Meta(extra_json_schema={WHOLE: True, "type": "object", "maxProperties": 3})] = None


SCHEMA = schema_of(Outer)
FIELDS: dict[str, dict[str, Any]] = SCHEMA["properties"]


def test_documentation_comes_from_the_types() -> None:
    assert SCHEMA["description"] == "What is outside.\n\nAnd more."
    assert FIELDS["needed"]["description"] == "What is inside."
    assert FIELDS["maybe"]["description"] == "Perhaps."
    assert FIELDS["colour"]["description"] == "Which light."


def test_only_what_has_no_default_is_required() -> None:
    assert SCHEMA["required"] == ["needed"]
    assert FIELDS["needed"]["required"] == ["firstName"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("small", {"type": "integer", "format": "int32", "default": 0}),
        ("large", {"type": "integer", "format": "int64"}),
        ("count", {"type": "integer", "format": "int32", "minimum": 0}),
        ("between", {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2, "default": 4}),
        (
            "beyond",
            {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "exclusiveMinimum": True,
                "exclusiveMaximum": True,
                "default": 0.5,
            },
        ),
        ("flag", {"type": "boolean", "default": False}),
        ("unsaid", {"type": "string"}),
        ("text", {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a", "default": "ab"}),
        ("word", {"type": "string", "enum": ["x", "y"], "default": "y"}),
        ("level", {"type": "integer", "enum": [1, 2], "default": 1}),
        ("names", {"type": "array", "items": {"type": "string"}, "default": ["a"]}),
        ("labels", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("anything", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ("when", {"type": "string", "format": "date-time"}),
        ("special", {"type": "object", "maxProperties": 3}),
    ],
)
def test_a_field_says_what_its_type_says(name: str, expected: dict[str, Any]) -> None:
    assert FIELDS[name] == expected


def test_lists_maps_and_choices() -> None:
    assert (FIELDS["colour"]["enum"], FIELDS["colour"]["default"]) == (["red", "green"], "green")
    assert (FIELDS["items"]["minItems"], FIELDS["items"]["maxItems"]) == (1, 5)
    assert FIELDS["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    amount = FIELDS["amounts"]["additionalProperties"]
    assert (amount["x-kubernetes-int-or-string"], amount["anyOf"]) == (True, [{"type": "integer"}, {"type": "string"}])
    assert "type" not in amount


class Chain(msgspec.Struct):
    next: Chain | None = None


class Either(msgspec.Struct):
    value: int | str = 0


class Pair(msgspec.Struct):
    value: tuple[int, str] = (0, "")


class ByNumber(msgspec.Struct):
    value: dict[int, str] = {}


class Tagged(msgspec.Struct, tag=True):
    value: int = 0


class Mixed(msgspec.Struct):
    value: Literal["a", 1] = "a"


@pytest.mark.parametrize(
    ("type", "words"),
    [
        (Chain, r"Chain\.next: Chain holds itself"),
        (Either, r"Either\.value: a field has one type, not Int, Str"),
        (Pair, r"Pair\.value: a schema has no word for Tuple"),
        (ByNumber, r"ByNumber\.value: the keys of a map are texts"),
        (Tagged, "is written as an array or with a tag"),
        (Mixed, r"Mixed\.value: choices are all texts or all whole numbers"),
    ],
)
def test_what_a_schema_cannot_say_is_refused_by_its_path(type: type[msgspec.Struct], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema_of(type)


class Widget(msgspec.Struct):
    """A thing."""

    spec: Outer
    status: AnyFields | None = None


WIDGET = Definition(
    group="example.com",
    kind="Widget",
    plural="widgets",
    short_names=("wd",),
    versions=(
        Version(name="v1alpha1", type=Inner, stored=False, status=False, deprecation="use v1", columns=()),
        Version(
            name="v1",
            type=Widget,
            scale=Scale(".spec.small", ".status.small", ".status.selector"),
            columns=(Column("Small", ".spec.small", "integer", "How small.", 1), AGE),
            selectable=(".spec.text",),
        ),
    ),
)


def test_a_definition_says_everything_about_its_kind() -> None:
    manifest = WIDGET.manifest()
    assert manifest["metadata"]["name"] == "widgets.example.com"
    assert (manifest["spec"]["scope"], manifest["spec"]["names"]["listKind"]) == ("Namespaced", "WidgetList")
    old, new = manifest["spec"]["versions"]
    assert (old["deprecated"], old["storage"], "subresources" in old) == (True, False, False)
    assert set(new["subresources"]) == {"status", "scale"}
    assert new["selectableFields"] == [{"jsonPath": ".spec.text"}]
    assert list(new["schema"]["openAPIV3Schema"]["properties"])[:3] == ["apiVersion", "kind", "metadata"]
    assert WIDGET.resource.version == "v1"


def test_the_same_types_give_the_same_text() -> None:
    assert msgspec.json.encode(WIDGET.manifest()) == msgspec.json.encode(WIDGET.manifest())


def test_a_kind_of_kubernetes_own_groups_says_that_it_is_not_approved() -> None:
    ours = msgspec.structs.replace(WIDGET, group="scheduling.k8s.io")
    assert "unapproved" in ours.manifest()["metadata"]["annotations"]["api-approved.kubernetes.io"]


@pytest.mark.parametrize("definition", [*KINDS, WIDGET], ids=lambda it: it.name)
def test_every_definition_is_accepted_and_served(definition: Definition) -> None:
    manifest = definition.manifest()
    manifest["status"] = {"storedVersions": [definition.stored_version.name]}
    assert [str(error) for error in validate_create(manifest)] == []
    assert definition.resource in [kind.resource for kind in kinds_of(manifest)]


PARTS_OF_BUILT_IN_KINDS = ("template", "volumeClaim")
"""Their documentation is that of the built-in kinds, and ten times as long as all of ours."""


def _undocumented(schema: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name, field in (schema.get("properties") or {}).items():
        here = f"{path}.{name}"
        if name in PARTS_OF_BUILT_IN_KINDS and field.get("description"):
            continue
        if not field.get("description") and here != ".metadata":
            found.append(here)
        found += _undocumented(field, here) + _undocumented(field.get("items") or {}, f"{here}[]")
    return found


@pytest.mark.parametrize("definition", KINDS, ids=lambda it: it.name)
def test_every_field_of_our_kinds_is_documented(definition: Definition) -> None:
    for version in definition.manifest()["spec"]["versions"]:
        assert _undocumented(version["schema"]["openAPIV3Schema"], "") == []


def test_a_queue_has_volcanos_fields() -> None:
    version = QUEUE.manifest()["spec"]["versions"][0]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    assert (QUEUE.api_version, QUEUE.namespaced) == ("scheduling.volcano.sh/v1beta1", False)
    assert set(fields["spec"]["properties"]) == {
        "weight",
        "capability",
        "deserved",
        "guarantee",
        "reclaimable",
        "parent",
        "priority",
        "affinity",
        "type",
        "extendClusters",
        "dequeueStrategy",
    }
    assert set(fields["status"]["properties"]) == {
        "state",
        "unknown",
        "pending",
        "running",
        "inqueue",
        "completed",
        "reservation",
        "allocated",
        "conditions",
    }
    assert fields["status"]["required"] == ["allocated"]
