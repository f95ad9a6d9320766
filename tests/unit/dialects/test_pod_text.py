"""Reading pods with a memory: nothing that a pod is read from is left out of the key, and no object is kept for it."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest

from allhands.dialects import pod_text
from allhands.dialects.pods import PodReader
from allhands.model import pod_document
from allhands.model.pod_volume import VolumeDocument


def _names(type_: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(type_)}


@pytest.mark.parametrize(
    ("read", "cut", "left_out"),
    [
        (pod_document.PodMetadata, pod_text.MetadataText, set()),
        (pod_document.PodSpec, pod_text.SpecText, set()),
        (pod_document.PodStatus, pod_text.StatusText, set()),
        (pod_document.PodCondition, pod_text.ConditionText, set()),
        (pod_document.Container, pod_text.ContainerText, set()),
        (pod_document.ContainerStatus, pod_text.ContainerStatusText, set()),
        (VolumeDocument, pod_text.VolumeText, {"name"}),  # read only of those that no memory is kept of
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_whatever_is_read_of_a_pod_is_cut_out_of_its_text_too(read: Any, cut: Any, left_out: set[str]) -> None:
    assert _names(read) - _names(cut) == left_out


def _raw(name: str, **spec: Any) -> bytes:
    labels = {"a": "b"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": labels, "ownerReferences": [owner]}
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}
    return json.dumps({"metadata": metadata, "spec": {"containers": [container], **spec}}).encode()


def test_pods_that_are_alike_share_what_they_have_in_common() -> None:
    reader = PodReader()
    volumes = [[{"name": f"kube-api-access-{it}", "projected": {"sources": []}}] for it in ("abcde", "fghij")]
    reader.read(_raw("o", volumes=volumes[0], tolerations=[{"operator": "Exists"}]))  # the first is only met
    one = reader.read(_raw("p", volumes=volumes[0], tolerations=[{"operator": "Exists"}])).pod
    other = reader.read(_raw("q", volumes=volumes[1], tolerations=[{"operator": "Exists"}], nodeName="n")).pod
    assert (one.name, other.name, other.node_name) == ("p", "q", "n")
    assert one.requests is other.requests
    assert one.tolerations is other.tolerations
    assert one.labels is other.labels


def test_a_claim_that_is_made_for_a_pod_has_the_name_of_that_pod() -> None:
    reader = PodReader()
    volumes = [{"name": "kube-api-access-abcde", "ephemeral": {"volumeClaimTemplate": {}}}]
    for name in ("p", "q", "p"):
        assert reader.read(_raw(name, volumes=volumes)).pod.claims == (f"{name}-kube-api-access-abcde",)


def test_what_was_read_does_not_keep_the_object_that_it_was_read_from() -> None:
    reader = PodReader()
    raw = _raw("p", affinity={"nodeAffinity": {}}, nodeSelector={"a": "b"})
    before = sys.getrefcount(raw)
    kept = [reader.read(raw), reader.read_versioned(raw), reader.read_use(raw)]
    assert sys.getrefcount(raw) == before
    del kept
