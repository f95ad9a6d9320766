"""The one list of printers: which table belongs to a kind that the server knows by itself.

A family is one module with a `PRINTERS` mapping; it is added here. A kind nobody knows gets the default printer.
Kinds from custom resource definitions never come through here: `allhands.api.tables.custom` makes their printers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables import access, core, networking, nodes, pods, scheduling, storage, workloads
from allhands.api.tables.cells import at, name_of
from allhands.api.tables.column import AGE, NAME, Column, Printers, TablePrinter
from allhands.api.tables.duration import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest

FAMILIES: Final = (pods, nodes, workloads, core, networking, storage, scheduling, access)

PRINTERS: Final[Printers] = {key: printer for family in FAMILIES for key, printer in family.PRINTERS.items()}


def default_row(document: Manifest, _now: datetime) -> list[Json]:
    return [name_of(document), rfc3339(at(document, "metadata", "creationTimestamp"))]


DEFAULT: Final = TablePrinter(
    (NAME, Column("Created At", "date", description=AGE.description)), default_row, null_when_empty=True
)
"""What the server shows of kinds without a printer: limit ranges, roles, custom resource definitions."""


def printer_for(group: str, kind: str) -> TablePrinter:
    """How a built-in kind is shown. The core group is the empty text."""
    return PRINTERS.get((group, kind), DEFAULT)
