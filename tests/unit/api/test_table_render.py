"""The Table document around the cells: exactly the fields of a real server, no more and no fewer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import pytest

from allhands.api.tables.builtin import DEFAULT, PRINTERS, printer_for
from allhands.api.tables.column import Column, Describe, FieldDoc, describe_from
from allhands.api.tables.custom import custom_printer
from allhands.api.tables.render import IncludeObject, table_document

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "resourceVersion": "7", "labels": {"a": "b"}, "managedFields": [{"manager": "m"}]},
    "spec": {"containers": [{"name": "c"}]},
    "status": {"phase": "Succeeded"},
}
NAME_DOC = FieldDoc("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name")
# Fields that the real server looks up where they are not, and so describes with nothing.
UNDESCRIBED = {("coordination.k8s.io", "LeaseCandidate"), ("node.k8s.io", "RuntimeClass")}


def repeat(definition: str, field: str) -> str:
    return f"{definition}:{field}"


@pytest.fixture(scope="module")
def describe() -> Describe:
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / "v1.36.0-local-strict"
    return describe_from(json.loads((folder / "_definitions.json").read_text())["$defs"])


def render(objects: list[dict[str, Any]], kind: str = "Pod", **more: Any) -> dict[str, Any]:
    arguments = {"describe": repeat, "list_metadata": {"resourceVersion": "9"}, **more}
    return table_document(printer_for("", kind), objects, NOW, **arguments)


def test_a_table_has_the_fields_of_a_real_one() -> None:
    table = render([POD])
    assert list(table) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "9"}
    assert table["columnDefinitions"][0] == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta:name",
        "priority": 0,
    }
    assert [set(column) for column in table["columnDefinitions"]] == [
        {"name", "type", "format", "description", "priority"}
    ] * 9


def test_a_row_of_a_finished_pod_carries_its_condition() -> None:
    (row,) = render([POD])["rows"]
    assert list(row) == ["cells", "conditions", "object"]
    assert row["conditions"][0]["type"] == "Completed"


def test_a_row_of_a_running_pod_has_no_conditions() -> None:
    (row,) = render([{**POD, "status": {"phase": "Running"}}])["rows"]
    assert list(row) == ["cells", "object"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        pytest.param("None", None, id="no object is a null"),
        pytest.param("Object", POD, id="the whole object"),
        pytest.param(
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": POD["metadata"]},
            id="all metadata, under the kind of partial metadata",
        ),
    ],
)
def test_what_a_row_includes(include: IncludeObject, expected: dict[str, Any] | None) -> None:
    (row,) = render([POD], include_object=include)["rows"]
    assert row["object"] == expected


def test_later_events_of_a_watch_repeat_no_headers() -> None:
    assert render([POD], headers=False)["columnDefinitions"] is None


@pytest.mark.parametrize(
    ("printer", "expected"),
    [
        pytest.param(printer_for("", "Pod"), [], id="of a kind with a printer"),
        pytest.param(custom_printer([]), [], id="of a custom resource"),
        pytest.param(DEFAULT, None, id="of a kind without a printer, where the real server writes null"),
    ],
)
def test_rows_of_an_empty_list(printer: Any, expected: list[Any] | None) -> None:
    table = table_document(printer, [], NOW, describe=repeat, list_metadata={"resourceVersion": "1"})
    assert table["rows"] == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {"resourceVersion": "1", "continue": "abc", "remainingItemCount": 4},
            {"resourceVersion": "1", "continue": "abc", "remainingItemCount": 4},
            id="a page says where the next one starts",
        ),
        pytest.param(
            {"resourceVersion": "1", "continue": ""}, {"resourceVersion": "1"}, id="an empty token is omitted"
        ),
        pytest.param({"resourceVersion": ""}, {}, id="no version at all"),
    ],
)
def test_metadata_of_the_list(metadata: dict[str, Any], expected: dict[str, Any]) -> None:
    assert render([], list_metadata=metadata)["metadata"] == expected


def test_the_template_generation_of_a_daemon_set_is_no_metadata_to_a_table() -> None:
    generation = {"deprecated.daemonset.template.generation": "1"}
    alone = {"metadata": {"name": "d", "annotations": generation}}
    beside = {"metadata": {"name": "d", "annotations": {**generation, "a": "b"}}}
    rows = table_document(printer_for("apps", "DaemonSet"), [alone, beside], NOW, describe=repeat, list_metadata={})[
        "rows"
    ]
    assert [row["object"]["metadata"] for row in rows] == [{"name": "d"}, {"name": "d", "annotations": {"a": "b"}}]
    assert alone["metadata"]["annotations"] == generation


@pytest.mark.parametrize(("group", "kind"), PRINTERS, ids=lambda value: value or "core")
def test_every_column_of_every_kind_is_described(group: str, kind: str, describe: Describe) -> None:
    empty = [
        column.name for column in printer_for(group, kind).columns if column.definition(describe)["description"] == ""
    ]
    assert bool(empty) == ((group, kind) in UNDESCRIBED), empty


def test_a_description_is_the_documentation_without_the_list_of_values(describe: Describe) -> None:
    text = describe("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "phase")
    assert text == "phase represents the current phase of PersistentVolumeClaim."


def test_an_unknown_definition_or_field_is_described_with_nothing(describe: Describe) -> None:
    assert describe("io.k8s.api.core.v1.Nothing", "a") == ""
    assert describe("io.k8s.api.core.v1.PodSpec", "nothing") == ""


def test_words_of_its_own_are_not_looked_up() -> None:
    assert Column("A", description="mine").definition(repeat)["description"] == "mine"
    assert Column("A", description=NAME_DOC).definition(repeat)["description"].endswith("ObjectMeta:name")
