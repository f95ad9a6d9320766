"""How a node and what describes one (leases, runtime classes) are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import NONE, age_of, at, list_at, mapping_at, name_of, text_at
from allhands.api.tables.column import AGE, CORE, META, NAME, Printers, TablePrinter, described, documented
from allhands.api.tables.duration import UNKNOWN

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _status(node: Manifest) -> str:
    # The last condition of a type counts, as in the real server, which puts them into a map.
    ready = {text_at(condition, "type"): condition for condition in list_at(node, "status", "conditions")}.get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if at(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Manifest) -> str:
    roles = set()
    for label, value in mapping_at(node, "metadata", "labels").items():
        if label.startswith(_ROLE_PREFIX):
            roles.add(label.removeprefix(_ROLE_PREFIX))
        elif label == _ROLE_LABEL:
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _address(node: Manifest, type: str) -> str:
    for address in list_at(node, "status", "addresses"):
        if address.get("type") == type:
            return text_at(address, "address")
    return NONE


def node_row(node: Manifest, now: datetime) -> list[Json]:
    info = mapping_at(node, "status", "nodeInfo")
    kernel, architecture = text_at(info, "kernelVersion") or UNKNOWN, text_at(info, "architecture")
    return [
        name_of(node),
        _status(node),
        _roles(node),
        age_of(node, now),
        text_at(info, "kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        text_at(info, "osImage") or UNKNOWN,
        f"{kernel} ({architecture})" if architecture else kernel,
        text_at(info, "containerRuntimeVersion") or UNKNOWN,
    ]


def lease_row(lease: Manifest, now: datetime) -> list[Json]:
    return [name_of(lease), text_at(lease, "spec", "holderIdentity"), age_of(lease, now)]


def lease_candidate_row(candidate: Manifest, now: datetime) -> list[Json]:
    spec = mapping_at(candidate, "spec")
    return [
        name_of(candidate),
        *(text_at(spec, field) for field in ("leaseName", "binaryVersion", "emulationVersion")),
        age_of(candidate, now),
    ]


def runtime_class_row(runtime_class: Manifest, now: datetime) -> list[Json]:
    return [name_of(runtime_class), text_at(runtime_class, "handler"), age_of(runtime_class, now)]


_INFO: Final = CORE + "NodeSystemInfo"

PRINTERS: Final[Printers] = {
    ("", "Node"): TablePrinter(
        (
            NAME,
            described("Status", "The status of the node"),
            described("Roles", "The roles of the node"),
            AGE,
            documented("Version", _INFO, "kubeletVersion"),
            documented("Internal-IP", CORE + "NodeStatus", "addresses", priority=1),
            documented("External-IP", CORE + "NodeStatus", "addresses", priority=1),
            documented("OS-Image", _INFO, "osImage", priority=1),
            documented("Kernel-Version", _INFO, "kernelVersion", priority=1),
            documented("Container-Runtime", _INFO, "containerRuntimeVersion", priority=1),
        ),
        node_row,
    ),
    ("coordination.k8s.io", "Lease"): TablePrinter(
        (NAME, documented("Holder", "io.k8s.api.coordination.v1.LeaseSpec", "holderIdentity"), AGE), lease_row
    ),
    ("coordination.k8s.io", "LeaseCandidate"): TablePrinter(
        (
            NAME,
            documented("LeaseName", "io.k8s.api.coordination.v1alpha2.LeaseCandidateSpec", "leaseName"),
            # The real server looks these up in the wrong type, so they have no description there either.
            documented("BinaryVersion", META + "ObjectMeta", "binaryVersion"),
            documented("EmulationVersion", META + "ObjectMeta", "emulationVersion"),
            AGE,
        ),
        lease_candidate_row,
    ),
    ("node.k8s.io", "RuntimeClass"): TablePrinter(
        (NAME, documented("Handler", META + "ObjectMeta", "handler"), AGE), runtime_class_row
    ),
}
