"""Laws of selectors: printing and parsing are inverse, an index never hides a match, any text gets an answer."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.api.selectors import (
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    Operator,
    Requirement,
    parse_field_selector,
    parse_label_selector,
)

KEYS = st.sampled_from(["a", "b", "in", "example.com/c"])
VALUES = st.sampled_from(["", "1", "2", "x", "notin"])
LABELS = st.dictionaries(KEYS, VALUES)
NUMBERS = st.sampled_from(["0", "1", "2"])


def requirement(operator: Operator) -> st.SearchStrategy[Requirement]:
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        values = st.just(frozenset[str]())
    elif operator in (Operator.IN, Operator.NOT_IN):
        values = st.frozensets(VALUES, min_size=1)
    elif operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
        values = NUMBERS.map(lambda number: frozenset({number}))
    else:
        values = VALUES.map(lambda value: frozenset({value}))
    return st.builds(Requirement, KEYS, st.just(operator), values)


REQUIREMENTS = st.sampled_from(list(Operator)).flatmap(requirement)
SELECTORS = st.lists(REQUIREMENTS, max_size=4).map(
    lambda each: LabelSelector(tuple(sorted(each, key=lambda requirement: requirement.key)))
)


@given(SELECTORS)
def test_a_label_selector_survives_printing_and_parsing(selector: LabelSelector) -> None:
    assert parse_label_selector(str(selector)) == selector


@given(SELECTORS, LABELS)
def test_every_match_has_the_values_that_an_index_looks_for(selector: LabelSelector, labels: dict[str, str]) -> None:
    if selector.matches(labels):
        assert all(labels.get(key) in values for key, values in selector.equalities())


OPPOSITES = [
    (Operator.IN, Operator.NOT_IN),
    (Operator.EQUALS, Operator.NOT_EQUALS),
    (Operator.EXISTS, Operator.DOES_NOT_EXIST),
]


@given(st.sampled_from(OPPOSITES), KEYS, VALUES, LABELS)
def test_of_two_opposites_exactly_one_matches(
    pair: tuple[Operator, Operator], key: str, value: str, labels: dict[str, str]
) -> None:
    values = frozenset({value})
    assert Requirement(key, pair[0], values).matches(labels) != Requirement(key, pair[1], values).matches(labels)


@given(st.text("ab1 =!(),<>-in", max_size=12) | st.text(max_size=6))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        with suppress(StatusError):  # any other exception is a failure
            selector = parse(text)
            assert parse(str(selector)) == selector


FIELDS = st.builds(
    FieldRequirement, st.sampled_from(["a", "b.c"]), st.sampled_from(["=", "!="]), st.text("x,=\\", max_size=4)
)


@given(st.lists(FIELDS, max_size=3))
def test_a_field_selector_survives_printing_and_parsing(requirements: list[FieldRequirement]) -> None:
    parsed = parse_field_selector(str(FieldSelector(tuple(requirements))))
    assert sorted(parsed.requirements) == sorted(requirements)
