"""Puts a Table document (meta.k8s.io/v1) together from a printer and objects, with the fields a real server writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from allhands.api.document import Json, Manifest
    from allhands.api.tables.column import Describe, TablePrinter

IncludeObject = Literal["None", "Metadata", "Object"]

_API_VERSION: Final = "meta.k8s.io/v1"
_NOT_IN_METADATA: Final = "deprecated.daemonset.template.generation"
"""To the real server this annotation is a field of the spec, so the metadata in a row lacks it."""


def table_document(
    printer: TablePrinter,
    objects: Iterable[Manifest],
    now: datetime,
    *,
    describe: Describe,
    list_metadata: Mapping[str, Json],
    include_object: IncludeObject = "Metadata",
    headers: bool = True,
) -> Manifest:
    """The Table of some objects of one kind.

    `list_metadata` is the metadata of the list, or of the table of a single object just its `resourceVersion`.
    `headers` is false in every event of a watch but the first: there `columnDefinitions` is null.
    """
    rows = [_row(printer, document, now, include_object) for document in objects]
    return {
        "kind": "Table",
        "apiVersion": _API_VERSION,
        "metadata": {field: value for field, value in list_metadata.items() if value not in ("", None)},
        "columnDefinitions": [column.definition(describe) for column in printer.columns] if headers else None,
        "rows": None if not rows and printer.null_when_empty else rows,
    }


def _row(printer: TablePrinter, document: Manifest, now: datetime, include_object: IncludeObject) -> Manifest:
    row: Manifest = {"cells": printer.row(document, now)}
    if conditions := printer.conditions(document):
        row["conditions"] = conditions
    row["object"] = _included(document, include_object)
    return row


def _included(document: Manifest, include_object: IncludeObject) -> Manifest | None:
    if include_object == "None":
        return None
    if include_object == "Object":
        return document
    return {"kind": "PartialObjectMetadata", "apiVersion": _API_VERSION, "metadata": _metadata(document)}


def _metadata(document: Manifest) -> Manifest:
    metadata: Manifest = document.get("metadata", {})
    annotations = metadata.get("annotations", {})
    if _NOT_IN_METADATA not in annotations:
        return metadata
    kept = {key: value for key, value in annotations.items() if key != _NOT_IN_METADATA}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**rest, "annotations": kept} if kept else rest
