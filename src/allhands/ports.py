"""The seams to the outside: cluster state, clock, identifiers, metrics. Whoever acts on the world gets these passed in.

`Objects` is the one port through which everything reads and writes cluster state. It has the semantics of the
Kubernetes API; `store` implements it in process, `kube` over HTTP, and both pass the same conformance suite. Objects
cross the port as the JSON text they are stored as: a reader decodes only what it needs, a forwarder decodes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

if TYPE_CHECKING:
    import datetime
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from allhands.api.access.identity import User
    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource

T = TypeVar("T")

FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["Background", "Foreground", "Orphan"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
PatchType = Literal["json", "merge", "strategic", "apply"]


class Head(msgspec.Struct, frozen=True, gc=False):
    """Which object it is, and at which version."""

    key: str
    """`namespace/name`, or the name alone of what has no namespace."""
    uid: str
    version: int


class Document(msgspec.Struct, frozen=True):
    """One object as it is stored, undecoded."""

    raw: bytes
    warnings: tuple[str, ...] = ()
    """What the server had to say about the request, e.g. about unknown fields."""
    created: bool = False
    """The write made a new object."""
    head: Head | None = None
    """What `raw` begins with, from who knows it without looking."""

    def manifest(self) -> Manifest:
        return msgspec.json.decode(self.raw)  # type: ignore[no-any-return]

    def decode(self, type: type[T]) -> T:
        """Only the fields of `type`, which is much cheaper than the whole."""
        return msgspec.json.decode(self.raw, type=type)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a collection to list or watch. Selectors are in the API's own text form."""

    namespace: str = ""
    """Empty means all namespaces."""
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    version_match: str = ""
    limit: int = 0
    continue_token: str = ""


class Page(msgspec.Struct, frozen=True):
    """A list, or the part of it that was asked for. Items are undecoded and may lack `apiVersion` and `kind`."""

    items: list[bytes]
    version: str
    """The state of the collection that was listed; a watch goes on from here."""
    continue_token: str = ""
    remaining: int | None = None


class Event(msgspec.Struct, frozen=True):
    """One change of a watched collection. The object of an ERROR is a `Status`."""

    type: EventType
    raw: bytes
    head: Head | None = None
    """What `raw` begins with, from who knows it without looking."""

    def manifest(self) -> Manifest:
        return msgspec.json.decode(self.raw)  # type: ignore[no-any-return]


class PackedEvent(Event, frozen=True):
    """An event whose object came as a message in protobuf. Its text is made when it is read, each time: for those who
    see from the message that they need not read it, or not now."""

    envelope: bytes = b""
    unpacked: Callable[[bytes], bytes] = bytes
    """Gives the text; raises a `msgspec.MsgspecError` if there is none."""

    @property  # type: ignore[misc]
    def raw(self) -> bytes:
        return self.unpacked(self.envelope)


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a write is to be treated."""

    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    field_manager: str = ""
    """Who writes. One who applies must have a name."""
    force: bool = False
    """Whether to take over, in an apply, what others own."""
    tracked: bool = False
    """Whether it is kept from the beginning who owns the fields of what this makes, not only after an apply."""
    submitter: User | None = None
    """Whose rights the store looks at, where it is one that does; None is the cluster itself, which nobody asks."""


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an object is to go."""

    grace_seconds: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    """Delete only the object with this uid."""
    version: str = ""
    """Delete only this version of the object."""
    dry_run: bool = False


class Deleted(msgspec.Struct, frozen=True):
    """The answer to a delete: the object's last state, and whether it is gone or only marked."""

    document: Document
    gone: bool
    as_status: bool = False
    """The API answers with a `Status` instead of the object for this kind."""


DEFAULT_WRITE = WriteOptions()
DEFAULT_DELETE = DeleteOptions()
EVERYTHING = Query()


class Watch(Protocol):
    """A stream of changes. Closing it releases what it holds."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    async def close(self) -> None: ...


@runtime_checkable
class ReadyWatch(Protocol):
    """A watch that can say what has come already."""

    def poll(self) -> Event | None:
        """The next event if it has come."""

    async def more(self) -> bool:
        """Waits until more may have come; False if nothing will any more."""

    async def close(self) -> None: ...


@runtime_checkable
class LateWatch(ReadyWatch, Protocol):
    """One that need not make the texts of what has come."""

    def poll_late(self) -> Event | None:
        """The next event if it has come; it may be a `PackedEvent`."""


class Collections(Protocol):
    """The part of `Objects` by which everything of a kind is followed."""

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page: ...

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> Watch: ...


class Objects(Protocol):
    """Cluster state. Every refusal is an `allhands.api.errors.StatusError`."""

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "", resource_version: str = ""
    ) -> Document:
        """The object, not older than `resource_version`."""

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page: ...

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> Watch:
        """Changes since `query.resource_version`; without one, the present objects first, as ADDED events."""

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document: ...

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
        """Replaces the object, or with subresource="status" its status."""

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
        """Changes the object, or with subresource="status" its status. An `apply` says all that this manager wants of
        it, and makes it if it is not there. With subresource="scale" the patch (merge or apply) is of the object's
        Scale."""

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DEFAULT_DELETE
    ) -> Deleted: ...

    async def delete_all(
        self, resource: Resource, query: Query = EVERYTHING, options: DeleteOptions = DEFAULT_DELETE
    ) -> Page: ...

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        """Assigns a pod to a node, once and for all. `binding` is a v1 Binding."""

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        """Deletes a pod if its disruption budgets allow. `eviction` is a policy/v1 Eviction."""


class Clock(Protocol):
    """What time it is. Virtual in simulations."""

    def now(self) -> datetime.datetime:
        """The present moment, with its time zone."""


class Ids(Protocol):
    """Names and identifiers that must not repeat. Seeded in simulations."""

    def uid(self) -> str: ...

    def suffix(self) -> str:
        """Five characters that make a generated name unlike others."""


class Metrics(Protocol):
    """Where it is counted what happens. Families are known by name (`runtime.metric_families`), each with its labels;
    a name or a label that nobody declared is a mistake."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """So many more."""

    def observe(self, name: str, value: float, times: int = 1, /, **labels: str) -> None:
        """One more value of a distribution, or several that are equal."""

    def observe_all(self, name: str, values: Sequence[float], /, **labels: str) -> None:
        """Many values of a distribution, for less than each alone would cost."""

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """How much there is now."""

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """All there is now, by the values of the labels: what is not named is gone."""

    def refresh_with(self, source: str, refresh: Callable[[], None]) -> None:
        """Calls it whenever somebody reads, so that what changes often is only counted then. A later one of the same
        source takes the place of an earlier one."""
