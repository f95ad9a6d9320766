"""What is wrong with an object that cannot be decoded, in words with the path of the field: for its owner to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import msgspec

LONGEST_PROBLEM: Final = 200


def what_is_wrong(error: msgspec.DecodeError) -> str:
    """ "spec.weight: expected ..." of "Expected ... - at `$.spec.weight`"."""
    what, _, where = str(error).rpartition(" - at `$")
    what, path = (what or where)[:LONGEST_PROBLEM], where.rstrip("`").lstrip(".") if what else ""
    return f"{path}: {what[:1].lower()}{what[1:]}" if path else what
