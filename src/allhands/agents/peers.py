"""Addresses of local pods, and how workers of one job find each other without a name service.

Every pod has a loopback address of its own. The pods of an Indexed Job get one for each completion index, the same for
every pod that takes the index's place; `ALLHANDS_WORKER_HOSTS` tells all of them all addresses, in the order of the
indexes, before any of them runs. So a worker binds its own address and connects to those of the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.addresses import Addresses
from allhands.agents.host_names import NO_NAMES, Crews, HostNames
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import Objects

LOOPBACK: Final = "127.64.0.0/10"
JOBS: Final = Resource("batch", "v1", "jobs")
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
MOST_WORKERS: Final = 4_096
"""Beyond this the list would not fit an environment."""


class _JobSpec(msgspec.Struct, frozen=True):
    completions: int = 0


class _Job(msgspec.Struct, frozen=True):
    spec: _JobSpec = _JobSpec()


class _Block(msgspec.Struct):
    """The addresses of one job, and the pods that use them."""

    hosts: list[str]
    users: dict[str, None]


class Place(msgspec.Struct, frozen=True):
    """Where a pod is to be found, and where all workers of its job are."""

    address: str
    hosts: tuple[str, ...] = ()
    names: HostNames = NO_NAMES


class Peers:
    def __init__(self, objects: Objects, network: str = LOOPBACK) -> None:
        self._objects = objects
        self._addresses = Addresses(network)
        self._blocks: dict[str, _Block] = {}
        self._crews = Crews(objects, self._take_all, self._addresses.give_back)
        self._places: dict[str, tuple[Place, str]] = {}

    async def place(self, pod: Manifest) -> Place:
        """The place of this pod, the same however often it is asked."""
        uid = pod["metadata"]["uid"]
        if uid in self._places:
            return self._places[uid][0]
        named = await self._crews.place(pod)
        if named is not None:
            self._places[uid] = (Place(named[0], names=named[1]), "")
            return self._places[uid][0]
        owner, index = _owner_and_index(pod)
        hosts: list[str] = []
        if owner is not None:
            hosts = await self._block(pod["metadata"].get("namespace", "default"), owner, index)
        if index < len(hosts):
            assert owner is not None
            self._blocks[owner["uid"]].users[uid] = None
            self._places[uid] = (Place(hosts[index], tuple(hosts)), owner["uid"])
        else:
            self._places[uid] = (Place(self._take()), "")
        return self._places[uid][0]

    def leave(self, uid: str) -> None:
        """The pod is gone; the addresses of a job are free when all of its pods are."""
        place, job = self._places.pop(uid, (None, ""))
        if place is None or self._crews.leave(uid):
            return
        if not job:
            self._addresses.give_back(place.address)
            return
        block = self._blocks[job]
        block.users.pop(uid, None)
        if not block.users:
            del self._blocks[job]
            for address in block.hosts:
                self._addresses.give_back(address)

    async def _block(self, namespace: str, owner: Manifest, index: int) -> list[str]:
        if owner["uid"] not in self._blocks:
            try:
                job = (await self._objects.get(JOBS, owner["name"], namespace)).decode(_Job)
            except (StatusError, msgspec.MsgspecError):
                return []
            count = max(job.spec.completions, index + 1)
            if count > MOST_WORKERS:
                return []
            if owner["uid"] not in self._blocks:  # another pod of the job may have asked meanwhile
                self._blocks[owner["uid"]] = _Block(self._take_all(count), {})
        return self._blocks[owner["uid"]].hosts

    def _take_all(self, count: int) -> list[str]:
        if count > self._addresses.free and sys.platform == "linux":
            raise StatusError(503, "ServiceUnavailable", f"{count} loopback addresses are not free on this node")
        return [self._take() for _ in range(count)]

    def _take(self) -> str:
        # Only Linux answers on all of 127/8 without being told to.
        return self._addresses.take() if sys.platform == "linux" else "127.0.0.1"


def _owner_and_index(pod: Manifest) -> tuple[Manifest | None, int]:
    """The Job and the completion index of a worker; no owner for any other pod."""
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        return None, 0
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Job":
            return owner, int(text)
    return None, 0
