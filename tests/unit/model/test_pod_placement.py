"""What placement reads of a pod beyond its requests: ports, images, volumes, claims, times and its owner."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.node import Node, NodeDocument, NodeImage
from allhands.model.pod import HostPort, Pod, image_name
from allhands.model.pod_document import PodDocument
from allhands.model.pod_volume import Attachment, InlineVolume


def read(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    document = {"metadata": {"name": "p", **metadata}, "spec": spec or {}, "status": status or {}}
    return Pod.from_document(msgspec.json.decode(msgspec.json.encode(document), type=PodDocument))


def test_host_ports_are_those_of_containers_and_of_sidecars() -> None:
    pod = read(
        {
            "containers": [{"ports": [{"containerPort": 1}, {"hostPort": 80}, {"hostPort": 80, "protocol": "TCP"}]}],
            "initContainers": [
                {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}], "restartPolicy": "Always"},
                {"ports": [{"hostPort": 99}]},
            ],
        }
    )
    assert pod.host_ports == (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "UDP", 53))


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "UDP", 80), False),
        (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 81), False),
    ],
    ids=["two addresses", "any address", "the same", "another protocol", "another port"],
)
def test_when_two_host_ports_conflict(one: HostPort, other: HostPort, wanted: bool) -> None:
    assert one.conflicts_with(other) is other.conflicts_with(one) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.2", "nginx:1.2"),
        ("host:5000/nginx", "host:5000/nginx:latest"),
        ("host:5000/nginx:1", "host:5000/nginx:1"),
        ("nginx@sha256:abc", "nginx@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(text: str, wanted: str) -> None:
    assert image_name(text) == wanted


def test_images_are_those_of_all_containers_and_image_volumes() -> None:
    pod = read(
        {
            "containers": [{"image": "b:1"}, {"image": "a"}, {"image": "b:1"}],
            "initContainers": [{"image": "c:2"}, {}],
            "volumes": [{"name": "v", "image": {"reference": "d"}}],
        }
    )
    assert pod.images == ("a:latest", "b:1", "b:1", "c:2", "d:latest")
    assert pod.container_count == 5


def test_claims_are_those_named_and_those_made_for_the_pod() -> None:
    pod = read(
        {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "z-shared"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "again", "persistentVolumeClaim": {"claimName": "z-shared"}},
                {"name": "secret", "secret": {"secretName": "s"}},
            ]
        }
    )
    assert pod.claims == ("p-scratch", "z-shared")
    assert pod.ephemeral_claims == ("p-scratch",)
    assert pod.volumes == ()


def test_volumes_without_a_claim_are_kept_if_they_decide_about_nodes() -> None:
    pod = read(
        {
            "volumes": [
                {"name": "a", "rbd": {"monitors": ["m2", "m1"], "pool": "p", "image": "i", "readOnly": True}},
                {"name": "b", "gcePersistentDisk": {"pdName": "disk"}},
                {"name": "c", "awsElasticBlockStore": {"volumeID": "aws://eu-1/vol-1"}},
                {"name": "d", "iscsi": {"iqn": "iqn.x", "targetPortal": "t", "lun": 1, "readOnly": True}},
                {"name": "e", "azureDisk": {"diskName": "n", "diskURI": "uri"}},
                {"name": "f", "cinder": {"volumeID": "cv"}},
                {"name": "g", "portworxVolume": {"volumeID": "pv"}},
                {"name": "h", "emptyDir": {}},
            ]
        }
    )
    assert pod.volumes == (
        InlineVolume("awsElasticBlockStore", ("aws://eu-1/vol-1",)),
        InlineVolume("azureDisk", ("uri",)),
        InlineVolume("cinder", ("cv",)),
        InlineVolume("gcePersistentDisk", ("disk",)),
        InlineVolume("iscsi", ("iqn.x",), True),
        InlineVolume("portworxVolume", ("pv",)),
        InlineVolume("rbd", ("p", "i"), True, ("m1", "m2")),
    )
    assert [volume.attachment for volume in pod.volumes] == [
        Attachment("ebs.csi.aws.com", "vol-1"),
        Attachment("disk.csi.azure.com", "uri"),
        Attachment("cinder.csi.openstack.org", "cv"),
        Attachment("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
        None,
        Attachment("pxd.portworx.com", "pv"),
        None,
    ]


def rbd(*monitors: str, read_only: bool = False, image: str = "i") -> InlineVolume:
    return InlineVolume("rbd", ("p", image), read_only, monitors)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (InlineVolume("gcePersistentDisk", ("d",)), InlineVolume("gcePersistentDisk", ("d",), True), True),
        (InlineVolume("gcePersistentDisk", ("d",), True), InlineVolume("gcePersistentDisk", ("d",), True), False),
        (InlineVolume("gcePersistentDisk", ("d",)), InlineVolume("gcePersistentDisk", ("e",)), False),
        (InlineVolume("awsElasticBlockStore", ("d",), True), InlineVolume("awsElasticBlockStore", ("d",), True), True),
        (InlineVolume("iscsi", ("d",)), InlineVolume("iscsi", ("d",)), True),
        (InlineVolume("iscsi", ("d",)), InlineVolume("gcePersistentDisk", ("d",)), False),
        (InlineVolume("cinder", ("d",)), InlineVolume("cinder", ("d",)), False),
        (rbd("a", "b"), rbd("b", "c"), True),
        (rbd("a"), rbd("c"), False),
        (rbd("a"), rbd("a", image="j"), False),
        (rbd("a", read_only=True), rbd("a", read_only=True), False),
    ],
    ids=[
        "one writes",
        "both only read",
        "two disks",
        "an EBS disk is never shared",
        "an iSCSI target",
        "two kinds",
        "a kind without the rule",
        "a common monitor",
        "two clusters",
        "two images",
        "an image that is only read",
    ],
)
def test_when_two_volumes_cannot_be_on_one_node(one: InlineVolume, other: InlineVolume, wanted: bool) -> None:
    assert one.conflicts_with(other) is other.conflicts_with(one) is wanted


def test_times_owner_nomination_and_policy_are_read() -> None:
    pod = read(
        {"preemptionPolicy": "Never", "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
        {"nominatedNodeName": "n7", "startTime": "2026-03-01T12:00:00+01:00"},
        creationTimestamp="1970-01-01T00:01:00Z",
        ownerReferences=[
            {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "1"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "2", "controller": True},
        ],
    )
    assert pod.created_at_seconds == 60
    assert pod.started_at_seconds == 1772362800
    assert pod.owner == "Job/train"
    assert pod.nominated_node == "n7"
    assert pod.preemption_policy_never
    assert pod.resource_claims == ("gpu",)


def test_a_bare_pod_has_no_owner_and_has_not_started() -> None:
    pod = read({"preemptionPolicy": "PreemptLowerPriority"}, ownerReferences=[{"kind": "Node", "name": "n"}])
    assert (pod.owner, pod.started_at_seconds, pod.preemption_policy_never) == ("", None, False)


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("1969-12-31T23:59:59.5Z", -1),
        ("0001-01-01T00:00:00Z", -62135596800),
        ("9999-12-31T23:59:59Z", 253402300799),
        ("2026-03-01T12:00:00.999999Z", 1772366400),
    ],
)
def test_moments_become_whole_seconds(moment: str, seconds: int) -> None:
    assert read(creationTimestamp=moment).created_at_seconds == seconds


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"metadata": {"creationTimestamp": "yesterday"}}, r"\$\.metadata\.creationTimestamp"),
        ({"metadata": {"creationTimestamp": "2026-03-01T12:00:00"}}, r"\$\.metadata\.creationTimestamp"),
        ({"spec": {"priority": 2**31}}, r"\$\.spec\.priority"),
        ({"spec": {"containers": [{"ports": [{"hostPort": "80"}]}]}}, r"containers\[0\]\.ports\[0\]\.hostPort"),
        ({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": 1}}]}}, r"persistentVolumeClaim\.claimName"),
        ({"status": {"startTime": 5}}, r"\$\.status\.startTime"),
    ],
    ids=["no moment", "a moment without a zone", "a priority beyond 32 bits", "a port", "a claim", "a number"],
)
def test_fields_of_the_wrong_type_are_refused_with_the_path(document: dict[str, Any], path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path):
        msgspec.json.decode(msgspec.json.encode(document), type=PodDocument)


def test_pods_that_are_alike_share_their_parts() -> None:
    spec = {
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        "containers": [{"image": "i:1", "resources": {"requests": {"cpu": "1", "x.io/y": "1"}}}],
        "topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    one, other = read(spec, name="a"), read(spec, name="b")
    for part in ("tolerations", "images", "requests", "spread", "pod_affinity", "node_affinity", "node_selector"):
        assert getattr(one, part) is getattr(other, part), part


def test_a_node_knows_the_images_that_it_has() -> None:
    document = msgspec.convert(
        {
            "metadata": {"name": "n"},
            "status": {"images": [{"names": ["a:1", "a@sha256:x"], "sizeBytes": 5}, {"names": None}]},
        },
        NodeDocument,
    )
    assert Node.from_document(document).images == (NodeImage(("a:1", "a@sha256:x"), 5), NodeImage())
