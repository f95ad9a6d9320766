"""Disks of the kinds that Kubernetes itself once attached, as the drivers that took them over see them.

On a node where a driver has taken over, kube-scheduler asks for the driver's own topology label instead of the zone
label; and a disk counts under the name that the driver gives it. What cannot be translated is None, never an error.
"""

import re
from collections.abc import Mapping
from typing import Final

from allhands.model.affinity import NodeSelectorTerm
from allhands.model.pod_volume import DRIVER_BY_KIND, Attachment, csi_handle
from allhands.model.selector import Requirement

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""The annotation of a CSINode that lists the plugins whose disks a driver has taken over there."""

PLUGIN_BY_KIND: Final = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "azureDisk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "portworxVolume": "kubernetes.io/portworx-volume",
}
_TOPOLOGY_KEY_BY_KIND: Final = {
    "awsElasticBlockStore": "topology.ebs.csi.aws.com/zone",
    "cinder": "topology.cinder.csi.openstack.org/zone",
    "gcePersistentDisk": "topology.gke.io/zone",
}
_DRIVER_BY_PLUGIN: Final = {plugin: DRIVER_BY_KIND[kind] for kind, plugin in PLUGIN_BY_KIND.items()}
_NEVER_COUNTED: Final = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_DELIMITER: Final = "__"
_UNKNOWN: Final = "UNSPECIFIED"
_AWS_PREFIX: Final = "aws://"
_AWS_VOLUME: Final = re.compile(r"vol-[^/]*")

Terms = tuple[NodeSelectorTerm, ...]


def driver_of_provisioner(provisioner: str) -> str:
    """Under which driver a volume will count that is yet to be made; "" if under none."""
    return "" if provisioner in _NEVER_COUNTED else _DRIVER_BY_PLUGIN.get(provisioner, provisioner)


def migrated_attachment(kind: str, source: str, labels: Mapping[str, str]) -> Attachment | None:
    """How a volume of an old kind counts; None if its driver could not name it."""
    if kind == "gcePersistentDisk":
        handle = _google_handle(source, labels)
    elif kind == "awsElasticBlockStore":
        handle = _amazon_handle(source)
    else:
        handle = csi_handle(kind, source)
    return None if handle is None else Attachment(DRIVER_BY_KIND[kind], handle)


def migrated_affinity(kind: str, labels: Mapping[str, str], terms: Terms | None) -> Terms | None:
    """The node affinity of a volume of an old kind on nodes where its driver has taken over."""
    key = _TOPOLOGY_KEY_BY_KIND.get(kind)
    if key is None:
        return terms
    zone, region = _labels_in_use(labels, terms or ())
    if _values(terms or (), zone):
        terms = _renamed(terms or (), zone, key)
    elif zone in labels:
        terms = _with_zones(terms or (), key, labels[zone]) or terms
    if region == _OLD_REGION and _values(terms or (), region):
        terms = _renamed(terms or (), region, _REGION)
    return terms


def _amazon_handle(source: str) -> str | None:
    if not source.startswith(_AWS_PREFIX):
        return source
    path = re.split(r"[?#]", source.removeprefix(_AWS_PREFIX))[0].partition("/")[2].strip("/")
    return path if _AWS_VOLUME.fullmatch(path) else None


def _google_handle(source: str, labels: Mapping[str, str]) -> str | None:
    zones = (labels.get(_OLD_ZONE) or labels.get(_ZONE) or "").split(_DELIMITER)
    if len(zones) == 1:
        return f"projects/{_UNKNOWN}/zones/{zones[0] or _UNKNOWN}/disks/{source}"
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) != 1 or any(len(part) != 3 for part in parts):
        return None
    return f"projects/{_UNKNOWN}/regions/{regions.pop()}/disks/{source}"


def _labels_in_use(labels: Mapping[str, str], terms: Terms) -> tuple[str, str]:
    """Whether a volume speaks of zones by the old or the new name: its affinity decides before its labels."""
    asked = {it.key for term in terms for it in term.match_expressions}
    for keys in (asked, labels):
        if _ZONE in keys:
            return _ZONE, _REGION
        if _OLD_ZONE in keys:
            return _OLD_ZONE, _OLD_REGION
    return _ZONE, _REGION


def _values(terms: Terms, key: str) -> bool:
    return any(it.key == key and it.values for term in terms for it in term.match_expressions)


def _renamed(terms: Terms, old: str, new: str) -> Terms:
    return tuple(
        NodeSelectorTerm(
            tuple(
                Requirement(new if it.key == old else it.key, it.operator, it.values) for it in term.match_expressions
            ),
            term.match_fields,
        )
        for term in terms
    )


def _with_zones(terms: Terms, key: str, label: str) -> Terms | None:
    zones = tuple(sorted({zone.strip() for zone in label.split(_DELIMITER)} - {""}))
    if not zones:
        return None
    added = Requirement(key, "In", zones)
    return tuple(
        NodeSelectorTerm((*term.match_expressions, added), term.match_fields) for term in terms or (NodeSelectorTerm(),)
    )
