"""Get, list and watch, with the meanings that versions have for a reader."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import StatusError, bad_request, expired, go_quote, no_such_object
from allhands.ports import Document, Page, Query
from allhands.store.collection import Filter
from allhands.store.record import Key, shown
from allhands.store.watching import StoreWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.store import Store

MAX_VERSION_DIGITS = 20
_ENCODING = "meta.k8s.io/v1"
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


class ContinueToken(msgspec.Struct, frozen=True):
    """Where a paged list goes on: at which version, after which key."""

    rv: int = 0
    after: Key = ("", "")
    v: str = ""

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def _first_character(raw: bytes) -> str:
    """What Go's decoder says of a text that does not even begin like JSON."""
    if not raw:
        return "unexpected end of JSON input"
    first = chr(raw[0])
    shown = first if first.isprintable() else f"\\u{ord(first):04x}"
    return f"invalid character '{shown}' looking for beginning of value"


def _decode_token(text: str) -> ContinueToken:
    raw = b""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=ContinueToken)
    except (binascii.Error, ValueError) as error:
        why = _first_character(raw) if not raw.startswith(b"{") else str(error)
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from None
    if token.v != _ENCODING:
        why = f"server does not recognize this encoded version {token.v}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    return token


def get(store: Store, kind: Kind, name: str, namespace: str, resource_version: str = "") -> Document:
    if parse_version(resource_version, _unclassified) > store.seen_version:
        raise too_large_version(int(resource_version), store.seen_version)
    record = store.collection(kind).seen((namespace if kind.namespaced else "", name))
    if record is None:
        raise no_such_object(kind.group, kind.resource.plural, name)
    return Document(shown(kind, record.raw))


def list_page(store: Store, kind: Kind, query: Query) -> Page:
    collection = store.collection(kind)
    wanted = Filter(kind, query)
    after: Key | None = None
    version: int | None = None
    if query.continue_token:
        if query.resource_version and query.resource_version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _decode_token(query.continue_token)
        version, after = token.rv, token.after
    else:
        version = _listed_version(store, query)
    if version is not None and version < collection.journal.floor_version:
        raise expired(
            _CONTINUE_TOO_OLD
            if query.continue_token
            else f"The resourceVersion for the provided list is too old: {version} ({collection.journal.floor_version})"
        )
    # A list that may be of any age comes whole, whatever the limit.
    limit = 0 if query.resource_version == "0" and not query.continue_token else query.limit
    if version is None and collection.journal.hides:
        version = store.seen_version
    records, remaining = collection.page(wanted, limit, version, after)
    listed = store.seen_version if version is None else version
    token_text = ""
    if remaining != 0:
        token_text = ContinueToken(listed, records[-1].key, _ENCODING).encode()
    return Page([shown(kind, record.raw) for record in records], str(listed), token_text, remaining or None)


def _listed_version(store: Store, query: Query) -> int | None:
    """The exact past version to list, or None for the present."""
    match = query.version_match
    if match and not query.resource_version:
        raise _forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        raise _unsupported_match(match)
    if match == "Exact" and query.resource_version == "0":
        raise _forbidden_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    version = parse_version(query.resource_version, _bad_version)
    if version > store.seen_version:
        raise too_large_version(version, store.seen_version)
    if match == "Exact" or (not match and query.limit and version):
        return version
    return None


def _forbidden_match(why: str) -> StatusError:
    message = f"resourceVersionMatch: Forbidden: {why}"
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": "resourceVersionMatch"}
    return StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {message}',
        {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]},
    )


def _unsupported_match(match: str) -> StatusError:
    body = f'Unsupported value: {go_quote(match)}: supported values: "Exact", "NotOlderThan", ""'
    cause = {"reason": "FieldValueNotSupported", "message": body, "field": "resourceVersionMatch"}
    return StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {body}',
        {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]},
    )


def parse_version(text: str, refuse: Callable[[str], StatusError]) -> int:
    """The number in a resourceVersion; absent is 0."""
    if not text:
        return 0
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_VERSION_DIGITS:
        quoted = go_quote(text)
        raise refuse(f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: invalid syntax")
    return int(text)


def _bad_version(why: str) -> StatusError:
    return bad_request(f"invalid resource version: {why}")


def _unclassified(why: str) -> StatusError:
    """The real server answers this with a bare 500 where a version is read outside a list."""
    return StatusError(500, "", why)


def too_large_version(version: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def watch(
    store: Store, kind: Kind, query: Query, *, bookmarks: bool = False, initial_events: bool | None = None
) -> StoreWatch:
    collection = store.collection(kind)
    wanted = Filter(kind, query)
    version = parse_version(query.resource_version, _unclassified)
    journal = collection.journal
    if initial_events and version > store.seen_version:
        raise too_large_version(version, store.seen_version)
    initial = initial_events if initial_events is not None else version == 0
    if not initial and version and version < journal.floor_version:
        raise expired(f"too old resource version: {version} ({journal.floor_version})")
    position = journal.end_position if initial or not version else journal.position_after(version)
    return StoreWatch(
        collection,
        kind,
        wanted,
        position=position,
        after_version=version,
        initial_version=store.seen_version if initial else None,
        mark_initial_end=bool(initial_events) and bookmarks,
        empty_object=lambda at: empty_object(kind, at),
        bookmarks=bookmarks,
    )


def empty_object(kind: Kind, version: int) -> Manifest:
    """What a bookmark carries: an object of the kind with nothing but a version."""
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    document: Manifest = head | kind.shape.check(head).document
    document["metadata"] = {"resourceVersion": str(version)}
    return document
