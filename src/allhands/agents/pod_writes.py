"""The two writes of a kubelet about a pod: its status, and that a deleted pod has ended. All agents share them.

A status is written for exactly the pod and version that it was worked out from, so that nothing that others have
written is lost; who is refused reads again, and is told by an error to look again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.agent import PODS
from allhands.api.errors import StatusError
from allhands.ports import DeleteOptions
from allhands.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.agents.seen import PodSeen
    from allhands.api.document import Manifest
    from allhands.ports import Head, Objects

NOT_FOUND: Final = 404
_STALE: Final = frozenset({NOT_FOUND, 409, 422})


class _Version(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Versioned(msgspec.Struct, gc=False):
    metadata: _Version


_versions: Final = msgspec.json.Decoder(_Versioned)


class PodWrites:
    """`observe` and `observe_gone` show the results to whoever keeps a copy of the pods."""

    def __init__(
        self,
        objects: Objects,
        observe: Callable[[bytes, Head | None], None],
        observe_gone: Callable[[str, str], None],
    ) -> None:
        self._objects = objects
        self._observe = observe
        self._observe_gone = observe_gone
        self.under_way = ""
        """The pod whose own write is just being shown: no news to the agent."""

    async def report(self, seen: PodSeen, status: Manifest) -> str | None:
        """Writes the status, a merge patch; returns the pod's new version, or None if the pod is gone."""
        metadata = {"uid": seen.uid, "resourceVersion": seen.version}
        patch = {"metadata": metadata, "status": status}
        try:
            document = await self._objects.patch(PODS, seen.name, "merge", patch, seen.namespace, subresource="status")
        except StatusError as refusal:
            if refusal.code not in _STALE:
                raise
            await self._read_again(seen)
            if refusal.code == NOT_FOUND:
                return None
            raise
        self.under_way = key_of(seen.namespace, seen.name)
        try:
            self._observe(document.raw, document.head)
        finally:
            self.under_way = ""
        if document.head is not None:
            return str(document.head.version)
        return _versions.decode(document.raw).metadata.resource_version

    async def let_go(self, seen: PodSeen) -> None:
        """The last word on a pod that is being deleted: nothing of it runs any more. Finalizers may still hold it."""
        if not seen.deleting or seen.grace_seconds == 0:
            return
        options = DeleteOptions(grace_seconds=0, uid=seen.uid)
        try:
            deleted = await self._objects.delete(PODS, seen.name, seen.namespace, options)
        except StatusError as refusal:
            await self._read_again(seen)
            if refusal.code != NOT_FOUND:
                raise
            return
        if deleted.gone:
            self._observe_gone(key_of(seen.namespace, seen.name), seen.uid)
        else:
            self._observe(deleted.document.raw, deleted.document.head)

    async def _read_again(self, seen: PodSeen) -> None:
        try:
            document = await self._objects.get(PODS, seen.name, seen.namespace)
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            self._observe_gone(key_of(seen.namespace, seen.name), seen.uid)
        else:
            self._observe(document.raw, document.head)
