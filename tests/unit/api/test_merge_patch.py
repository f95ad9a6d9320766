"""Merge patch: the table of RFC 7386, appendix A, and what the API asks of a patch."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.patch import PatchError, merge_patch
from allhands.api.patch.merge_patch import merged_value

RFC = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), RFC)
def test_merges_as_the_rfc_says(target: Any, patch: Any, expected: Any) -> None:
    assert merged_value(target, patch) == expected


def test_nulls_mean_nothing_inside_a_list_either() -> None:
    assert merge_patch({}, {"a": [{"b": None, "c": 1}, None]}) == {"a": [{"c": 1}, None]}


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (True, "error decoding patch: json: cannot unmarshal bool into Go value of type map[string]interface {}"),
    ],
)
def test_only_an_object_patches_an_object(patch: Any, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        merge_patch({}, patch)
    assert (caught.value.code, caught.value.message) == (400, text)
