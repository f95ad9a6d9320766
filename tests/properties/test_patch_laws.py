"""Laws of patches over random documents: purity, idempotence, agreement of the three kinds, order of merged lists."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allhands.api.patch import FieldMerge, PatchError, json_patch, merge_patch, strategic_merge_patch
from allhands.api.patch.element_order import ordered
from allhands.api.patch.values import copied, identity, same

SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5]) | st.text("ab~/", max_size=2)
)
KEYS = st.sampled_from(["a", "b", "c"])


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(KEYS, children, max_size=3)


VALUES = st.recursive(SCALARS, lambda inner: objects(inner) | st.lists(inner, max_size=3), max_leaves=10)
LISTLESS = objects(st.recursive(SCALARS, objects, max_leaves=10))
DOCUMENTS = objects(VALUES)
POINTERS = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-"]), max_size=3).map(
    lambda t: "".join(f"/{x}" for x in t)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
        optional={"from": POINTERS, "value": VALUES},
    ),
    max_size=4,
)


class Merging:
    """Every list merges by the key `a`."""

    def field(self, name: str) -> FieldMerge | None:
        assert not name.startswith("$")
        return FieldMerge(frozenset({"merge"}), "a", self)


def containers_of(value: Any) -> set[int]:
    """The identities of all objects and lists in a value, while it is alive."""
    if not isinstance(value, dict | list):
        return set()
    inner = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*(containers_of(each) for each in inner))


def check_pure(apply: Any, document: Any, patch: Any) -> None:
    before = deepcopy((document, patch))
    result = None
    with suppress(PatchError):
        result = apply(document, patch)
    assert not containers_of(result) & (containers_of(document) | containers_of(patch))
    assert same([document, patch], list(before))


@given(DOCUMENTS, DOCUMENTS, OPERATIONS)
def test_no_patch_changes_its_inputs_or_shares_with_its_result(document: Any, patch: Any, operations: Any) -> None:
    check_pure(merge_patch, document, patch)
    check_pure(json_patch, document, operations)
    check_pure(lambda d, p: strategic_merge_patch(d, p, Merging()), document, patch)
    check_pure(lambda d, p: strategic_merge_patch(d, p, None), document, patch)


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_patch_twice_is_the_patch_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert same(merge_patch(once, patch), once)


@given(DOCUMENTS)
def test_an_empty_patch_changes_nothing(document: Any) -> None:
    assert same(merge_patch(document, {}), document)
    assert same(json_patch(document, []), document)
    assert same(strategic_merge_patch(document, {}, Merging()), document)


@given(LISTLESS, LISTLESS)
def test_without_lists_a_strategic_patch_is_a_merge_patch(document: Any, patch: Any) -> None:
    assert same(strategic_merge_patch(document, patch, Merging()), merge_patch(document, patch))


@given(DOCUMENTS, DOCUMENTS)
def test_replacing_the_whole_yields_the_value(document: Any, value: Any) -> None:
    assert same(json_patch(document, [{"op": "replace", "path": "", "value": value}]), value)


@given(VALUES, VALUES)
def test_values_are_the_same_exactly_when_their_identities_are(left: Any, right: Any) -> None:
    assert same(left, right) == (identity(left) == identity(right))
    assert same(copied(left), left)


NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


def order_by_the_book(live: list[str], patch: list[str], merged: list[str]) -> list[str]:
    """Take turns: a live-only item comes first where the live list has it before the next item of the patch."""
    mine = [name for name in patch if name in merged]
    others = [name for name in live if name in merged and name not in patch]
    result = []
    while mine or others:
        first = bool(mine) and bool(others) and mine[0] in live and live.index(others[0]) < live.index(mine[0])
        result.append(others.pop(0) if not mine or first else mine.pop(0))
    return result


@given(NAMES, NAMES)
def test_the_order_of_a_merged_list_is_the_server_s(live: list[str], patch: list[str]) -> None:
    merged = [*live, *(name for name in patch if name not in live)]
    expected = order_by_the_book(live, patch, merged)
    assert ordered(merged, patch, live, "") == expected
    document = {"l": [{"a": name} for name in live]}
    wanted = {"$setElementOrder/l": [{"a": name} for name in patch], "l": [{"a": name} for name in patch]}
    if merged:
        result = strategic_merge_patch(document, wanted, Merging())
        assert result == {"l": [{"a": name} for name in expected]}


@given(NAMES, NAMES)
def test_an_ordered_list_keeps_both_orders_and_loses_nothing(live: list[str], order: list[str]) -> None:
    result = ordered(live, order, live, "")
    assert sorted(result) == sorted(live)
    assert [name for name in result if name in order] == [name for name in order if name in live]
    assert [name for name in result if name not in order] == [name for name in live if name not in order]
