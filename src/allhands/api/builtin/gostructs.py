"""Values that a refusal shows the way a Go server prints its own types: fields in the order they were declared.

Plain dicts stand for maps, which are printed sorted; these stand for structs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from allhands.api.document import Json


@lru_cache(maxsize=64)
def _type_with(names: tuple[str, ...]) -> type[msgspec.Struct]:
    return msgspec.defstruct("GoStruct", [(name, Any) for name in names], frozen=True)


def go_struct(**fields: Json) -> msgspec.Struct:
    return _type_with(tuple(fields))(**fields)
