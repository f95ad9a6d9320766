"""Holding a document of a built-in kind against its schema: the fast decoder first, the diagnosis when it refuses."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from allhands.api.kinds import Checked
from allhands.api.schema.diagnosis import Diagnosis
from allhands.api.schema.typed import TypedSchema, drop_nulls

if TYPE_CHECKING:
    from allhands.api.document import Manifest


class TypedShape:
    """The shape of a built-in kind. Its types are built when the first object comes."""

    def __init__(self, definition: str) -> None:
        self._definition = definition

    @functools.cached_property
    def _schema(self) -> TypedSchema:
        return TypedSchema(self._definition)

    def check(self, document: Manifest) -> Checked:
        try:
            return Checked(self._schema.normal_form(document))
        except msgspec.ValidationError:
            pass
        diagnosis = Diagnosis(document, self._definition)
        if diagnosis.mismatch:
            return Checked({}, mismatch=diagnosis.mismatch)
        try:
            return Checked(self._schema.normal_form(diagnosis.pruned), diagnosis.unknown)
        except msgspec.ValidationError as error:
            return Checked({}, mismatch=str(error))

    def decoded(self, body: bytes) -> Manifest | None:
        try:
            return self._schema.decoded(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def encoded(self, document: Manifest) -> bytes:
        return self._schema.encoded(document)

    def worked_form(self, stored: Manifest) -> Manifest:
        return drop_nulls(stored)  # type: ignore[no-any-return]
