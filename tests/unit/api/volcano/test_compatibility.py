"""The list of what is different from Volcano names fields, words and keys that there are, and tests that there are."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from allhands.api.volcano.compatibility import DIFFERENCES, State, rows, words
from allhands.api.volcano.key_compatibility import KEYS
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.plugin_names import JOB_PLUGINS
from tests import volcano_proofs
from tests.documents import ROOT


def test_every_difference_is_about_a_field_that_there_is() -> None:
    known = {(row.kind, row.path) for row in rows()}
    assert set(DIFFERENCES) <= known, set(DIFFERENCES) - known


def test_every_kind_has_its_rows_and_every_row_its_field_once() -> None:
    found = [(row.kind, row.path) for row in rows()]
    assert len(found) == len(set(found))
    assert {kind for kind, _ in found} == {definition.kind for definition in VOLCANO_KINDS}


def test_what_is_a_part_of_something_unused_is_unused() -> None:
    states = {(row.kind, row.path): row.state for row in rows()}
    assert states["Numatopology", "spec.cpuDetail[*].core"] is State.KEPT
    assert states["Queue", "spec.extendClusters[].weight"] is State.KEPT
    assert states["Job", "spec.tasks[].name"] is State.SAME


def test_what_is_different_says_what() -> None:
    assert all(note and state is not State.SAME for state, note in DIFFERENCES.values())


def proofs() -> list[str]:
    """Every test that the table names."""
    named = [volcano_proofs.of_field(row.kind, row.path) for row in rows()]
    named += [volcano_proofs.of_key(row.key) for row in KEYS]
    for tests in (volcano_proofs.KINDS, volcano_proofs.FIELDS, volcano_proofs.ACTIONS, volcano_proofs.EVENTS):
        named += tests.values()
    return sorted({*named, *volcano_proofs.JOB_PLUGINS.values(), *volcano_proofs.KEYS.values()})


@functools.cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(it.name for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("test", proofs())
def test_a_test_that_the_table_names_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in functions_in(file)


def test_stories_that_the_table_names_are_told() -> None:
    """A story is a function with the decorator; without it nobody runs it."""
    for test in proofs():
        file, _, name = test.partition("::")
        if not name.startswith("test_"):
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"@STORIES\nasync def {name}(" in text, test


def test_every_word_and_plugin_has_a_row_and_a_test() -> None:
    assert {row.path for row in words() if row.kind == "action"} == set(volcano_proofs.ACTIONS)
    assert {row.path for row in words() if row.kind == "event"} == set(volcano_proofs.EVENTS)
    assert set(JOB_PLUGINS) == set(volcano_proofs.JOB_PLUGINS)


def test_what_is_different_is_shown_by_a_test_of_its_own_or_of_what_it_is_a_part_of() -> None:
    different = {(row.kind, row.path) for row in rows() if (row.kind, row.path) in DIFFERENCES}
    whole = {(kind, path) for kind, path in different if volcano_proofs.of_field(kind, path) in KINDS_ONLY}
    assert whole <= ALL_OF_IT


KINDS_ONLY = set(volcano_proofs.KINDS.values()) - set(volcano_proofs.FIELDS.values())
ALL_OF_IT = {("Numatopology", "spec"), ("Numatopology", "status")}
"""Of these the test of the kind is that of the field."""


def test_every_key_has_one_row_and_says_why_nobody_reads_it() -> None:
    assert len({row.key for row in KEYS}) == len(KEYS)
    assert all(row.note for row in KEYS if row.state is not State.SAME)
    read = {row.key for row in KEYS if row.state is not State.KEPT}
    assert set(volcano_proofs.KEYS) == read, "what is read has a test of its own, and nothing else has"


def test_no_key_of_volcano_is_read_or_written_without_a_row() -> None:
    pattern = re.compile(r"\"((?:scheduling\.|node\.)?(?:volcano\.sh|k8s\.io)/[a-zA-Z][a-zA-Z0-9-]*)\"")
    used = {
        key
        for file in sorted((ROOT / "src" / "allhands").rglob("*.py"))
        for key in pattern.findall(file.read_text(encoding="utf-8"))
        if "volcano.sh/" in key and not re.search(r"/v[0-9]", key)
    }
    known = {row.key for row in KEYS}
    assert used <= known, sorted(used - known)
