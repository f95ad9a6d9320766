"""From what a client sent to a document in normal form, or to a clear refusal.

The order is the real server's: is it JSON at all, is it of this kind, can it be decoded, has it unknown fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import bad_request, go_quote, invalid, invalid_object
from allhands.api.schema.definitions import is_published, published_definition
from allhands.api.schema.shape import TypedShape

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import FieldValidation


_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
"""A place in the real server's source that its message names; clients match the whole text."""
_EVENT_VERSIONS: Final = frozenset({"v1", "events.k8s.io/v1"})
"""One kind in two groups: each could be converted into the other, so that it is the version that is refused."""


def decode(body: Manifest | bytes) -> Manifest:
    """The JSON object in `body`, of any shape."""
    if isinstance(body, dict):
        return body
    try:
        document: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(document, dict):
        names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        what = names.get(type(document), "null")
        target = (
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type {target}"
        )
    return document


def check_kind(kind: Kind, document: Manifest) -> None:
    """Refuses a document that says it is something else; one that says nothing is taken at the URL's word."""
    api_version = document.get("apiVersion") or kind.api_version
    name = document.get("kind") or kind.kind
    for field, value in (("apiVersion", api_version), ("kind", name)):
        if not isinstance(value, str):
            raise bad_request(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {field} into a string"
            )
    if (api_version, name) == (kind.api_version, kind.kind):
        return
    if kind.custom and api_version == kind.api_version:
        named = (document.get("metadata") or {}).get("name", "")
        raise invalid_object(kind.group, name, named, [invalid("kind", name, f"must be {kind.kind}")])
    if kind.custom or (name == kind.kind == "Event" and api_version in _EVENT_VERSIONS):
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        )
    version = api_version.rpartition("/")[2]
    if is_published(api_version, name):
        target = f"{kind.group.partition('.')[0] or 'core'}.{kind.kind}"
        # The real server decodes what the body says it is, and only then sees that it does not belong here.
        fault = TypedShape(published_definition(api_version, name)).check(document).mismatch
        why = fault or f"converting ({version}.{name}) to ({target}): unknown conversion"
    else:
        why = f"no kind {go_quote(name)} is registered for version {go_quote(api_version)} {_SCHEME}"
    raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def in_normal_form(kind: Kind, document: Manifest, validation: FieldValidation) -> tuple[Manifest, tuple[str, ...]]:
    """The document as it would be stored, and warnings. The caller's document is left as it was."""
    checked = kind.shape.check(document)
    prefix = f'{kind.kind} in version "{kind.resource.version}" cannot be handled as a {kind.kind}: '
    if checked.mismatch:
        raise bad_request(prefix + checked.mismatch)
    warnings: tuple[str, ...] = ()
    if checked.unknown and validation != "Ignore":
        complaints = [f"unknown field {go_quote(path)}" for path in checked.unknown]
        if validation == "Strict":
            raise bad_request(f"{prefix}strict decoding error: {', '.join(complaints)}")
        warnings = tuple(complaints)
    return _headed(kind, checked.document), warnings


def _headed(kind: Kind, document: Manifest) -> Manifest:
    """The document with kind and version first: lists of built-in kinds leave this head out by cutting the text."""
    return {"kind": kind.kind, "apiVersion": kind.api_version} | {
        name: value for name, value in document.items() if name not in ("kind", "apiVersion")
    }


def read(kind: Kind, body: Manifest | bytes, validation: FieldValidation) -> tuple[Manifest, tuple[str, ...]]:
    """`decode`, `check_kind` and `in_normal_form` in one."""
    if isinstance(body, bytes) and (decoded := kind.shape.decoded(body)) is not None:
        check_kind(kind, decoded)
        return _headed(kind, decoded), ()
    document = decode(body)
    check_kind(kind, document)
    return in_normal_form(kind, document, validation)
