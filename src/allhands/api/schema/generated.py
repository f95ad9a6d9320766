"""Which schemas were made from our own types in this process: they are right, and need not be checked when they come.

A memory of texts only, so that a server that runs beside its installer starts as fast as one without kinds. A schema
that somebody else has written, or has changed by a letter, is not in it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

_KNOWN: Final[set[bytes]] = set()
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def remember(schema: Mapping[str, Any]) -> None:
    _KNOWN.add(_digest(schema))


def is_generated(schema: Mapping[str, Any]) -> bool:
    return bool(_KNOWN) and _digest(schema) in _KNOWN


def _digest(schema: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(_ENCODER.encode(schema)).digest()
