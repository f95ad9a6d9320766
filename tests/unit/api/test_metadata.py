"""Metadata of new and of changed objects: what is refused, where, and in which words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from allhands.api.metadata import (
    validate_annotations,
    validate_metadata,
    validate_metadata_update,
    validate_standard_finalizers,
)
from allhands.api.names import dns1123_subdomain, path_segment_name

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
FINE: dict[str, Any] = {
    "name": "train-0",
    "namespace": "team",
    "uid": "u2",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "train", "example.com/tier": ""},
    "annotations": {"Example.com/Note": "any text"},
    "ownerReferences": [OWNER],
    "finalizers": ["example.com/hold"],
}


def pod(**changes: Any) -> dict[str, Any]:
    return {"metadata": {**deepcopy(FINE), **changes}}


def refusals(**changes: Any) -> list[str]:
    return [str(e) for e in validate_metadata(pod(**changes), namespaced=True, name_check=dns1123_subdomain)]


def test_ordinary_metadata_is_fine() -> None:
    assert refusals() == []
    assert validate_metadata_update(pod(), pod()) == []


NEW = [
    pytest.param(
        {"name": ""}, "metadata.name: Required value: name or generateName is required", id="a name is required"
    ),
    pytest.param({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain', id="its grammar"),
    pytest.param(
        {"generateName": "AB-"}, 'metadata.generateName: Invalid value: "AB-": a low', id="that of its prefix"
    ),
    pytest.param({"namespace": ""}, "metadata.namespace: Required value", id="a namespace is required"),
    pytest.param({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots', id="a label"),
    pytest.param({"labels": {"": "x"}}, 'metadata.labels: Invalid value: "": name part must be', id="labels have keys"),
    pytest.param({"labels": {"a": "-"}}, 'metadata.labels: Invalid value: "-": a valid label', id="labels are short"),
    pytest.param({"annotations": {"-": ""}}, 'metadata.annotations: Invalid value: "-": name part', id="annotations"),
    pytest.param(
        {"ownerReferences": [{**OWNER, "uid": ""}]},
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        id="an owner has a uid",
    ),
    pytest.param(
        {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
        'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
        id="an owner has a version",
    ),
    pytest.param(
        {"ownerReferences": [{**OWNER, "apiVersion": "v1", "kind": "Event"}]},
        'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"train","uid":"u1",'
        '"controller":true}: /v1, Kind=Event is disallowed from being an owner',
        id="an event owns nothing",
    ),
    pytest.param({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b": name part', id="finalizers"),
    pytest.param(
        {"finalizers": ["orphan", "foregroundDeletion"]},
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion '
        "cannot be both set",
        id="dependents are either orphaned or deleted",
    ),
    pytest.param(
        {"managedFields": [{"operation": "Guess"}]},
        'metadata.managedFields[0].operation: Invalid value: "Guess": must be `Apply` or `Update`',
        id="fields are managed by apply or update",
    ),
]


@pytest.mark.parametrize(("changes", "text"), NEW)
def test_new_metadata_is_refused(changes: dict[str, Any], text: str) -> None:
    assert refusals(**changes)[0].startswith(text)


def test_two_controllers_are_one_too_many() -> None:
    (text,) = refusals(ownerReferences=[OWNER, {**OWNER, "name": "other"}])
    assert text.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Job/train and Job/other'
    )


def test_a_prefix_may_end_in_a_dash() -> None:
    assert refusals(generateName="train-") == []
    dots = pod(name="a", generateName="..")
    assert validate_metadata(dots, namespaced=True, name_check=path_segment_name) == []


def test_a_cluster_wide_object_has_no_namespace() -> None:
    (error,) = validate_metadata(pod(), namespaced=False, name_check=dns1123_subdomain)
    assert str(error) == "metadata.namespace: Forbidden: not allowed on this type"


@pytest.mark.parametrize(("letter", "count"), [("a", 256 * 1024), ("é", 128 * 1024)])
def test_annotations_have_a_total_size_in_bytes(letter: str, count: int) -> None:
    assert validate_annotations({"k": letter * (count - 1)}, "p") == []
    (error,) = validate_annotations({"k": letter * count}, "p")
    assert str(error) == "p: Too long: may not be more than 262144 bytes"


CHANGED = [
    pytest.param({"name": "x"}, 'metadata.name: Invalid value: "x": field is immutable', id="the name stays"),
    pytest.param({"namespace": "x"}, 'metadata.namespace: Invalid value: "x": field is', id="the namespace stays"),
    pytest.param({"uid": "x"}, 'metadata.uid: Invalid value: "x": field is immutable', id="the uid stays"),
    pytest.param(
        {"creationTimestamp": None},
        "metadata.creationTimestamp: Invalid value: null: field is immutable",
        id="the birthday stays",
    ),
    pytest.param(
        {"deletionGracePeriodSeconds": 3},
        "metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable",
        id="grace is the server's",
    ),
    pytest.param(
        {"resourceVersion": ""},
        'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        id="an update names its version",
    ),
    pytest.param({"labels": {"a": "-"}}, 'metadata.labels: Invalid value: "-": a valid label', id="labels still count"),
    pytest.param({"finalizers": [" "]}, 'metadata.finalizers: Invalid value: " ": name part', id="finalizers, too"),
]


@pytest.mark.parametrize(("changes", "text"), CHANGED)
def test_changed_metadata_is_refused(changes: dict[str, Any], text: str) -> None:
    (error,) = validate_metadata_update(pod(**changes), pod())
    assert str(error).startswith(text)


def test_a_generation_never_goes_back() -> None:
    (error,) = validate_metadata_update(pod(generation=1), pod(generation=2))
    assert str(error) == "metadata.generation: Invalid value: 1: must not be decremented"


def test_a_dying_object_gets_no_new_finalizers_but_may_lose_them() -> None:
    dying = pod(deletionTimestamp="2026-01-02T00:00:00Z", finalizers=["a.b/c"])
    more = pod(deletionTimestamp="2026-01-02T00:00:00Z", finalizers=["a.b/c", "z.z/z", "b.b/b"])
    fewer = pod(deletionTimestamp="2026-01-02T00:00:00Z", finalizers=[])
    (error,) = validate_metadata_update(more, dying)
    assert str(error) == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"b.b/b", "z.z/z"}'
    )
    assert validate_metadata_update(fewer, dying) == []


def test_a_built_in_kind_knows_few_short_finalizers() -> None:
    (error,) = validate_standard_finalizers(["orphan", "a.b/c", "mine"], "metadata.finalizers")
    assert str(error) == (
        'metadata.finalizers[2]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
        "qualified"
    )
