"""The two values a table is made of: a column, and a printer that gives the cells of one object.

Most column descriptions of a real server are the API documentation of a field. A column names that field, so that
nobody types the text again; `describe` looks it up when a table is rendered. Nothing here reads a clock or a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Protocol

import msgspec

from allhands.api.document import Json, Manifest

_ENUM_LIST: Final = "\n\nPossible enum values:"

Row = Callable[[Manifest, datetime], list[Json]]
"""(object, now) -> its cells, one per column."""

RowConditions = Callable[[Manifest], list[Manifest]]


class Describe(Protocol):
    """Looks up the documentation of a field; the empty text where there is none."""

    def __call__(self, definition: str, field: str) -> str: ...


class FieldDoc(msgspec.Struct, frozen=True):
    """A description that is the API documentation of one field."""

    definition: str
    """The full name of the OpenAPI definition, such as `io.k8s.api.core.v1.PodSpec`."""

    field: str


class Column(msgspec.Struct, frozen=True):
    """One column. Priority 0 is always shown; a higher one only in wide output."""

    name: str
    type: str = "string"
    format: str = ""
    description: str | FieldDoc = ""
    priority: int = 0

    def definition(self, describe: Describe) -> Manifest:
        """The column as `columnDefinitions` has it."""
        doc = self.description
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": describe(doc.definition, doc.field) if isinstance(doc, FieldDoc) else doc,
            "priority": self.priority,
        }


def no_conditions(_object: Manifest) -> list[Manifest]:
    return []


class TablePrinter(msgspec.Struct, frozen=True):
    """How one kind is shown."""

    columns: tuple[Column, ...]
    row: Row
    conditions: RowConditions = no_conditions
    """What is said about the row as a whole: that its object has completed."""

    null_when_empty: bool = False
    """The default printer of a real server writes `rows: null`, not `rows: []`, for an empty list."""


Printers = Mapping[tuple[str, str], TablePrinter]
"""By (group, kind); the core group is the empty text."""

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
CORE: Final = "io.k8s.api.core.v1."
APPS: Final = "io.k8s.api.apps.v1."
BATCH: Final = "io.k8s.api.batch.v1."
STORAGE: Final = "io.k8s.api.storage.v1."

NAME: Final = Column("Name", format="name", description=FieldDoc(META + "ObjectMeta", "name"))
AGE: Final = Column("Age", description=FieldDoc(META + "ObjectMeta", "creationTimestamp"))
CONTAINERS: Final = Column("Containers", description="Names of each container in the template.", priority=1)
IMAGES: Final = Column("Images", description="Images referenced by each container in the template.", priority=1)


def documented(name: str, definition: str, field: str, *, type: str = "string", priority: int = 0) -> Column:
    """A column that is described by the documentation of a field."""
    return Column(name, type, "", FieldDoc(definition, field), priority)


def described(name: str, description: str, *, type: str = "string", priority: int = 0) -> Column:
    """A column with words of its own."""
    return Column(name, type, "", description, priority)


def describe_from(definitions: Mapping[str, Json]) -> Describe:
    """Looks descriptions up in OpenAPI definitions, by full name.

    The published definitions append the list of enum values to a text; a server's own documentation does not.
    """

    def describe(definition: str, field: str) -> str:
        properties = definitions.get(definition, {}).get("properties", {})
        text = properties.get(field, {}).get("description", "")
        return str(text).partition(_ENUM_LIST)[0]

    return describe
