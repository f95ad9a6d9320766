"""What the rules of the core group refuse, row by row.

The rows are in `core_rule_tables/`; their words were written by a real kube-apiserver, not by hand.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allhands.api.builtin import core, nodes, pods
from tests.unit.api.rule_samples import pod_of, refusals, texts

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.api.rules import Rules

RULES: dict[str, Rules] = {**core.RULES, **nodes.RULES, **pods.RULES}
ABSENT = "$absent"


def _spelled_out(value: Json) -> Json:
    """`$x3` becomes `xxx`, anywhere."""
    if isinstance(value, str):
        return re.sub(r"\$x(\d+)", lambda match: "x" * int(match[1]), value)
    if isinstance(value, list):
        return [_spelled_out(item) for item in value]
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    return value


def _read(name: str) -> tuple[dict[str, Manifest], list[dict[str, Any]]]:
    path = Path(__file__).parent / "core_rule_tables" / name
    table: dict[str, Any] = _spelled_out(yaml.load(path.read_text(), Loader=yaml.CSafeLoader))
    return table["manifests"], table["rows"]


def _changed(manifest: Manifest, changes: dict[str, Json]) -> Manifest:
    manifest = copy.deepcopy(manifest)
    for path, value in changes.items():
        *parents, field = path.removesuffix("+").split(".")
        target: Any = manifest
        for parent in parents:
            target = target[int(parent)] if isinstance(target, list) else target.setdefault(parent, {})
        if value == ABSENT:
            target.pop(field, None)
        elif path.endswith("+"):
            target[field] = [*target.get(field, []), *value]
        else:
            target[field] = copy.deepcopy(value)
    return manifest


def _params(name: str, verb: str) -> list[Any]:
    manifests, rows = _read(name)
    return [pytest.param(manifests[row["kind"]], row, id=f"{row['kind']} {verb} {row['about']}") for row in rows]


def _first_lines(found: list[str]) -> list[str]:
    return [text.split("\n")[0] for text in found]


@pytest.mark.parametrize(("manifest", "row"), [*_params("pods.yaml", "with"), *_params("core.yaml", "with")])
def test_a_new_object_is_refused_in_the_servers_words(manifest: Manifest, row: dict[str, Any]) -> None:
    assert refusals(RULES[row["kind"]], _changed(manifest, row["with"])) == row["refused"]


@pytest.mark.parametrize(("manifest", "row"), _params("updates.yaml", "changed to"))
def test_a_change_is_judged_in_the_servers_words(manifest: Manifest, row: dict[str, Any]) -> None:
    rules = RULES[row["kind"]]
    old = _changed(manifest, row["from"])
    rules.default(old)
    rules.prepare_create(old)
    assert rules.validate_create(old) == [], "the row must start from a valid object"
    new = _changed(old, row["to"])
    rules.default(new)
    if row.get("part") == "status":
        rules.prepare_status(new, old)
        found = rules.validate_status(new, old)
    else:
        rules.prepare_update(new, old)
        found = rules.validate_update(new, old)
    assert _first_lines(texts(found)) == row["refused"]


def test_a_refused_change_shows_the_lines_that_differ() -> None:
    rules = RULES["Pod"]
    old, new = pod_of(command=["a"]), pod_of(command=["b"])
    for sample in (old, new):
        rules.default(sample)
    (refusal,) = texts(rules.validate_update(new, old))
    assert '-    "a"' in refusal
    assert '+    "b"' in refusal


def test_a_difference_of_thousands_of_lines_is_not_shown() -> None:
    rules = RULES["Pod"]
    small, large = (pod_of(command=["a"] * count) for count in (1, 5000))
    for sample in (small, large):
        rules.default(sample)
    (refusal,) = texts(rules.validate_update(large, small))
    assert refusal.endswith("was previously negative)\n")


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        pytest.param(manifest, kind, id=kind)
        for name in ("pods.yaml", "core.yaml")
        for kind, manifest in _read(name)[0].items()
    ],
)
def test_a_plain_object_passes_and_can_be_written_back_unchanged(manifest: Manifest, kind: str) -> None:
    rules = RULES[kind]
    stored = copy.deepcopy(manifest)
    rules.default(stored)
    rules.prepare_create(stored)
    assert rules.validate_create(stored) == []
    again = copy.deepcopy(stored)
    rules.default(again)
    rules.prepare_update(again, stored)
    assert again == stored
    assert rules.validate_update(again, stored) == []
