"""The port `Objects` over a store that keeps its changes on disk: no write is answered before it is there.

Not even a refusal: that something is there already, or gone, is said only when that is kept too. Reading never waits;
it shows what is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.errors import StatusError
from allhands.ports import DEFAULT_DELETE, DEFAULT_WRITE, EVERYTHING
from allhands.store.objects import InProcessObjects

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import TypeVar

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.ports import Deleted, DeleteOptions, Document, Page, PatchType, Query, WriteOptions
    from allhands.store.committing import Committer
    from allhands.store.store import Store

    T = TypeVar("T")


class DurableObjects(InProcessObjects):
    """A client of a store with a committer."""

    def __init__(self, store: Store, committer: Committer) -> None:
        super().__init__(store)
        self._committer = committer

    async def _kept(self, verb: Coroutine[Any, Any, T]) -> T:
        """The verb's answer once everything that it did, or could have seen, is on disk."""
        try:
            answer = await verb
        except StatusError:
            await self._committer.settled()
            raise
        await self._committer.settled()
        return answer

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document:
        return await self._kept(super().create(resource, body, namespace, options))

    async def update(
        self,
        resource: Resource,
        name: str,
        body: Manifest | bytes,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Document:
        return await self._kept(super().update(resource, name, body, namespace, options, subresource=subresource))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch_type: PatchType,
        patch: Any,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Document:
        verb = super().patch(resource, name, patch_type, patch, namespace, options, subresource=subresource)
        return await self._kept(verb)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DEFAULT_DELETE
    ) -> Deleted:
        return await self._kept(super().delete(resource, name, namespace, options))

    async def delete_all(
        self, resource: Resource, query: Query = EVERYTHING, options: DeleteOptions = DEFAULT_DELETE
    ) -> Page:
        return await self._kept(super().delete_all(resource, query, options))

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        await self._kept(super().bind(namespace, name, binding, options))

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        await self._kept(super().evict(namespace, name, eviction, options))
