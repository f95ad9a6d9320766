"""Custom objects and their definitions are treated as a real kube-apiserver v1.36.3 treated them.

The files hold what was sent and what came back: errors in any order (the real one's is random), or what was stored.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.catalog import builtin_kinds
from allhands.api.custom import kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Json, Manifest
    from allhands.api.errors import FieldError

HANDLED = 'Widget in version "v1" cannot be handled as a Widget: '


def lines(name: str) -> list[Any]:
    return [msgspec.json.decode(line) for line in Path(__file__).with_name(name).read_text().splitlines()]


def definition(spec: Manifest) -> Manifest:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": spec,
    }


def widgets(schema: Manifest) -> Manifest:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [{**version, "subresources": {"status": {}}}]
    return definition({"group": "example.com", "names": names, "scope": "Namespaced", "versions": versions})


def told(errors: Sequence[FieldError]) -> list[str]:
    return sorted(f"{error.path}: {error.body()}" for error in errors)


def shown(value: Json) -> str:
    return msgspec.json.encode(value).decode()[:90]


CREATES_HEAD, *CREATES = lines("recorded_custom_creates.jsonl")
WIDGET = kinds_of(widgets(CREATES_HEAD["schema"]))[0]


@pytest.mark.parametrize("row", CREATES, ids=lambda row: shown(row["document"].get("spec", row["document"])))
def test_a_new_object_gets_the_recorded_answer(row: Manifest) -> None:
    document = {"apiVersion": "example.com/v1", "kind": "Widget", **row["document"]}
    sent = copy.deepcopy(document)
    checked = WIDGET.shape.check(document)
    assert document == sent
    if checked.mismatch:
        assert (400, [HANDLED + checked.mismatch]) == (row["code"], row["texts"])
        return
    if checked.unknown and row["strict"]:
        complaints = ", ".join(f'unknown field "{path}"' for path in checked.unknown)
        assert (400, [f"{HANDLED}strict decoding error: {complaints}"]) == (row["code"], row["texts"])
        return
    WIDGET.rules.prepare_create(checked.document)
    assert told(WIDGET.rules.validate_create(checked.document)) == row["texts"]
    if row["stored"] is not None:
        assert {name: checked.document[name] for name in ("spec", "status") if name in checked.document} == row[
            "stored"
        ]


UPDATES_HEAD, *UPDATES = lines("recorded_custom_updates.jsonl")
TIGHTENED = kinds_of(UPDATES_HEAD["definition"])[0]


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: f"{row['part']} {shown(row['value'])}")
def test_a_changed_object_gets_the_recorded_answer(row: Manifest) -> None:
    """The schema became stricter after the object was stored: what did not change is forgiven."""
    old = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": UPDATES_HEAD["before"]}
    new = TIGHTENED.shape.check({**old, row["part"]: row["value"]}).document
    validate = TIGHTENED.rules.validate_status if row["part"] == "status" else TIGHTENED.rules.validate_update
    assert told(validate(new, old)) == row["texts"]


DEFINITIONS = next(kind for kind in builtin_kinds() if kind.kind == "CustomResourceDefinition")


@pytest.mark.parametrize("row", lines("recorded_definitions.jsonl"), ids=lambda row: shown(row["spec"])[-60:])
def test_a_definition_gets_the_recorded_answer(row: Manifest) -> None:
    checked = DEFINITIONS.shape.check(definition(row["spec"]))
    assert checked.mismatch == ""
    document = checked.document
    DEFINITIONS.rules.default(document)
    DEFINITIONS.rules.prepare_create(document)
    assert told(DEFINITIONS.rules.validate_create(document)) == row["texts"]
    if row["stored"] is not None:
        assert document["spec"] == row["stored"]
