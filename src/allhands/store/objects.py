"""The port `Objects` over a store in the same process. No verb awaits anything: each is done when it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.errors import StatusError, method_not_supported
from allhands.ports import (
    DEFAULT_DELETE,
    DEFAULT_WRITE,
    EVERYTHING,
    Deleted,
    DeleteOptions,
    Document,
    Page,
    PatchType,
    Query,
    WriteOptions,
)
from allhands.store import applying, deleting, patching, pods, reading, scaling, writing

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind, Resource
    from allhands.store.store import Store
    from allhands.store.watching import StoreWatch


WRITABLE_SUBRESOURCES = ("", "status", "ephemeralcontainers", "resize")


class InProcessObjects:
    """A client of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _written(self, resource: Resource, subresource: str) -> Kind:
        kind = self._store.kind(resource)
        if subresource not in WRITABLE_SUBRESOURCES or (subresource and subresource not in kind.subresources):
            raise StatusError(404, "NotFound", "the server could not find the requested resource", {})
        return kind

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "", resource_version: str = ""
    ) -> Document:
        del subresource  # those that are the object itself read like it
        return reading.get(self._store, self._store.kind(resource), name, namespace, resource_version)

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page:
        return reading.list_page(self._store, self._store.kind(resource), query)

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> StoreWatch:
        kind = self._store.kind(resource)
        return reading.watch(self._store, kind, query, bookmarks=bookmarks, initial_events=initial_events)

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document:
        kind = self._store.kind(resource)
        if kind.is_question:
            raise method_not_supported(kind.group, kind.resource.plural, "create")
        return writing.create(self._store, kind, body, namespace, options)

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
        kind = self._written(resource, subresource)
        return writing.update(self._store, kind, name, body, namespace, options, subresource=subresource)

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
        if subresource == "scale":
            kind = self._store.kind(resource)
            return scaling.patch_scale(self._store, kind, name, patch_type, patch, namespace, options)
        kind = self._written(resource, subresource)
        if patch_type == "apply":
            return applying.apply(self._store, kind, name, patch, namespace, options, subresource)
        return patching.patch(self._store, kind, name, patch_type, patch, namespace, options, subresource=subresource)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DEFAULT_DELETE
    ) -> Deleted:
        return deleting.delete(self._store, self._store.kind(resource), name, namespace, options)

    async def delete_all(
        self, resource: Resource, query: Query = EVERYTHING, options: DeleteOptions = DEFAULT_DELETE
    ) -> Page:
        kind = self._store.kind(resource)
        if "deletecollection" not in kind.verbs:
            raise method_not_supported(kind.group, kind.resource.plural, "delete")
        return deleting.delete_all(self._store, kind, query, options)

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        pods.bind(self._store, namespace, name, binding, options)

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        pods.evict(self._store, namespace, name, eviction, options)
