"""The Node object of this machine: what it offers, written as a kubelet registers itself."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.agent import AGENT_LABEL, NODES, PROCESS
from allhands.api.errors import StatusError

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import Objects

PODS_PER_NODE: Final = 110
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class LocalNode(msgspec.Struct, frozen=True, kw_only=True):
    """How the machine presents itself. Without a capacity: all its processors and memory."""

    name: str
    capacity: dict[str, str] | None = None
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()

    def resources(self) -> dict[str, str]:
        if self.capacity is not None:
            return {"pods": str(PODS_PER_NODE), **self.capacity}
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {"cpu": str(os.cpu_count() or 1), "memory": f"{memory // 2**20}Mi", "pods": str(PODS_PER_NODE)}

    async def register(self, objects: Objects, now: str) -> None:
        """Creates the node, or brings the one that is there up to date."""
        spec: Manifest = {"taints": [dict(taint) for taint in self.taints] or None}
        try:
            await objects.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": self._metadata(), "spec": spec}
            )
        except StatusError as refusal:
            if refusal.reason != "AlreadyExists":
                raise
        # Admission taints every new node until it is known to be ready, which this one is.
        patch = {"metadata": {"labels": self._metadata()["labels"]}, "spec": spec}
        await objects.patch(NODES, self.name, "merge", patch)
        await objects.patch(NODES, self.name, "strategic", {"status": self._status(now)}, subresource="status")

    def _metadata(self) -> Manifest:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": platform.system().lower(),
            "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            AGENT_LABEL: PROCESS,
        }
        return {"name": self.name, "labels": labels | self.labels}

    def _status(self, now: str) -> Manifest:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the process agent runs pods as local processes",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "capacity": self.resources(),
            "allocatable": self.resources(),
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": self.name},
            ],
        }
