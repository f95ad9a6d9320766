"""The port `Objects` over HTTPS, on aiohttp: requests out, documents and clear refusals back.

Objects are never decoded here. A list is split into its items as raw text, a watch into its lines; who needs fields
decodes them. Every refusal of the server becomes a `StatusError`; a broken connection is one too, with reason
`ServiceUnavailable`, so that callers have one kind of failure to handle.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp
import msgspec

from allhands.api.errors import StatusError, status_from
from allhands.kube.connections import UNLIMITED, Connector, tls_context
from allhands.kube.counting import request_trace
from allhands.ports import (
    DEFAULT_DELETE,
    DEFAULT_WRITE,
    EVERYTHING,
    Deleted,
    DeleteOptions,
    Document,
    Event,
    Page,
    PatchType,
    Query,
    WriteOptions,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.kube.kubeconfig import Access
    from allhands.ports import Metrics

MAX_CONNECTIONS = 64
REQUEST_SECONDS = 60
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PATCH_TYPES: dict[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 (the API's own name)
    continue_: str = msgspec.field(default="", name="continue")
    remainingItemCount: int | None = None  # noqa: N815


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _WatchLine(msgspec.Struct):
    type: Any
    object: msgspec.Raw


_lists = msgspec.json.Decoder(_List)
_lines = msgspec.json.Decoder(_WatchLine)


class KubeObjects:
    """A client of an API server. Use as an async context manager."""

    def __init__(self, access: Access, metrics: Metrics | None = None) -> None:
        self._access = access
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        """Watches hold a connection each for long; they must not use up those of the requests."""

    async def __aenter__(self) -> KubeObjects:
        tls = tls_context(self._access)
        traces = [] if self._metrics is None else [request_trace(self._metrics)]
        self._session = aiohttp.ClientSession(connector=Connector(tls, MAX_CONNECTIONS), trace_configs=traces)
        self._watches = aiohttp.ClientSession(connector=Connector(tls, UNLIMITED), trace_configs=[*traces])
        return self

    async def __aexit__(self, *reason: object) -> None:
        del reason
        for session in (self._session, self._watches):
            if session is not None:
                await session.close()

    def _headers(self) -> dict[str, str]:
        token = self._access.token
        if self._access.token_file:
            token = Path(self._access.token_file).read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def request(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "application/json",
    ) -> Document:
        """Any request; raises the server's refusal."""
        assert self._session is not None, "used outside `async with`"
        headers = self._headers() | {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        url = self._access.server + path
        try:
            async with self._session.request(
                method, url, params=params, data=body, headers=headers, timeout=timeout
            ) as answer:
                raw = await answer.read()
                if answer.status >= 400:
                    raise refusal(answer.status, raw)
                return Document(raw, tuple(_warning(text) for text in answer.headers.getall("Warning", ())))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StatusError(503, "ServiceUnavailable", f"{self._access.server} cannot be reached: {error}") from error

    async def table(self, resource: Resource, query: Query = EVERYTHING) -> Document:
        """A list as the server would have it printed: a `Table` with columns and rows."""
        return await self.request("GET", path_to(resource, query.namespace), selection(query), accept=_TABLE)

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "", resource_version: str = ""
    ) -> Document:
        params = {"resourceVersion": resource_version} if resource_version else None
        return await self.request("GET", path_to(resource, namespace, name, subresource), params)

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page:
        answer = await self.request("GET", path_to(resource, query.namespace), selection(query))
        return _page(answer)

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> KubeWatch:
        params = selection(query) | {"watch": "true"}
        if bookmarks:
            params["allowWatchBookmarks"] = "true"
        if initial_events is not None:
            params["sendInitialEvents"] = "true" if initial_events else "false"
            params.setdefault("resourceVersionMatch", "NotOlderThan")
        assert self._watches is not None, "used outside `async with`"
        url = self._access.server + path_to(resource, query.namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS)
        try:
            answer = await self._watches.get(url, params=params, headers=self._headers(), timeout=timeout)
            if answer.status >= 400:
                raise refusal(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StatusError(503, "ServiceUnavailable", f"{self._access.server} cannot be reached: {error}") from error
        return KubeWatch(answer)

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document:
        return await self.request("POST", path_to(resource, namespace), _write(options), _encode(body))

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
        path = path_to(resource, namespace, name, subresource)
        return await self.request("PUT", path, _write(options), _encode(body))

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
        path = path_to(resource, namespace, name, subresource)
        return await self.request("PATCH", path, _write(options), msgspec.json.encode(patch), _PATCH_TYPES[patch_type])

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DEFAULT_DELETE
    ) -> Deleted:
        answer = await self.request("DELETE", path_to(resource, namespace, name), None, _delete_body(options))
        shown = answer.decode(_Shown)
        return Deleted(answer, gone=shown.is_gone, as_status=shown.kind == "Status")

    async def delete_all(
        self, resource: Resource, query: Query = EVERYTHING, options: DeleteOptions = DEFAULT_DELETE
    ) -> Page:
        path = path_to(resource, query.namespace)
        return _page(await self.request("DELETE", path, selection(query), _delete_body(options)))

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        head = {"apiVersion": "v1", "kind": "Binding"}
        metadata = {"name": name, "namespace": namespace} | binding.get("metadata", {})
        body = head | binding | {"metadata": metadata}
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/binding"
        await self.request("POST", path, _write(options), _encode(body))

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        head = {"apiVersion": "policy/v1", "kind": "Eviction"}
        metadata = {"name": name, "namespace": namespace} | eviction.get("metadata", {})
        body = head | eviction | {"metadata": metadata}
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/eviction"
        await self.request("POST", path, _write(options), _encode(body))


class KubeWatch:
    """The lines of a watch response as events. Lines may be of any length."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._events = self._read()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def _read(self) -> AsyncIterator[Event]:
        rest = b""
        with contextlib.suppress(aiohttp.ClientError):
            async for chunk in self._answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        decoded = _lines.decode(line)
                        yield Event(decoded.type, bytes(decoded.object))

    async def close(self) -> None:
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            # A graceful end of TLS would wait for a server that has nothing more to say.
            connection.transport.abort()
        self._answer.close()


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


def path_to(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object or one of its sub-resources."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    parts = [root]
    if namespace:
        parts.append(f"namespaces/{quote(namespace, safe='')}")
    parts.append(resource.plural)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def selection(query: Query) -> dict[str, str]:
    values = {
        "labelSelector": query.labels,
        "fieldSelector": query.fields,
        "resourceVersion": query.resource_version,
        "resourceVersionMatch": query.version_match,
        "limit": str(query.limit) if query.limit else "",
        "continue": query.continue_token,
    }
    return {name: value for name, value in values.items() if value}


def _write(options: WriteOptions) -> dict[str, str]:
    params: dict[str, str] = {"fieldValidation": options.field_validation}
    if options.dry_run:
        params["dryRun"] = "All"
    if options.field_manager:
        params["fieldManager"] = options.field_manager
    return params


def _delete_body(options: DeleteOptions) -> bytes:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if options.grace_seconds is not None:
        body["gracePeriodSeconds"] = options.grace_seconds
    if options.propagation:
        body["propagationPolicy"] = options.propagation
    preconditions = {"uid": options.uid, "resourceVersion": options.version}
    if any(preconditions.values()):
        body["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if options.dry_run:
        body["dryRun"] = ["All"]
    return msgspec.json.encode(body)


def _encode(body: Manifest | bytes) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _page(answer: Document) -> Page:
    listed = _lists.decode(answer.raw)
    meta = listed.metadata
    return Page(
        [bytes(item) for item in listed.items or ()], meta.resourceVersion, meta.continue_, meta.remainingItemCount
    )


def _warning(header: str) -> str:
    """The text of a `299 - "text"` header."""
    return header.partition('"')[2].rpartition('"')[0].replace('\\"', '"')


def refusal(code: int, raw: bytes) -> StatusError:
    """The error that a response stands for; a proxy in between may answer with something that is no `Status`."""
    with contextlib.suppress(msgspec.MsgspecError):
        status = msgspec.json.decode(raw)
        if isinstance(status, dict) and status.get("kind") == "Status":
            return status_from(status)
    return StatusError(code, "", raw.decode(errors="replace")[:500] or f"HTTP {code} without a body")
