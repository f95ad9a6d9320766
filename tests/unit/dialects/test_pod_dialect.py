"""A Pod object says which group it belongs to, and to which queue."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from allhands.dialects.pods import PodRecord, read_pod, read_pod_use
from allhands.dialects.scheduling_record import record_text
from allhands.model.group_status import NO_STATUS, GroupStatus


def _read(owners: list[dict[str, Any]] | None = None, annotations: Any = None, **spec: Any) -> PodRecord:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations, "ownerReferences": owners}
    return read_pod(json.dumps({"metadata": metadata, "spec": spec}).encode())


def _owner(api_version: str, kind: str, *, controller: bool | None = True) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "1", "controller": controller}


def test_a_bare_pod_belongs_to_nobody() -> None:
    record = _read()
    assert (record.group_name, record.job_name, record.queue, record.status) == ("", "", "", NO_STATUS)
    assert record.pod.owner == ""


def test_the_native_group_that_it_names() -> None:
    assert _read(schedulingGroup={"podGroupName": "g"}).group_name == "g"
    assert _read(schedulingGroup={}).group_name == ""
    assert _read(schedulingGroup=None).group_name == ""


@pytest.mark.parametrize(
    ("owner", "job"),
    [
        (_owner("batch/v1", "Job"), "o"),
        (_owner("batch.volcano.sh/v1alpha1", "Job"), ""),
        (_owner("batch/v1", "CronJob"), ""),
        (_owner("apps/v1", "ReplicaSet"), ""),
        (_owner("batch/v1", "Job", controller=False), ""),
        (_owner("batch/v1", "Job", controller=None), ""),
    ],
)
def test_the_job_that_made_it_is_one_of_kubernetes_own(owner: dict[str, Any], job: str) -> None:
    assert _read([owner]).job_name == job


def test_only_the_managing_owner_counts() -> None:
    owners = [_owner("v1", "ConfigMap", controller=None), _owner("batch/v1", "Job")]
    record = _read(owners)
    assert (record.job_name, record.pod.owner) == ("o", "Job/o")


def test_its_queue_and_what_is_remembered_of_it() -> None:
    status = GroupStatus(admitted_at_seconds=5)
    annotations = {"allhands.dev/queue": "team", "allhands.dev/scheduling": record_text(status)}
    record = _read(annotations=annotations)
    assert (record.queue, record.status) == ("team", status)


def test_its_queue_may_be_named_in_volcanos_word_but_ours_goes_first() -> None:
    theirs = {"scheduling.volcano.sh/queue-name": "theirs"}
    assert _read(annotations=theirs).queue == "theirs"
    assert _read(annotations=theirs | {"allhands.dev/queue": "ours"}).queue == "ours"
    assert _read(annotations={"volcano.sh/queue-name": "jobs"}).queue == "jobs"


def test_what_it_asks_for_is_kept() -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]
    assert _read(containers=containers).pod.requests.entries == (("cpu", 250),)


@pytest.mark.parametrize(
    ("node", "phase", "holds"),
    [
        ("", "Pending", ()),
        ("n1", "Pending", (("cpu", 250),)),
        ("n1", "Running", (("cpu", 250),)),
        ("n1", "", (("cpu", 250),)),
        ("n1", "Unknown", (("cpu", 250),)),
        ("n1", "Succeeded", ()),
        ("n1", "Failed", ()),
    ],
)
def test_those_who_only_add_up_see_the_same_pod(node: str, phase: str, holds: Any) -> None:
    raw = json.dumps(
        {
            "metadata": {"name": "p", "namespace": "ns", "ownerReferences": [_owner("batch/v1", "Job")]},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]},
            "status": {"phase": phase},
        }
    ).encode()
    use, pod = read_pod_use(raw), read_pod(raw).pod
    assert (use.job_name, use.is_bound, use.holds.entries) == ("o", pod.is_bound, holds)
    assert bool(use.holds) == pod.holds_resources


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b'{"spec":{"schedulingGroup":"g"}}',
        b'{"metadata":{"ownerReferences":{}}}',
        b'{"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}}',
    ],
)
def test_half_written_objects_are_refused_as_a_whole(raw: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        read_pod(raw)
