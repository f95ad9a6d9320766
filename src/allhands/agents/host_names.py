"""Names of hosts without a name service: where a pod's text names a host of its own job, it gets the address instead.

Pods of a Volcano Job are called HOSTNAME.SUBDOMAIN. Their addresses are chosen for all of them before the first runs,
and take the place of the names in commands, variables and files of config maps and secrets. A name that a program makes
up itself is not seen here, and does not resolve.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.lifecycle.volcano_job.documents import JOBS, decode_job
from allhands.lifecycle.volcano_job.plugins.hosts import all_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.document import Manifest
    from allhands.ports import Objects

MOST_HOSTS: Final = 4_096
_WORD: Final = re.compile(r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]")


class HostNames:
    """What the names of some hosts stand for."""

    def __init__(self, addresses: Mapping[str, str], namespace: str = "") -> None:
        self._addresses = addresses
        self._endings = (f".{namespace}.svc.cluster.local", f".{namespace}.svc", f".{namespace}")

    def replaced(self, text: str) -> str:
        """The text with addresses in place of names, in any of the forms that a cluster's name service answers to."""
        return _WORD.sub(self._address, text) if self._addresses else text

    def replaced_bytes(self, content: bytes) -> bytes:
        """Anything but text stays as it is."""
        if not self._addresses:
            return content
        try:
            return self.replaced(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def _address(self, found: re.Match[str]) -> str:
        word = found.group()
        if "." not in word:
            return word
        known = self._addresses.get(word)
        for ending in self._endings:
            if known is None and word.endswith(ending):
                known = self._addresses.get(word.removesuffix(ending))
        return known or word


NO_NAMES: Final = HostNames({})


class _Crew(msgspec.Struct):
    """The hosts of one job, and the pods that use them."""

    addresses: dict[str, str]
    users: dict[str, None]


class Crews:
    """The hosts of Volcano Jobs. A pod that takes another's place has its address."""

    def __init__(
        self,
        objects: Objects,
        take: Callable[[int], list[str]],
        give_back: Callable[[str], None],
    ) -> None:
        """`take`: so many addresses, or none and a StatusError."""
        self._objects = objects
        self._take = take
        self._give_back = give_back
        self._crews: dict[str, _Crew] = {}
        self._jobs: dict[str, str] = {}

    async def place(self, pod: Manifest) -> tuple[str, HostNames] | None:
        """Its address, and what the names of its job's hosts stand for; None for a pod that has no such name."""
        metadata, spec = pod["metadata"], pod["spec"]
        owner = _owner(pod)
        if owner is None or not spec.get("hostname") or not spec.get("subdomain"):
            return None
        namespace = metadata.get("namespace", "default")
        try:
            job = decode_job((await self._objects.get(JOBS, owner["name"], namespace)).raw)
        except (StatusError, msgspec.MsgspecError):
            return None
        everybody = all_hosts(job)
        if sum(hosts.number for hosts in everybody) > MOST_HOSTS:
            return None
        crew = self._crews.get(owner["uid"]) or _Crew({}, {})
        own = f"{spec['hostname']}.{spec['subdomain']}"
        names = dict.fromkeys([own, *(name for hosts in everybody for name in hosts.full_names())])
        new = [name for name in names if name not in crew.addresses]
        crew.addresses.update(zip(new, self._take(len(new)), strict=True))
        crew.users[metadata["uid"]] = None
        self._crews[owner["uid"]] = crew
        self._jobs[metadata["uid"]] = owner["uid"]
        return crew.addresses[own], HostNames(dict(crew.addresses), namespace)

    def leave(self, uid: str) -> bool:
        """The pod is gone; the addresses of a job are free when all of its pods are. False: it was none of ours."""
        job = self._jobs.pop(uid, None)
        if job is None:
            return False
        crew = self._crews[job]
        crew.users.pop(uid, None)
        if not crew.users:
            del self._crews[job]
            for address in crew.addresses.values():
                self._give_back(address)
        return True


def _owner(pod: Manifest) -> Manifest | None:
    """The Volcano Job that manages the pod."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        ours = str(owner.get("apiVersion", "")).startswith(f"{JOBS.group}/")
        if owner.get("controller") and owner.get("kind") == "Job" and ours:
            return owner  # type: ignore[no-any-return]
    return None
