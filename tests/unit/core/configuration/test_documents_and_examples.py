"""What the documentation says about policies and plugins is what the code does."""

from __future__ import annotations

import re
import sys
import types
from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.api.policy import SchedulingPolicy
from allhands.core.configuration.building import build_policy
from allhands.core.plugins import Plugin, Point
from allhands.core.policy import DEFAULT
from allhands.dialects.policy_text import policy_of_text
from tests.documents import ROOT, TABLES, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLICIES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_the_code_says(name: str) -> None:
    """To write it anew: python -m tests.documents."""
    assert written(name) == TABLES[name][1]()


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_an_example_policy_loads_without_a_warning(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = policy_of_text(text)
    assert found.warnings == ()
    assert build_policy(found.policy).configuration == found.policy
    assert text.count("#") >= 5, "an example explains itself"


def test_there_are_examples() -> None:
    assert len(POLICIES) == 3


def policy_rows() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip("`"): row for row in cells}


def test_every_field_of_a_policy_has_a_row_with_its_default() -> None:
    rows = policy_rows()
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(SchedulingPolicy)}
    assert list(rows) == list(fields)
    for name, row in rows.items():
        default = getattr(DEFAULT, fields[name], "must be said")
        if isinstance(default, tuple):
            weighed = [*default, *(DEFAULT.static_scores if name == "scores" else ())]
            words = [f"`{it[0].name}` {it[1]}" if isinstance(it, tuple) else f"`{it.name}`" for it in weighed]
            assert row[-1] == (", ".join(words) or "none")
        else:
            assert row[-1].strip("`") == str(default).lower()


def test_the_policy_in_the_documentation_loads() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "policy.md").read_text(encoding="utf-8"), re.DOTALL)
    build_policy(policy_of_text(text).policy)


RECIPE = "allhands.core.scores.mostleft"


@pytest.fixture
def recipe() -> Iterator[tuple[str, str, str]]:
    """The three pieces of code of "Write one"; the modules that they make are forgotten again."""
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8").partition("## Write one")[2]
    file, line, test = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    yield file, line, test
    sys.modules.pop(RECIPE, None)


def test_the_recipe_for_a_score_plugin_works_as_it_is_written(recipe: tuple[str, str, str]) -> None:
    file, line, test = recipe
    module = types.ModuleType(RECIPE)
    sys.modules[RECIPE] = module
    exec(compile(file, "mostleft.py", "exec"), module.__dict__)
    names: dict[str, object] = {}
    exec(compile(test, "test_mostleft.py", "exec"), names)
    for name, function in names.items():
        if name.startswith("test_"):
            assert callable(function)
            function()
    assert line.splitlines()[0] == f"from {RECIPE} import MostLeft"
    plugin = Plugin("mostleft", Point.SCORE, module.MostLeft)
    assert plugin.description == module.__doc__
    assert [it.name for it in plugin.arguments] == ["resource"]
