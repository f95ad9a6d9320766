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
    from collections.abc import Callable

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


class Texts(msgspec.Struct, forbid_unknown_fields=True):
    """The same, with nothing decoded. No text: the object has no such part."""

    metadata: msgspec.Raw
    spec: msgspec.Raw
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 (the API's own name)
    status: msgspec.Raw = msgspec.Raw(b"")


_texts = msgspec.json.Decoder(Texts)
_VERSION = b'"resourceVersion":"'


def texts_of(raw: bytes) -> Texts:
    """The parts of an object that this server stored."""
    return _texts.decode(raw)


def rewritten(texts: Texts, spec: bytes, status: bytes) -> Callable[[int], bytes] | None:
    """Given a version, the object's text with that, this spec and this status. None if it is not plain where the
    version stands: a label may have that name too."""
    metadata = bytes(texts.metadata)
    begin = metadata.find(_VERSION) + len(_VERSION)
    if begin < len(_VERSION) or metadata.find(_VERSION, begin) >= 0:
        return None
    head = f'{{"kind":"{texts.kind}","apiVersion":"{texts.apiVersion}","metadata":'.encode() + metadata[:begin]
    end = (b',"status":', status, b"}") if status else (b"}",)
    tail = b"".join((metadata[metadata.index(b'"', begin) :], b',"spec":', spec, *end))
    return lambda version: b"%b%d%b" % (head, version, tail)


def with_metadata(raw: bytes, texts: Texts, metadata: Manifest) -> Callable[[int], bytes]:
    """Given a version, the object's text with that and this metadata in the place of what it had."""
    before = bytes(texts.metadata)
    begin = raw.index(before)
    head, tail = raw[:begin], raw[begin + len(before) :]

    def text(version: int) -> bytes:
        metadata["resourceVersion"] = str(version)
        return b"".join((head, _encoder.encode(metadata), tail))

    return text


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


def in_order(metadata: Manifest) -> Manifest:
    """The same fields in the order in which the server writes them."""
    return _metadata.normal_form(metadata)


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


_HOLE = "\0a value of its own\0"
_HOLE_TEXT = msgspec.json.encode(_HOLE)


def without_values(spec: bytes) -> tuple[bytes, list[str]] | None:
    """The spec with its plain environment values taken out, and those values in order; None if it has none.

    The pods of a gang often differ in nothing else: each is told its rank. A value may be any text, so nothing that the
    server decides depends on it. (An empty one does matter: it is not stored, so it stays in.)"""
    try:
        decoded = msgspec.json.decode(spec)
        values = [
            (variable, variable["value"])
            for field in ("initContainers", "containers")
            for container in decoded.get(field) or ()
            for variable in container.get("env") or ()
            if len(variable) == 2 and variable.get("name") and variable.get("value")
        ]
    except (msgspec.DecodeError, AttributeError, TypeError, KeyError):
        return None
    if not values or not all(isinstance(value, str) for _, value in values):
        return None
    for variable, _ in values:
        variable["value"] = _HOLE
    return _encoder.encode(decoded), [value for _, value in values]


def pieces_around(blank: bytes) -> tuple[bytes, ...]:
    """The text of a spec without values, cut where they belong."""
    return tuple(blank.split(_HOLE_TEXT))


def filled(pieces: tuple[bytes, ...], values: list[str]) -> bytes:
    """The spec with the values in their places."""
    parts = [pieces[0]]
    for piece, value in zip(pieces[1:], values, strict=True):
        parts += [_encoder.encode(value), piece]
    return b"".join(parts)
