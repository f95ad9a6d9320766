"""docs/annotations.md has a row for every annotation in the code, and no other."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from allhands.agents import behaviour
from allhands.api import annotation_names
from allhands.dialects import annotations
from allhands.lifecycle.job_flow import documents as flows
from allhands.lifecycle.volcano_job import names

DOC = (Path(__file__).parents[3] / "docs" / "annotations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \|", DOC, re.MULTILINE)


def _in_code(module: ModuleType) -> set[str]:
    return {
        value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch(r"(sim\.)?allhands\.dev/.+", value)
    }


def test_there_is_a_row_for_each_and_no_row_too_many() -> None:
    modules = (annotation_names, annotations, behaviour, flows, names)
    assert sorted(ROWS) == sorted(set().union(*map(_in_code, modules)))


def test_no_row_is_empty() -> None:
    for line in DOC.splitlines():
        if line.startswith("| `"):
            assert all(cell.strip() for cell in line.strip("|").split("|")[1:3]), line


@pytest.mark.parametrize("text", re.findall(r"^\| `allhands\.dev/expected-duration` .*\| (.*) \|$", DOC, re.MULTILINE))
def test_the_examples_of_durations_can_be_read(text: str) -> None:
    assert [annotations.duration_seconds("it", it) for it in re.findall("`([^`]+)`", text)] == [
        5400,
        2700,
        90,
        90,
        172_800,
    ]
