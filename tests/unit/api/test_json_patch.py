"""JSON patch: the examples of RFC 6902 and the ways in which a kube-apiserver refuses or departs from them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from allhands.api.patch import PatchError, json_patch

MOVE = {"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}
RFC = [
    pytest.param(
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
        id="A1 adding an object member",
    ),
    pytest.param(
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
        id="A2 adding an array element",
    ),
    pytest.param(
        {"baz": "qux", "foo": "bar"},
        [{"op": "remove", "path": "/baz"}],
        {"foo": "bar"},
        id="A3 removing an object member",
    ),
    pytest.param(
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
        id="A4 removing an array element",
    ),
    pytest.param(
        {"baz": "qux", "foo": "bar"},
        [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"},
        id="A5 replacing a value",
    ),
    pytest.param(
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [MOVE],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        id="A6 moving a value",
    ),
    pytest.param(
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
        id="A7 moving an array element",
    ),
    pytest.param(
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
        id="A8 testing a value with success",
    ),
    pytest.param(
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
        id="A10 adding a nested member object",
    ),
    pytest.param(
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
        id="A11 ignoring unrecognized elements",
    ),
    pytest.param(
        {"/": 9, "~1": 10},
        [{"op": "test", "path": "/~01", "value": 10}],
        {"/": 9, "~1": 10},
        id="A14 tilde escape ordering",
    ),
    pytest.param(
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
        id="A16 adding an array value",
    ),
]
SERVER = [
    pytest.param({}, [{"op": "replace", "path": "/a", "value": 1}], {"a": 1}, id="replace may add"),
    pytest.param({}, [{"op": "copy", "from": "/a", "path": "/b"}], {"b": None}, id="a copy of nothing is null"),
    pytest.param({}, [{"op": "test", "path": "/a", "value": None}], {}, id="absent passes for null"),
    pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}, id="negative counts from the end"),
    pytest.param(
        {"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}, id="the place behind the last"
    ),
    pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}, id="replace all"),
    pytest.param({"a": 1}, None, {"a": 1}, id="null is no operation"),
]


@pytest.mark.parametrize(("document", "patch", "expected"), RFC + SERVER)
def test_applies_and_leaves_its_inputs_alone(document: Any, patch: Any, expected: Any) -> None:
    before = deepcopy((document, patch))
    assert json_patch(document, patch) == expected
    assert (document, patch) == before


def test_a_value_added_by_a_patch_is_not_the_patch_s_own() -> None:
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": "/a", "value": []},
        {"op": "add", "path": "/a/-", "value": 1},
    ]
    assert json_patch({}, patch) == {"a": [1]}
    assert patch[0]["value"] == []


def test_a_copied_value_is_a_value_of_its_own() -> None:
    patch = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 1}]
    assert json_patch({"a": []}, patch) == {"a": [], "b": [1]}


REFUSED = [
    pytest.param({"op": "test", "path": "/a", "value": "1"}, "testing value /a failed: test failed", id="A9, A15"),
    pytest.param(
        {"op": "test", "path": "/a", "value": True}, "testing value /a failed: test failed", id="1 is not true"
    ),
    pytest.param({"op": "test", "path": "/a", "value": 1.0}, "testing value /a failed: test failed", id="nor 1.0"),
    pytest.param(
        {"op": "add", "path": "/x/y", "value": 1},
        'add operation does not apply: doc is missing path: "/x/y": missing value',
        id="A12",
    ),
    pytest.param(
        {"op": "add", "path": "", "value": {}},
        'add operation does not apply: doc is missing path: "": missing value',
        id="nothing is added to the whole",
    ),
    pytest.param(
        {"op": "add", "path": "/l/3", "value": 1},
        "error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
        id="no gaps in lists",
    ),
    pytest.param(
        {"op": "add", "path": "/l/x", "value": 1},
        "error in add for path: '/l/x': value was not a proper array index: 'x': "
        'strconv.Atoi: parsing "x": invalid syntax',
        id="lists have numbers",
    ),
    pytest.param(
        {"op": "remove", "path": "/z"},
        "error in remove for path: '/z': Unable to remove nonexistent key: z: missing value",
        id="remove what is there",
    ),
    pytest.param(
        {"op": "replace", "path": "/l/9", "value": 1},
        "replace operation does not apply: doc is missing key: /l/9: missing value",
        id="replace what is there, in lists",
    ),
    pytest.param(
        {"op": "move", "from": "/z", "path": "/y"},
        "error in move for path: 'z': Unable to remove nonexistent key: z: missing value",
        id="move what is there",
    ),
    pytest.param(
        {"op": "move", "from": "/o", "path": "/o/i"},
        "move operation does not apply: doc is missing destination path: /o/i: missing value",
        id="nothing moves into itself",
    ),
    pytest.param(
        {"op": "move", "path": "/y"},
        "move operation failed to decode from: operation, missing from field: missing value",
        id="move from where",
    ),
    pytest.param({"op": "remove"}, "remove operation failed to decode path: missing value", id="remove what"),
    pytest.param({"op": "spin", "path": "/a"}, "Unexpected kind: spin", id="an operation nobody knows"),
    pytest.param({"path": "/a"}, "Unexpected kind: unknown", id="an operation nobody named"),
]


@pytest.mark.parametrize(("operation", "why"), REFUSED)
def test_what_does_not_fit_is_refused_whole(operation: dict[str, Any], why: str) -> None:
    document = {"a": 1, "l": [1, 2], "o": {"i": {}}}
    with pytest.raises(PatchError) as caught:
        json_patch(document, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert (caught.value.code, caught.value.reason, caught.value.why) == (422, "Invalid", why)
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert caught.value.status()["details"]["causes"][0]["message"] == why
    assert "new" not in document


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([1], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            [{"op": "add", "path": []}],
            "json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_what_is_no_patch_is_a_bad_request(patch: Any, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({}, patch)
    assert (caught.value.code, caught.value.message) == (400, f"error decoding patch: {text}")


def test_ten_thousand_operations_are_the_most() -> None:
    test = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, [test] * 10_000) == {"a": 1}
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1}, [test] * 10_001)
    assert caught.value.code == 413
    assert caught.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_copies_cannot_grow_a_document_without_bound() -> None:
    patch = [{"op": "add", "path": "/a", "value": ["x" * 100]}, *[{"op": "copy", "from": "/a", "path": "/a/-"}] * 100]
    with pytest.raises(PatchError, match="error in our request") as refusal:
        json_patch({}, patch)
    assert refusal.value.why.startswith("Unable to complete the copy, the accumulated size increase of copy is ")
    assert refusal.value.why.endswith(", exceeding the limit 3145728")
