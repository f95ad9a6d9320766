"""A server's `Table` as text that fits a terminal: the columns of priority 0, as wide as they need to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allhands.api.document import Manifest

MAX_WIDTH = 100
_GAP = "   "


def table_text(table: Manifest) -> str:
    """Header and rows, one line each; lines that would be longer than a terminal is wide are cut with an ellipsis."""
    shown = [index for index, column in enumerate(table["columnDefinitions"]) if not column.get("priority")]
    lines = [[table["columnDefinitions"][index]["name"].upper() for index in shown]]
    lines += [[_cell(row["cells"][index]) for index in shown] for row in table.get("rows") or ()]
    widths = [max(len(line[column]) for line in lines) for column in range(len(shown))]
    rendered = (
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
    return "\n".join(text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 1] + "…" for text in rendered)


def _cell(value: Any) -> str:
    return "<none>" if value is None or value == "" else str(value)
