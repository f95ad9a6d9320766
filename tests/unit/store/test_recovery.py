"""What is read of an object when a store begins again is what was known of it when it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.catalog import builtin_kinds
from allhands.store.disk import Kept
from allhands.store.record import make_record
from allhands.store.recovery import _Reader, selected_parts

if TYPE_CHECKING:
    from allhands.api.kinds import Kind

SELECTED = [kind for kind in builtin_kinds() if kind.selectable]


def full(kind: Kind) -> dict[str, Any]:
    """An object in which everything that its kind is selected by is said, and more besides."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "owner-uid"}
    metadata = {"name": "n", "namespace": "s", "uid": "u", "labels": {"a": "1"}, "ownerReferences": [owner]}
    document: dict[str, Any] = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    document |= {"spec": {"other": [1, {"x": None}]}, "status": {"other": "text"}, "source": {"component": "c"}}
    odd: dict[str, Any] = {"spec.hostNetwork": True, "spec.unschedulable": True, "status.succeeded": 3}
    for path in kind.selectable:
        *parents, leaf = path.split(".")
        if path == "source":
            continue
        target = document
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = odd.get(path, f"value of {path}")
    return document


@pytest.mark.parametrize("said", [True, False], ids=["all is said", "nothing is said"])
@pytest.mark.parametrize("kind", SELECTED, ids=lambda kind: f"{kind.group}/{kind.kind}")
def test_a_record_that_is_read_equals_the_one_that_was_written(kind: Kind, said: bool) -> None:
    document = full(kind)
    if not said:
        document = {name: document[name] for name in ("kind", "apiVersion", "metadata")} | {"spec": {}}
    made = make_record(kind, document, 7)
    read = _Reader(kind, kind.api_version)(made.raw, Kept("x", made.key, 7, made.raw))
    for field in ("key", "uid", "version", "raw", "labels", "fields", "owners", "is_marked"):
        assert getattr(read, field) == getattr(made, field), field


def test_an_object_that_was_stored_in_another_version_is_read_in_the_present_one() -> None:
    kind = next(kind for kind in builtin_kinds() if kind.kind == "ConfigMap")
    reader = _Reader(kind, "v2")
    renamed = msgspec.json.decode(reader.renamed(b'{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"}}'))
    assert renamed == {"kind": "ConfigMap", "apiVersion": "v2", "data": {"a": "b"}}


def test_only_the_parts_that_decide_are_decoded() -> None:
    pods = next(kind for kind in SELECTED if kind.kind == "Pod")
    parts = selected_parts(pods)
    assert parts is not None
    assert set(parts) == {"spec", "status"}
