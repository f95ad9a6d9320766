"""The list of what is different from Volcano names fields that there are."""

from __future__ import annotations

from allhands.api.volcano.compatibility import DIFFERENCES, State, rows
from allhands.api.volcano.kinds import VOLCANO_KINDS


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
