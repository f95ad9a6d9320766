"""Laws of the core group's rules, on objects made by leaving out parts of known good and bad ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.builtin import core, nodes, pods
from allhands.api.errors import FieldError
from tests.depth import examples

RULES = {**core.RULES, **nodes.RULES, **pods.RULES}
_TABLES = Path(__file__).parent.parent / "unit" / "api" / "core_rule_tables"


def _objects() -> list[dict[str, Any]]:
    found = []
    for name in ("pods.yaml", "core.yaml"):
        table = yaml.load((_TABLES / name).read_text(), Loader=yaml.CSafeLoader)
        found += list(table["manifests"].values())
        for row in table["rows"]:
            sample = copy.deepcopy(table["manifests"][row["kind"]])
            for path, value in row["with"].items():
                *parents, field = path.split(".")
                target: Any = sample
                for parent in parents:
                    target = target[int(parent)] if isinstance(target, list) else target.setdefault(parent, {})
                if value != "$absent":
                    target[field] = value
            found.append(sample)
    return found


OBJECTS = _objects()


def _places(value: Any, container: Any = None, key: Any = None) -> list[tuple[Any, Any]]:
    """Every (container, key) below the top whose item can be left out."""
    found = [] if container is None else [(container, key)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for each, item in items:
        found += _places(item, value, each)
    return found


@st.composite
def thinned(draw: st.DrawFn) -> dict[str, Any]:
    sample: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(OBJECTS)))
    for _ in range(draw(st.integers(0, 3))):
        places = [(box, key) for part in sample if part != "metadata" for box, key in _places(sample[part])]
        if places:
            box, key = draw(st.sampled_from(places))
            del box[key]
    return sample


@settings(max_examples=examples(300))
@given(thinned())
def test_no_object_of_the_right_shape_makes_a_rule_fail(sample: dict[str, Any]) -> None:
    rules = RULES[sample["kind"]]
    rules.default(sample)
    rules.prepare_create(sample)
    for error in rules.validate_create(sample):
        assert isinstance(error, FieldError)
        assert str(error)


@settings(max_examples=examples(300))
@given(thinned())
def test_defaults_change_nothing_the_second_time(sample: dict[str, Any]) -> None:
    rules = RULES[sample["kind"]]
    rules.default(sample)
    once = copy.deepcopy(sample)
    rules.default(sample)
    assert sample == once


@settings(max_examples=examples(300))
@given(thinned())
def test_checks_change_nothing_and_say_the_same_again(sample: dict[str, Any]) -> None:
    rules = RULES[sample["kind"]]
    rules.default(sample)
    rules.prepare_create(sample)
    before = copy.deepcopy(sample)
    first = rules.validate_create(sample)
    assert sample == before
    assert [str(error) for error in rules.validate_create(sample)] == [str(error) for error in first]


@settings(max_examples=examples(300))
@given(thinned(), thinned())
def test_no_pair_of_one_kind_makes_an_update_rule_fail(new: dict[str, Any], old: dict[str, Any]) -> None:
    if new["kind"] != old["kind"]:
        old = copy.deepcopy(new)
    rules = RULES[new["kind"]]
    for each in (old, new):
        rules.default(each)
    rules.prepare_create(old)
    kept = copy.deepcopy(old)
    rules.prepare_update(new, old)
    rules.validate_update(new, old)
    rules.prepare_status(new, old)
    rules.validate_status(new, old)
    assert old == kept, "what is stored may never change under an update"


@pytest.mark.parametrize("kind", sorted(RULES))
def test_every_kind_has_a_sample(kind: str) -> None:
    assert any(sample["kind"] == kind for sample in OBJECTS)
