"""Which object a text is of, and at which version, without reading the rest; and how objects are named by one text.

Nothing is kept here.
"""

from __future__ import annotations

import msgspec

from allhands.ports import Head


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Beginning(msgspec.Struct, gc=False):
    """What every object has."""

    metadata: _Meta


_beginnings = msgspec.json.Decoder(_Beginning)


def head_of(raw: bytes) -> Head:
    meta = _beginnings.decode(raw).metadata
    return Head(key_of(meta.namespace, meta.name), meta.uid, int(meta.resource_version or 0))


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name
