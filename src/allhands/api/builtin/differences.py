"""Shows what an update tried to change, as the lines that differ. Only refusals contain it.

The real server prints its internal Go types here; ours prints the fields as users write them.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.api.document import Json

_MAX_LINES = 3000
"""Comparing takes quadratic time at worst; nobody reads more."""


def _lines(value: Json) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).split("\n")


def unified(old: Json, new: Json) -> str:
    """The lines that differ, with a few lines around them."""
    before, after = (_lines(value) for value in (old, new))
    if len(before) + len(after) > _MAX_LINES:
        return ""
    return "".join(f"{line}\n" for line in list(difflib.unified_diff(before, after, lineterm=""))[2:])
