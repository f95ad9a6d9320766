"""The old OpenAPI document, as small as it can be: kubectl wants one before it reads a `kind: List` from a file.

It describes nothing, and kubectl then leaves the checks to the server, which makes them anyhow. All schemas are in the
OpenAPI v3 documents; nothing may be added here that is not there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.server.discovery import KUBERNETES_MINOR, tagged

if TYPE_CHECKING:
    from allhands.server.answers import Answer
    from allhands.server.request import Request

_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_GIVEN: Final = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE: Final = "Kubernetes"
_VERSION: Final = f"1.{KUBERNETES_MINOR}"


def _field(number: int, value: bytes) -> bytes:
    """A short field of bytes in protobuf: tag, length, value."""
    return bytes((number << 3 | 2, len(value))) + value


_PROTOBUF: Final = _field(1, b"2.0") + _field(2, _field(1, _TITLE.encode()) + _field(2, _VERSION.encode()))
_JSON: Final = msgspec.json.encode({"swagger": "2.0", "info": {"title": _TITLE, "version": _VERSION}, "paths": {}})


def answer(request: Request) -> Answer:
    """The document, in protobuf if that is accepted."""
    accepted = {part.partition(";")[0].strip() for part in request.header(b"accept").split(",")}
    body, media_type = (_PROTOBUF, _GIVEN) if _ASKED in accepted else (_JSON, b"application/json")
    return tagged(request, body, f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode(), media_type)
