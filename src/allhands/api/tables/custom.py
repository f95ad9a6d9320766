"""The printer of a custom resource: what `additionalPrinterColumns` of its definition ask for.

Cells are converted as a real server converts them: a value that does not fit the type of its column is an empty cell,
never an error, because a bad column must not hide a whole list.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import integer_at, name_of, text_at
from allhands.api.tables.column import AGE, NAME, Column, TablePrinter
from allhands.api.tables.duration import UNKNOWN, human_since
from allhands.api.tables.jsonpath import PathEvaluationError, PathSyntaxError, Step, compile_path, find

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from allhands.api.document import Json, Manifest

_AGE_PATH: Final = ".metadata.creationTimestamp"
_PLAIN_FLOAT_LIMIT: Final = 1e21
"""From here on Go writes a float with an exponent."""

_HTML_ESCAPES: Final = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def custom_printer(columns: Iterable[Manifest]) -> TablePrinter:
    """The printer for `additionalPrinterColumns` of one version; without any, the age is shown.

    A column whose path is malformed ends the table: those before it are shown, as in the real server.
    """
    shown: list[tuple[Column, Step]] = []
    for definition in columns:
        try:
            path = compile_path(text_at(definition, "jsonPath"))
        except PathSyntaxError:
            break
        shown.append((_column(definition), path))
    else:
        if not shown:
            shown.append((Column("Age", "date", description=AGE.description), compile_path(_AGE_PATH)))

    def row(document: Manifest, now: datetime) -> list[Json]:
        return [name_of(document), *(_cell(column.type, path, document, now) for column, path in shown)]

    return TablePrinter((NAME, *(column for column, _ in shown)), row)


def _column(definition: Manifest) -> Column:
    path = text_at(definition, "jsonPath")
    return Column(
        text_at(definition, "name"),
        text_at(definition, "type"),
        text_at(definition, "format"),
        text_at(definition, "description") or f"Custom resource definition column (in JSONPath format): {path}",
        integer_at(definition, "priority"),
    )


def _cell(type: str, path: Step, document: Manifest, now: datetime) -> Json:
    """Only the first value found is shown, also of a path that finds many."""
    try:
        found = find(path, document)
    except PathEvaluationError:
        return None
    if not found:
        return None
    return _text(found[0]) if type == "string" else _typed(type, found[0], now)


def _typed(type: str, value: Json, now: datetime) -> Json:
    match type, value:
        case "boolean", bool():
            return value
        case "integer" | "number", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            # A whole number is written without a fraction, also in a column of fractions.
            return int(value) if value == int(value) else value
        case "date", "null":
            return UNKNOWN
        case "date", str():
            return human_since(value, now)
    return None


def _text(value: Json) -> str:
    if value is None:
        return "<no value>"
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Json) -> str:
    """Compact JSON as Go writes it: sorted keys, whole floats without a fraction, HTML escaped in strings."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json_text(key)}:{_json_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_text, value)) + "]"
    if isinstance(value, float) and value == int(value) and abs(value) < _PLAIN_FLOAT_LIMIT:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False).translate(_HTML_ESCAPES)
