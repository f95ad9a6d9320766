"""The rules of the built-in kinds outside core, row by row: what they fill in, drop and refuse.

The rows are in `rule_tables/`; their words were written by a real kube-apiserver, not by hand.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allhands.api.builtin import (
    apps,
    batch,
    coordination,
    endpointslice,
    events,
    policy,
    runtimeclass,
    scheduling,
    storage,
)

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from allhands.api.document import Json, Manifest
    from allhands.api.rules import Rules

_MODULES = (apps, batch, coordination, endpointslice, events, policy, runtimeclass, scheduling, storage)
RULES: dict[str, Rules] = {kind: rules for module in _MODULES for kind, rules in module.RULES.items()}
ABSENT = "$absent"


def _read(path: Path) -> dict[str, Any]:
    text = re.sub(r"\$x(\d+)", lambda match: "x" * int(match[1]), path.read_text())
    table: dict[str, Any] = yaml.safe_load(text)
    return table


TABLES = [_read(path) for path in sorted((Path(__file__).parent / "rule_tables").glob("*.yaml"))]
MANIFESTS: dict[str, Manifest] = {kind: manifest for table in TABLES for kind, manifest in table["manifests"].items()}


def _rows(section: str, verb: str) -> list[ParameterSet]:
    return [
        pytest.param(row, id=f"{row['kind']} {verb} {row['about']}")
        for table in TABLES
        for row in table.get(section, ())
    ]


def _changed(manifest: Manifest, changes: dict[str, Json] | None) -> Manifest:
    manifest = copy.deepcopy(manifest)
    for path, value in (changes or {}).items():
        *parents, field = path.split(".")
        section = manifest
        for parent in parents:
            section = section.setdefault(parent, {})
        section.pop(field, None)
        if value != ABSENT:
            section[field] = copy.deepcopy(value)
    return manifest


def _without_nulls(value: Json) -> Json:
    """What the schema step does before any rule runs."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _born(kind: str, changes: dict[str, Json] | None) -> Manifest:
    """The manifest after everything that happens to it before it is checked."""
    manifest: Manifest = _without_nulls(_changed(MANIFESTS[kind], changes))
    manifest["metadata"]["uid"] = "UID"
    RULES[kind].default(manifest)
    RULES[kind].prepare_create(manifest)
    return manifest


def _leaves(value: Json, path: str = "") -> dict[str, Json]:
    if isinstance(value, dict) and value:
        return {leaf: each for key in value for leaf, each in _leaves(value[key], f"{path}/{key}").items()}
    return {path.removeprefix("/"): value}


def test_every_kind_with_rules_has_a_manifest_that_is_accepted() -> None:
    assert MANIFESTS.keys() == RULES.keys()
    for kind, rules in RULES.items():
        assert rules.validate_create(_born(kind, None)) == []


@pytest.mark.parametrize("row", _rows("default", "fills in"))
def test_defaults(row: dict[str, Any]) -> None:
    leaves = _leaves(_born(row["kind"], row.get("with")))
    assert {path: leaves.get(path) for path in row["filled"]} == row["filled"]
    assert not set(row.get("dropped", ())) & leaves.keys()


@pytest.mark.parametrize("row", _rows("default", "leaves alone"))
def test_defaults_of_a_defaulted_object_change_nothing(row: dict[str, Any]) -> None:
    born = _born(row["kind"], row.get("with"))
    again = copy.deepcopy(born)
    RULES[row["kind"]].default(again)
    assert again == born


@pytest.mark.parametrize("row", _rows("create", "refuses"))
def test_create(row: dict[str, Any]) -> None:
    errors = RULES[row["kind"]].validate_create(_born(row["kind"], row.get("with")))
    assert [str(error) for error in errors] == row["errors"]


@pytest.mark.parametrize("row", _rows("update", "judges a change of"))
def test_update(row: dict[str, Any]) -> None:
    rules = RULES[row["kind"]]
    old = _born(row["kind"], row.get("from"))
    before = copy.deepcopy(old)
    new = _changed(old, row["to"])
    rules.default(new)
    rules.prepare_update(new, old)
    assert [str(error) for error in rules.validate_update(new, old)] == row["errors"]
    assert old == before


@pytest.mark.parametrize("row", _rows("status", "judges a status with"))
def test_status(row: dict[str, Any]) -> None:
    rules = RULES[row["kind"]]
    old = _born(row["kind"], row.get("with"))
    old["status"] = _without_nulls(row.get("from") or {})
    new = copy.deepcopy(old)
    new["status"] = _without_nulls(row["to"])
    rules.prepare_status(new, old)
    assert [str(error) for error in rules.validate_status(new, old)] == row["errors"]


@pytest.mark.parametrize("kind", sorted(RULES))
def test_an_update_that_changes_nothing_is_accepted(kind: str) -> None:
    old = _born(kind, None)
    new = copy.deepcopy(old)
    RULES[kind].default(new)
    RULES[kind].prepare_update(new, old)
    assert new == old
    assert RULES[kind].validate_update(new, old) == []
    assert RULES[kind].validate_status(new, old) == []
