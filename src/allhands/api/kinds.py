"""What a kind is to the API: its names, its scope, its sub-resources and what can be selected by.

A `Kind` is data plus the behaviour the server needs of it; the visible list of built-in kinds is in `catalog`, custom
kinds are made from their definitions by `custom`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from allhands.api import names
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.api.apply.field_type import FieldType
    from allhands.api.document import Json, Manifest
    from allhands.api.patch.strategic import MergeSchema
    from allhands.api.tables.column import TablePrinter


REPLICAS: Final = ("spec", "replicas")
"""Where built-in kinds, and the scale of any kind, say how many are wanted."""


class ScalePlaces(msgspec.Struct, frozen=True):
    """Where an object has what its scale shows."""

    wanted: tuple[str, ...] = REPLICAS
    present: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()
    """Where the selector stands as text; built-in kinds have it as an object at a place of its own."""


class Resource(msgspec.Struct, frozen=True):
    """A collection as it is addressed in a URL: group, version and plural name."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Shape(Protocol):
    """The schema of a kind, as the store uses it."""

    def check(self, document: Manifest) -> Checked:
        """The document in normal form, the unknown fields it had, or why it cannot be decoded."""

    def decoded(self, body: bytes) -> Manifest | None:
        """The text's document in normal form, if nothing is wrong with it; None if it has to be looked at."""

    def encoded(self, document: Manifest) -> bytes:
        """A checked document, after rules added to it, as the text that is stored and shown, kind and version first."""

    def worked_form(self, stored: Manifest) -> Manifest:
        """A stored document as rules work on it: the way back from what is stored."""


class Checked(msgspec.Struct):
    """The outcome of holding a document against its schema."""

    document: Manifest
    unknown: list[str] = []
    """Paths of fields that the schema does not know and that are not in `document` any more."""
    mismatch: str = ""
    """Why the document cannot be decoded at all; `document` is worthless then."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind in one version."""

    resource: Resource
    kind: str
    list_kind: str = ""
    """What a list of these is called, where that is not the kind's name with `List` after it."""
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    subresources: tuple[str, ...] = ()
    has_generation: bool = False
    """The server counts changes of the desired state in `metadata.generation`."""
    keeps_first_status: bool = False
    """A status that comes with the new object is kept (nodes); of other kinds it is dropped."""
    generation_follows: tuple[str, ...] = ()
    """Metadata fields whose changes are counted too."""
    generation_rises: bool = True
    """False where the generation stays what it was at birth."""
    allow_unconditional_update: bool = True
    """An update without a resourceVersion overwrites whatever is there."""
    allow_create_on_update: bool = False
    """A PUT to a name that does not exist creates the object."""
    graceful_deletion: bool = False
    """Deleting marks the object and leaves its end to somebody else (pods: the kubelet)."""
    returns_deleted: bool = False
    """A delete answers with the object instead of a `Status`."""
    orphans_by_default: bool = False
    """Deleting without a propagation policy leaves the dependents alone."""
    name_check: Callable[[str], list[str]] = names.dns1123_subdomain
    any_finalizer: bool = False
    """Whether finalizers without a domain may have any name; most built-in kinds know only a few."""
    rules: Rules = Rules()
    shape: Shape
    selectable: tuple[str, ...] = ()
    """Field paths beyond `metadata.name` and `metadata.namespace` that field selectors may use."""
    indexed: tuple[str, ...] = ()
    """The selectable fields by which objects are found without a scan."""
    select: Callable[[Manifest], tuple[str, ...]] = lambda _document: ()
    """The values of `selectable` for one object, in that order."""
    selected: tuple[str, ...] = ()
    """The fields whose values `select` gives, if those are more: of all versions of a custom kind."""
    merge_schema: MergeSchema | None = None
    """Merge keys for strategic-merge patches; None where the kind has none (custom kinds)."""
    field_types: Mapping[str, Callable[[], FieldType]] = {}
    """How the fields of objects are told apart when somebody applies, in each version of the kind that there is."""
    scales: Mapping[str, ScalePlaces | None] = {}
    """Where the scale of objects stands, in each version; None in those that have no scale."""
    printer: TablePrinter
    definition: str = ""
    """The name of the kind's published definition, for OpenAPI."""
    storage: Resource | None = None
    """Where objects live if another version or group is the one that is stored (events.k8s.io)."""
    stored_names: Mapping[str, str] = {}
    """The stored names of those top fields that are called otherwise here."""
    custom: bool = False
    deprecation: str = ""
    """What whoever uses the kind in this version is warned with."""
    is_question: bool = False
    """It is answered at once and stored nowhere (access reviews)."""
    is_measured: bool = False
    """It is measured when somebody asks and stored nowhere (metrics.k8s.io)."""
    open_api_schema: Json = None
    """The structural schema of a custom kind."""

    @property
    def api_version(self) -> str:
        return self.resource.api_version

    @property
    def group(self) -> str:
        return self.resource.group

    @property
    def listed_as(self) -> str:
        """The kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


def dotted(document: Manifest, path: str) -> str:
    """The value at a dotted path as a selector compares it: absent is empty, booleans are lower case."""
    value: Json = document
    for name in path.split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(name)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def selector_by_paths(paths: tuple[str, ...]) -> Callable[[Manifest], tuple[str, ...]]:
    """A `select` function for fields that are selected by the path at which they stand."""
    return lambda document: tuple(dotted(document, path) for path in paths)


class Kinds(Protocol):
    """The kinds that are served at the moment; `revision` tells when to look again."""

    @property
    def revision(self) -> int: ...

    def find(self, resource: Resource) -> Kind | None: ...

    def all(self) -> Sequence[Kind]: ...


class KindRegistry:
    """The kinds that are served at the moment. Custom kinds come and go; `revision` tells when to look again."""

    def __init__(self, kinds: Sequence[Kind] = ()) -> None:
        self._kinds: dict[Resource, Kind] = {}
        self.revision = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._kinds[kind.resource] = kind
        self.revision += 1

    def remove(self, resource: Resource) -> None:
        self._kinds.pop(resource, None)
        self.revision += 1

    def find(self, resource: Resource) -> Kind | None:
        return self._kinds.get(resource)

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind that a manifest names."""
        return next((k for k in self._kinds.values() if k.kind == kind and k.api_version == api_version), None)

    def all(self) -> Sequence[Kind]:
        return list(self._kinds.values())
