"""What a Job reads from a pod, including pods that are half written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.lifecycle.job import decode_pod
from allhands.lifecycle.job.pod import FINALIZER, INDEX, INDEX_FAILURES, NO_INDEX

if TYPE_CHECKING:
    from allhands.lifecycle.job import JobPod


def pod(status: Any = None, spec: Any = None, **metadata: Any) -> JobPod:
    document = {"metadata": {"name": "p", "uid": "u", **metadata}, "spec": spec or {}, "status": status or {}}
    return decode_pod(msgspec.json.encode(document))


def ended(*times: str | None) -> list[dict[str, Any]]:
    return [{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": it}} if it else {}} for it in times]


def test_a_pod_without_anything_is_pending_and_nobodys() -> None:
    found = pod()
    assert found.is_active
    assert not found.is_tracked
    assert found.controller is None
    assert found.index == NO_INDEX


def test_nulls_are_as_good_as_nothing() -> None:
    status = {"conditions": None, "containerStatuses": None}
    assert pod(status, finalizers=None, ownerReferences=None, annotations=None, labels=None).is_active


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "99999999999999", "²", "+1", " 1"])
def test_an_index_that_is_no_index_is_none(text: str) -> None:
    found = pod(annotations={INDEX: text, INDEX_FAILURES: text})
    assert (found.index, found.index_failures) == (NO_INDEX, 0)


def test_the_finalizer_and_the_controller_are_found_among_others() -> None:
    owners = [{"kind": "Other", "uid": "a"}, {"kind": "Job", "uid": "b", "controller": True}]
    found = pod(finalizers=["example.com/x", FINALIZER], ownerReferences=owners)
    assert found.is_tracked
    assert found.controller is not None
    assert found.controller.uid == "b"


@pytest.mark.parametrize(
    ("status", "metadata", "seconds"),
    [
        ({"phase": "Failed", "containerStatuses": ended("1970-01-01T00:00:07Z", "1970-01-01T00:00:09Z")}, {}, 9),
        (
            {
                "phase": "Failed",
                "containerStatuses": ended("1970-01-01T00:00:07Z", None),
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:05Z"}],
            },
            {},
            5,
        ),
        ({}, {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}, 30),
        ({"phase": "Failed"}, {"creationTimestamp": "1970-01-01T00:00:03Z"}, 3),
        ({"phase": "Failed"}, {}, 0),
    ],
)
def test_the_end_is_told_as_well_as_it_can_be(status: Any, metadata: Any, seconds: float) -> None:
    assert pod(status, **metadata).ended_at_seconds == seconds


def test_a_sidecar_ends_last() -> None:
    spec = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "first"}]}
    side = {"name": "side", "state": {"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T00:00:20Z"}}}
    status = {
        "phase": "Failed",
        "containerStatuses": ended("1970-01-01T00:00:07Z"),
        "initContainerStatuses": [side, {"name": "first"}],
    }
    assert pod(status, spec).ended_at_seconds == 20


def test_the_one_that_has_done_least_ranks_lowest() -> None:
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z"}]
    older = [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"}]
    node = {"nodeName": "n"}
    ordered = [
        pod(),
        pod(spec=node, creationTimestamp="1970-01-01T00:00:02Z"),
        pod(spec=node, creationTimestamp="1970-01-01T00:00:01Z"),
        pod({"phase": "Running", "containerStatuses": [{"restartCount": 3}]}, node),
        pod({"phase": "Running"}, node),
        pod({"phase": "Running", "conditions": ready}, node),
        pod({"phase": "Running", "conditions": older}, node),
    ]
    assert sorted(ordered, key=lambda it: it.removal_rank) == ordered


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"metadata\.finalizers"):
        pod(finalizers="not a list")
