"""An object opened only as far as needed: its metadata decoded, its spec and status left as the text they are.

Most writes bring a spec that the server has seen before: the next pod of a gang, or an update that changes a label. For
those nothing but the metadata has to be looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.schema.definitions import META
from allhands.api.schema.typed import TypedSchema

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """The parts of an object that has nothing but a spec and a status."""

    metadata: dict[str, Any]
    spec: msgspec.Raw
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 (the API's own name)
    status: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(Envelope)
_encoder = msgspec.json.Encoder()
_metadata = TypedSchema(META + "ObjectMeta")


def opened(kind: Kind, body: Manifest | bytes) -> Envelope | None:
    """The envelope of a body that is plainly of this kind, its metadata in normal form; None if it needs more."""
    try:
        if isinstance(body, bytes):
            envelope = _decoder.decode(body)
        else:
            status = msgspec.Raw(_encoder.encode(body.get("status", {})))
            envelope = Envelope(body["metadata"], msgspec.Raw(_encoder.encode(body["spec"])), status=status)
            envelope.kind, envelope.apiVersion = body.get("kind", ""), body.get("apiVersion", "")
            if not body.keys() <= _FIELDS:
                return None
        envelope.metadata = _metadata.normal_form(envelope.metadata)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError, TypeError):
        return None
    if envelope.kind not in ("", kind.kind) or envelope.apiVersion not in ("", kind.api_version):
        return None
    return envelope


_FIELDS = frozenset(Envelope.__struct_fields__)


def stored(raw: bytes) -> Envelope:
    """The envelope of an object that this server stored."""
    return _decoder.decode(raw)


def closed(kind: Kind, metadata: Manifest, spec: bytes, status: bytes) -> Manifest:
    """The document with these parts, ready to be encoded; spec and status stay text."""
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "spec": msgspec.Raw(spec),
        "status": msgspec.Raw(status),
    }
