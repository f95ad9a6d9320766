"""Kube-scheduler's four volume filters, read off one node at a time and without any cleverness.

What the fast filter says about all nodes at once must be what this says about each. It decides nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.model.pod_volume import Attachment
from allhands.model.volume import ZONE_LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.model.node import Node
    from allhands.model.pod import Pod
    from allhands.model.volume import PersistentVolume, PersistentVolumeClaim, VolumeFacts

GA = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_LABELS[2],
    "failure-domain.beta.kubernetes.io/region": ZONE_LABELS[3],
}


class Promised(msgspec.Struct, frozen=True):
    """What a claim was given when a pod that has it was placed: a volume, or a node to make one for."""

    volume: str
    node: str


class PlainReading:
    def __init__(self, facts: VolumeFacts, running: list[tuple[Pod, str]]) -> None:
        self.facts = facts
        self.pods = list(running)
        self.promises: dict[str, Promised] = {}

    def place(self, pod: Pod, node: Node) -> None:
        for claim, volume in self._matches(pod, node).items():
            self.promises.setdefault(claim, Promised(volume, node.name))
        self.pods.append((pod, node.name))

    def allows(self, pod: Pod, node: Node) -> bool:
        claims = [self.facts.claims.get(f"{pod.namespace}/{name}") for name in pod.claims]
        if not all(claim is not None and self._is_ready(claim) for claim in claims):
            return False
        return (
            self._bound_volumes_allow(pod, node)
            and self._zones_allow(pod, node)
            and self._waiting_claims_allow(pod, node)
            and self._nobody_has(pod)
            and self._disks_allow(pod, node)
            and self._limits_allow(pod, node)
        )

    def unbound(self, pod: Pod) -> set[str]:
        return {claim.key for claim in self._claims(pod, bound=False)}

    def _claims(self, pod: Pod, *, bound: bool) -> list[PersistentVolumeClaim]:
        found = [self.facts.claims[f"{pod.namespace}/{name}"] for name in pod.claims]
        return [claim for claim in found if claim.is_bound == bound]

    def _is_ready(self, claim: PersistentVolumeClaim) -> bool:
        if claim.lost or claim.deleting:
            return False
        if claim.is_bound:
            return claim.volume_name in self.facts.volumes
        storage_class = self.facts.classes.get(claim.class_name)
        return storage_class is not None and storage_class.waits_for_consumer and not claim.volume_name

    def _bound_volumes_allow(self, pod: Pod, node: Node) -> bool:
        csi_node = self.facts.nodes.get(node.name)
        for claim in self._claims(pod, bound=True):
            volume = self.facts.volumes[claim.volume_name]
            if volume.plugin and csi_node is not None and volume.plugin in csi_node.migrated_plugins:
                if volume.attachment is None:
                    return False
                volume = msgspec.structs.replace(volume, node_affinity=volume.migrated_affinity)
            if not volume.allows(node.labels):
                return False
        return True

    def _zones_allow(self, pod: Pod, node: Node) -> bool:
        if not any(key in node.labels for key in ZONE_LABELS):
            return True
        for claim in self._claims(pod, bound=True):
            for key, values in self.facts.volumes[claim.volume_name].zones:
                if node.labels.get(key, node.labels.get(GA.get(key, key))) not in values:
                    return False
        return True

    def _waiting_claims_allow(self, pod: Pod, node: Node) -> bool:
        matches = self._matches(pod, node)
        for claim in self._claims(pod, bound=False):
            promise = self.promises.get(claim.key)
            if promise is not None and promise.volume:
                if not self.facts.volumes[promise.volume].allows(node.labels):
                    return False
                continue
            selected = claim.selected_node if claim.selected_node is not None else promise and promise.node
            if selected is not None and selected != node.name:
                return False
            if not matches.get(claim.key) and not self._can_be_made(claim, node):
                return False
        return True

    def _matches(self, pod: Pod, node: Node) -> dict[str, str]:
        """Claim without a promise -> the free volume that it would get on the node, or ""."""
        chosen = {promise.volume for promise in self.promises.values()}
        found: dict[str, str] = {}
        waiting = self._claims(pod, bound=False)
        for claim in sorted(waiting, key=lambda it: (it.request_bytes or 0, it.key)):
            if claim.key in self.promises:
                continue
            found[claim.key] = "" if claim.selected_node is not None else self._free_volume(claim, node, chosen)
            chosen.add(found[claim.key])
        return found

    def _free_volume(self, claim: PersistentVolumeClaim, node: Node, chosen: set[str]) -> str:
        listed = [
            it for it in self.facts.volumes.values() if it.class_name == claim.class_name and it.name not in chosen
        ]
        fitting = [
            it
            for it in listed
            if it.capacity_bytes >= (claim.request_bytes or 0)
            and it.volume_mode == claim.volume_mode
            and it.attributes_class == claim.attributes_class
            and not it.deleting
        ]
        kept = sorted((it.capacity_bytes, it.name) for it in fitting if it.is_for(claim))
        if kept:
            return kept[0][1] if self.facts.volumes[kept[0][1]].allows(node.labels) else ""
        free = [it for it in fitting if it.claim is None and it.phase == "Available" and self._suits(claim, it)]
        reachable = sorted((it.capacity_bytes, it.name) for it in free if it.allows(node.labels))
        return reachable[0][1] if reachable else ""

    def _suits(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
        if claim.selector is not None and not claim.selector.matches(volume.labels):
            return False
        return set(claim.access_modes) <= set(volume.access_modes)

    def _can_be_made(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        storage_class = self.facts.classes[claim.class_name]
        if not storage_class.provisions or not storage_class.allows(node.labels):
            return False
        driver = self.facts.drivers.get(storage_class.provisioner)
        if driver is None or not driver.tracks_capacity or claim.request_bytes is None:
            return True
        size = claim.request_bytes
        return any(it.class_name == claim.class_name and it.serves(node.labels, size) for it in self.facts.capacities)

    def _nobody_has(self, pod: Pod) -> bool:
        used = {f"{other.namespace}/{name}" for other, _ in self.pods for name in other.claims}
        mine = (self.facts.claims[f"{pod.namespace}/{name}"] for name in pod.claims)
        return not any(claim.is_for_one_pod and claim.key in used for claim in mine)

    def _disks_allow(self, pod: Pod, node: Node) -> bool:
        there = [disk for other, name in self.pods if name == node.name for disk in other.volumes]
        return not any(disk.conflicts_with(other) for disk in pod.volumes for other in there)

    def _limits_allow(self, pod: Pod, node: Node) -> bool:
        csi_node = self.facts.nodes.get(node.name)
        if csi_node is None:
            return True
        there = {it for other, name in self.pods if name == node.name for it in self._attached(other)}
        held = {
            Attachment(it.driver, volume.attachment.handle)
            for it in self.facts.attachments
            if it.node_name == node.name and it.driver
            if (volume := self.facts.volumes.get(it.volume_name)) is not None
            if volume.attachment is not None and not volume.old_kind
        }
        new = self._attached(pod) - there
        for driver in {it.driver for it in new}:
            limit = csi_node.limit(driver)
            total = sum(it.driver == driver for it in there | held) + sum(it.driver == driver for it in new)
            if limit is not None and total > limit:
                return False
        return True

    def _attached(self, pod: Pod) -> set[Attachment]:
        found = {it.attachment for it in pod.volumes if it.attachment is not None}
        for name in pod.claims:
            claim = self.facts.claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                continue
            volume = self.facts.volumes.get(claim.volume_name)
            storage_class = self.facts.classes.get(claim.class_name)
            if volume is not None:
                if volume.attachment is not None and volume.attachment.handle:
                    found.add(volume.attachment)
            elif storage_class is not None:
                found.add(Attachment(storage_class.provisioner, f"claim {claim.key}"))
        return found


def state_of(values: Mapping[str, object]) -> dict[str, object]:
    """What an object has counted, comparable: arrays as lists, without those that hold nothing."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: plain for key, it in value.items() if (plain := _plain(it)) not in ({}, [])}
    if hasattr(value, "tolist"):
        numbers = value.tolist()
        return numbers if any(numbers) else []
    return value
