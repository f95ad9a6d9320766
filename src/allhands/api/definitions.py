"""The definition of a kind of ours: names, versions, columns, sub-resources, and the manifest that a server takes.

A kind is declared once, as data beside its types; the CustomResourceDefinition is generated from both and never typed
by hand. Everything a server would fill in is said, so that what is stored equals what was generated.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from allhands.api.kinds import Resource
from allhands.api.schema.generated import remember
from allhands.api.schema.of_structs import schema_of

if TYPE_CHECKING:
    from allhands.api.document import Manifest

DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"
OURS: Final = "allhands"
_ENVELOPE: Final[Manifest] = {
    "apiVersion": {
        "type": "string",
        "description": "The group and version of the API that this object is written in.",
    },
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`. With a priority above 0 it is shown only with `-o wide`."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    description: str = ""
    priority: int = 0

    def manifest(self) -> Manifest:
        column: Manifest = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        if self.priority:
            column["priority"] = self.priority
        return column


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class Scale(msgspec.Struct, frozen=True):
    """Where the numbers stand that `kubectl scale` and autoscalers read and write."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a kind. Exactly one is the stored one.

    `type` is the whole object but for `apiVersion`, `kind` and `metadata`. Without `status` the status is written by
    plain updates, as upstream has it for some kinds.
    """

    name: str
    type: type[msgspec.Struct]
    served: bool = True
    stored: bool = True
    status: bool = True
    scale: Scale | None = None
    columns: tuple[Column, ...] = (AGE,)
    selectable: tuple[str, ...] = ()
    """Paths that field selectors may use, with their leading dot."""
    deprecation: str = ""

    def manifest(self) -> Manifest:
        version: Manifest = {
            "name": self.name,
            "served": self.served,
            "storage": self.stored,
            "schema": {"openAPIV3Schema": msgspec.json.decode(_schema_text(self.type))},
        }
        if self.deprecation:
            version |= {"deprecated": True, "deprecationWarning": self.deprecation}
        if subresources := self._subresources():
            version["subresources"] = subresources
        if self.columns:
            version["additionalPrinterColumns"] = [column.manifest() for column in self.columns]
        if self.selectable:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        return version

    def _subresources(self) -> Manifest:
        found: Manifest = {"status": {}} if self.status else {}
        if self.scale is not None:
            found["scale"] = {
                "specReplicasPath": self.scale.spec_replicas,
                "statusReplicasPath": self.scale.status_replicas,
            }
            if self.scale.label_selector:
                found["scale"]["labelSelectorPath"] = self.scale.label_selector
        return found


@functools.cache
def _schema_text(type: type[msgspec.Struct]) -> bytes:
    """The schema of a whole object. Kept as a text: everybody gets one of their own, and making it takes longer."""
    schema = schema_of(type)
    own = {name: it for name, it in (schema.get("properties") or {}).items() if name not in _ENVELOPE}
    schema["properties"] = _ENVELOPE | own
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in _ENVELOPE]
    schema = {key: value for key, value in schema.items() if value != []}
    remember(schema)
    return msgspec.json.encode(schema)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of ours."""

    group: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = (OURS,)
    versions: tuple[Version, ...]

    @property
    def name(self) -> str:
        """That of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def stored_version(self) -> Version:
        return next(version for version in self.versions if version.stored)

    @property
    def resource(self) -> Resource:
        """How objects are addressed in the stored version."""
        return Resource(self.group, self.stored_version.name, self.plural)

    @property
    def api_version(self) -> str:
        return self.resource.api_version

    def manifest(self) -> Manifest:
        """The CustomResourceDefinition, new every time."""
        names: dict[str, Any] = {
            "plural": self.plural,
            "singular": self.kind.lower(),
            "kind": self.kind,
            "listKind": f"{self.kind}List",
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        if self.categories:
            names["categories"] = list(self.categories)
        metadata: Manifest = {"name": self.name, "labels": {MANAGED_BY: OURS}}
        if self.group.endswith((".k8s.io", ".kubernetes.io")):
            # Servers refuse these groups otherwise; the value says that this is nobody's official definition.
            metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, served by allhands"}
        return {
            "apiVersion": DEFINITIONS.api_version,
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": self.group,
                "names": names,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [version.manifest() for version in self.versions],
                "conversion": {"strategy": "None"},
            },
        }
