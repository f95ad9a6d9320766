"""The port `Objects` over HTTPS: verbs become requests, answers documents, refusals `StatusError`.

Objects are never decoded here. A list is split into its items as raw text, a watch into its lines; who needs fields
decodes them. How a request gets there, and what becomes of one that fails, is `transport`'s.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.schema import protobuf
from allhands.api.schema.wire import WireError
from allhands.kube.early_requests import EarlyRequests
from allhands.kube.listing import split_list
from allhands.kube.messages import ACCEPTED, Frames, Messages
from allhands.kube.paths import Asked, asked, delete_body, path_to, selection, write_query
from allhands.kube.transport import DEFAULTS, JSON, Settings, Transport
from allhands.kube.watching import KubeWatch
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

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from allhands.api.document import Manifest
    from allhands.kube.access import Access
    from allhands.ports import Metrics

__all__ = ["KubeObjects", "KubeWatch", "Settings", "path_to"]

PODS: Final = Resource("", "v1", "pods")
WATCH_SECONDS: Final = (300, 600)
"""For how long the server is asked to hold a watch: a random time, so that those that began together do not end so."""
SILENCE_SECONDS: Final = 30.0
"""A watch that its server has not ended by so much later has a dead connection."""
MOST_EARLY_BYTES: Final = 32 * 1024 * 1024
"""So much is listed before anybody reads it; what is more is left to the reader."""
_LOG = logging.getLogger(__name__)
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PATCH_TYPES: Final[dict[str, str]] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class KubeObjects:
    """A client of an API server. Use as an async context manager."""

    streams_lists: bool = True
    """What is there may be asked for as the beginning of a watch; docs/kubeconfig.md says what that costs whom."""

    def __init__(
        self,
        access: Access,
        metrics: Metrics | None = None,
        *,
        settings: Settings = DEFAULTS,
        transport: Transport | None = None,
    ) -> None:
        self.transport = transport or Transport(access, settings, metrics)
        self._early_watches: EarlyRequests[KubeWatch] = EarlyRequests()
        self._early_pages: EarlyRequests[Page] = EarlyRequests()
        self._early_bytes = 0
        self._packed = set(self.transport.settings.packed)
        self._messages: dict[Resource, Messages] = {}

    async def __aenter__(self) -> KubeObjects:
        await self.transport.__aenter__()
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self._early_watches.close()
        await self._early_pages.close()
        await self.transport.__aexit__(*reason)

    async def request(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = JSON,
    ) -> Document:
        """Any request; raises the server's refusal."""
        what = Asked(method.lower(), path)
        return await self.transport.exchange(
            what, method, path, params, body, content_type=content_type or JSON, accept=accept
        )

    async def table(self, resource: Resource, query: Query = EVERYTHING) -> Document:
        """A list as the server would have it printed: a `Table` with columns and rows."""
        what, path = asked("list", resource, query.namespace), path_to(resource, query.namespace)
        return await self.transport.exchange(what, "GET", path, selection(query), accept=_TABLE)

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "", resource_version: str = ""
    ) -> Document:
        params = {"resourceVersion": resource_version} if resource_version else None
        what = asked("get", resource, namespace, name, subresource)
        return await self.transport.exchange(what, "GET", path_to(resource, namespace, name, subresource), params)

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page:
        if self._early_pages and (begun := self._early_pages.take((resource, query))) is not None:
            return await begun
        return await self._list(resource, query)

    async def _list(self, resource: Resource, query: Query) -> Page:
        what, path = asked("list", resource, query.namespace), path_to(resource, query.namespace)
        accept = ACCEPTED if resource in self._packed else JSON
        raw = (await self.transport.exchange(what, "GET", path, selection(query), accept=accept)).raw
        if not raw.startswith(protobuf.MAGIC):
            return split_list(raw)
        try:
            return self._messages_of(resource).page(raw)
        except (WireError, StatusError) as error:
            self._ask_plainly(resource, error)
            return await self._list(resource, query)

    def _messages_of(self, resource: Resource) -> Messages:
        return self._messages.setdefault(resource, Messages())

    def _ask_plainly(self, resource: Resource, why: Exception) -> None:
        """From now on, in JSON: whatever a server sends must not keep its objects from being seen."""
        self._packed.discard(resource)
        _LOG.warning("%s come in protobuf that cannot be read (%s); JSON is asked for instead", resource.plural, why)

    def watch_early(self, resources: Iterable[Resource]) -> None:
        """Asks for all that is there of them now; whoever watches them soon gets that watch."""
        for resource in resources:
            watch = self._open_watch(resource, EVERYTHING, bookmarks=True, initial_events=True)
            self._early_watches.begin(resource, watch)

    def list_early(self, resource: Resource, query: Query) -> None:
        """Asks for that page now, then for those after it; whoever asks for the same soon gets the answers."""
        self._early_pages.begin((resource, query), self._list_onward(resource, query))

    async def _list_onward(self, resource: Resource, query: Query) -> Page:
        page = await self._list(resource, query)
        self._early_bytes += sum(map(len, page.items))
        if page.continue_token and self._early_bytes < MOST_EARLY_BYTES:
            self.list_early(resource, msgspec.structs.replace(query, continue_token=page.continue_token))
        return page

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> KubeWatch:
        if self._early_watches and bookmarks and initial_events and query == EVERYTHING:
            begun = self._early_watches.take(resource)
            if begun is not None:
                return await begun
        return await self._open_watch(resource, query, bookmarks=bookmarks, initial_events=initial_events)

    async def _open_watch(
        self, resource: Resource, query: Query, *, bookmarks: bool, initial_events: bool | None
    ) -> KubeWatch:
        seconds = self.transport.chance.randint(*WATCH_SECONDS)
        params = selection(query) | {"watch": "true", "timeoutSeconds": str(seconds)}
        if bookmarks:
            params["allowWatchBookmarks"] = "true"
        if initial_events is not None:
            params["sendInitialEvents"] = "true" if initial_events else "false"
            params.setdefault("resourceVersionMatch", "NotOlderThan")
        what, path = asked("watch", resource, query.namespace), path_to(resource, query.namespace)
        accept = ACCEPTED if resource in self._packed else JSON
        lasts = seconds + SILENCE_SECONDS
        body = await self.transport.stream(what, path, params, lasts_seconds=lasts, accept=accept)
        cutter = None
        if body.is_packed:
            cutter = Frames(self._messages_of(resource), partial(self._ask_plainly, resource))
        return KubeWatch(body, self.transport.settings.limits.event_bytes, cutter)

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document:
        what, path = asked("create", resource, namespace), path_to(resource, namespace)
        return await self._write(what, "POST", path, options, body)

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
        what = asked("update", resource, namespace, name, subresource)
        return await self._write(what, "PUT", path_to(resource, namespace, name, subresource), options, body)

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
        what = asked("patch", resource, namespace, name, subresource)
        path, body = path_to(resource, namespace, name, subresource), msgspec.json.encode(patch)
        return await self._write(what, "PATCH", path, options, body, _PATCH_TYPES[patch_type])

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DEFAULT_DELETE
    ) -> Deleted:
        what, path = asked("delete", resource, namespace, name), path_to(resource, namespace, name)
        answer = await self.transport.exchange(what, "DELETE", path, None, delete_body(options))
        shown = answer.decode(_Shown)
        return Deleted(answer, gone=shown.is_gone, as_status=shown.kind == "Status")

    async def delete_all(
        self, resource: Resource, query: Query = EVERYTHING, options: DeleteOptions = DEFAULT_DELETE
    ) -> Page:
        what, path = asked("deletecollection", resource, query.namespace), path_to(resource, query.namespace)
        return split_list(
            (await self.transport.exchange(what, "DELETE", path, selection(query), delete_body(options))).raw
        )

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        await self._about_pod("binding", {"apiVersion": "v1", "kind": "Binding"}, namespace, name, binding, options)

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        head = {"apiVersion": "policy/v1", "kind": "Eviction"}
        await self._about_pod("eviction", head, namespace, name, eviction, options)

    def _about_pod(
        self, what: str, head: Mapping[str, str], namespace: str, name: str, body: Manifest, options: WriteOptions
    ) -> Coroutine[Any, Any, Document]:
        metadata = {"name": name, "namespace": namespace} | body.get("metadata", {})
        path = path_to(PODS, namespace, name, what)
        whole = {**head, **body, "metadata": metadata}
        return self._write(asked("create", PODS, namespace, name, what), "POST", path, options, whole)

    def _write(
        self,
        what: Asked,
        method: str,
        path: str,
        options: WriteOptions,
        body: Manifest | bytes,
        content_type: str = JSON,
    ) -> Coroutine[Any, Any, Document]:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return self.transport.exchange(what, method, path + write_query(options), None, raw, content_type=content_type)


class _ShownMeta(msgspec.Struct):
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815
    finalizers: list[str] = []


class _Shown(msgspec.Struct):
    """What the answer to a delete says about the object."""

    kind: str = ""
    metadata: _ShownMeta = msgspec.field(default_factory=_ShownMeta)

    @property
    def is_gone(self) -> bool:
        """A `Status`, an object that was never marked, or one that nobody has to be waited for any more."""
        meta = self.metadata
        waited_for = meta.deletionGracePeriodSeconds != 0 or bool(meta.finalizers)
        return self.kind == "Status" or meta.deletionTimestamp is None or not waited_for
