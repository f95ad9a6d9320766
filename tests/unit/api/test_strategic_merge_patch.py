"""Strategic merge patch over a small schema of a pod: directives, merge keys, order, refusals.

Expected lists and texts are those that the server's own code gives for the same inputs.
"""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.patch import FieldMerge, PatchError, strategic_merge_patch


class Fields:
    """A schema by hand."""

    def __init__(self, **fields: FieldMerge) -> None:
        self._fields = fields

    def field(self, name: str) -> FieldMerge | None:
        return self._fields.get(name)


MERGE = frozenset({"merge"})
CONTAINER = Fields(env=FieldMerge(MERGE, "name"), ports=FieldMerge(MERGE, "containerPort"))
POD = Fields(
    finalizers=FieldMerge(MERGE),
    containers=FieldMerge(MERGE, "name", CONTAINER),
    volumes=FieldMerge(frozenset({"merge", "retainKeys"}), "name"),
    keyless=FieldMerge(MERGE),
    whole=FieldMerge(frozenset({"replace"})),
)


def named(names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


APPLIED = [
    pytest.param(
        {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
        {"containers": [{"name": "a", "image": "2"}]},
        {"containers": [{"name": "a", "image": "2"}, {"name": "b"}]},
        id="items merge by key",
    ),
    pytest.param(
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "Y"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "Y"}, {"name": "X", "value": "1"}]}]},
        id="so do lists inside items",
    ),
    pytest.param(
        {"containers": [{"name": "a", "ports": [{"containerPort": 1, "p": 1}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": True}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": True}, {"containerPort": 1, "p": 1}]}]},
        id="keys of another type are other keys",
    ),
    pytest.param(
        {"containers": named("abc")},
        {"containers": [{"name": "b", "$patch": "delete"}]},
        {"containers": named("ac")},
        id="an item is deleted",
    ),
    pytest.param(
        {"containers": named("abc")},
        {"containers": [{"$patch": "replace"}, {"name": "d"}]},
        {"containers": named("d")},
        id="a list is replaced",
    ),
    pytest.param({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}, {"m": {"b": 2}}, id="a map is replaced"),
    pytest.param({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}, id="a map is emptied"),
    pytest.param({}, {"m": {"$patch": "delete"}}, {}, id="nothing is deleted from nothing"),
    pytest.param({"whole": {"a": 1}}, {"whole": {"b": 2}}, {"whole": {"b": 2}}, id="the schema may say replace"),
    pytest.param({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}, id="other lists are replaced"),
    pytest.param({"a": 1, "b": {"c": 1}}, {"a": None, "b": {"c": None}}, {"b": {}}, id="null removes"),
    pytest.param(
        {}, {"m": {"a": None, "l": [{"b": None}]}}, {"m": {"l": [{}]}}, id="null of what is not there means nothing"
    ),
    pytest.param(
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        id="only the kept keys are kept",
    ),
    pytest.param(
        {"finalizers": ["x", "y"]}, {"finalizers": ["z", "x"]}, {"finalizers": ["z", "x", "y"]}, id="a set grows"
    ),
    pytest.param(
        {"finalizers": ["x", "y"]},
        {"$deleteFromPrimitiveList/finalizers": ["x", "q"]},
        {"finalizers": ["y"]},
        id="and shrinks",
    ),
    pytest.param({"a": 1}, None, {"a": 1}, id="null changes nothing"),
]


@pytest.mark.parametrize(("document", "patch", "expected"), APPLIED)
def test_applies(document: Any, patch: Any, expected: Any) -> None:
    assert strategic_merge_patch(document, patch, POD) == expected


ORDERED = [
    pytest.param("ab", "cb", None, "cab", id="items of the patch keep the patch's order"),
    pytest.param("as", "c", "ac", "acs", id="a new item goes before a foreign one"),
    pytest.param("asb", "-bc", "ac", "asc", id="but takes the place of one that is removed"),
    pytest.param("asb", "", "ba", "sba", id="a foreign item stays before what was behind it"),
    pytest.param("sab", "", "ba", "sba", id="or in front"),
]


@pytest.mark.parametrize(("live", "patch", "order", "expected"), ORDERED)
def test_orders_as_the_server_does(live: str, patch: str, order: str | None, expected: str) -> None:
    changes: dict[str, Any] = {}
    if patch:
        gone = patch[1] if patch.startswith("-") else ""
        items = [{"name": n, "$patch": "delete"} if n == gone else {"name": n} for n in patch.removeprefix("-")]
        changes["containers"] = items
    if order is not None:
        changes["$setElementOrder/containers"] = named(order)
    assert strategic_merge_patch({"containers": named(live)}, changes, POD) == {"containers": named(expected)}


def test_a_set_follows_the_wanted_order() -> None:
    patch = {"$setElementOrder/finalizers": ["y", "z", "x"], "finalizers": ["z"]}
    assert strategic_merge_patch({"finalizers": ["x", "s", "y"]}, patch, POD) == {"finalizers": ["s", "y", "z", "x"]}


NO_KEY = "map: map[image:i] does not contain declared merge key: name"
REFUSED = [
    pytest.param({"containers": [{"image": "i"}]}, 500, NO_KEY, id="an item without its key"),
    pytest.param({"keyless": [{"a": 1}]}, 500, "cannot merge lists without merge key for struct", id="no key at all"),
    pytest.param(
        {"m": {"$patch": "shred"}},
        500,
        "unknown patch type: shred in map: map[$patch:shred]",
        id="an unknown directive",
    ),
    pytest.param(
        {"containers": [{"$patch": "merge"}]}, 500, "merging lists cannot yet be specified in the patch", id="merge"
    ),
    pytest.param({"$retainKeys": "m"}, 400, "invalid patch format of retainKeys", id="kept keys are a list"),
    pytest.param(
        {"$retainKeys": [], "m": 1}, 400, "invalid patch format of retainKeys", id="and name all that changes"
    ),
    pytest.param(
        {"$deleteFromPrimitiveList": []}, 400, "invalid patch format of primitive list", id="delete from what"
    ),
    pytest.param({"$setElementOrder": []}, 400, "invalid patch format of setElementOrder list", id="order what"),
    pytest.param(
        {"$setElementOrder/containers": {}},
        500,
        "expected a []interface {}, but received a map[string]interface {}",
        id="an order is a list",
    ),
    pytest.param(
        {"$setElementOrder/finalizers": ["x"], "finalizers": ["q"]},
        500,
        "The order in patch list:\n[q]\n doesn't match $setElementOrder list:\n[x]\n",
        id="an order names what changes",
    ),
    pytest.param(
        {"finalizers": [1]}, 500, "list element types are not identical: [[x y] [1]]", id="items of one list are alike"
    ),
    pytest.param({"finalizers": [[]]}, 422, "lists of lists are not supported", id="no lists in lists"),
    pytest.param(
        [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}", id="a patch is an object"
    ),
]


@pytest.mark.parametrize(("patch", "code", "why"), REFUSED)
def test_refuses(patch: Any, code: int, why: str) -> None:
    document = {"containers": named("a"), "finalizers": ["x", "y"], "m": {}, "keyless": [{"a": 1}]}
    with pytest.raises(PatchError) as caught:
        strategic_merge_patch(document, patch, POD)
    assert (caught.value.code, caught.value.why) == (code, why)
