"""Query parameters, checked and turned into the options of the port. Refusals have the real server's words.

Unknown parameters are ignored, as the real server does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import msgspec

from allhands.api import errors
from allhands.api.delete_options import delete_option_errors, dry_run_errors
from allhands.api.errors import (
    FieldError,
    StatusError,
    bad_request,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
)
from allhands.api.selectors import parse_field_selector, parse_label_selector
from allhands.ports import DeleteOptions, FieldValidation, PatchType, Propagation, Query, WriteOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Json, Manifest
    from allhands.server.request import Request

_MAX_INT64: Final = 2**63 - 1
MAX_MANAGER_BYTES: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")


def _refused(options_kind: str, found: list[FieldError]) -> StatusError:
    return errors.invalid_object("meta.k8s.io", options_kind, "", found)


def integer(request: Request, name: str) -> int | None:
    text = request.parameter(name)
    if not text:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    if len(digits) > 19 or abs(int(digits)) > _MAX_INT64:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return int(text)


def flag(request: Request, name: str) -> bool | None:
    """A boolean as the API reads it: anything but `false` and `0` is true."""
    values = request.query.get(name)
    if values is None:
        return None
    return values[0].lower() not in ("false", "0")


class WatchTerms(msgspec.Struct, frozen=True):
    """What a watcher asked for beyond the selection."""

    bookmarks: bool
    initial_events: bool | None
    timeout_seconds: int | None


def is_watch(request: Request) -> bool:
    return bool(flag(request, "watch"))


def selection(request: Request, namespace: str, *, name: str = "") -> Query:
    """Which objects of a collection are meant. `name` is one more condition, of the old watch paths."""
    _check_versions(request)
    fields = request.parameter("fieldSelector")
    if name:
        fields = f"{fields},metadata.name={name}" if fields else f"metadata.name={name}"
    return Query(
        namespace=namespace,
        labels=request.parameter("labelSelector"),
        fields=fields,
        resource_version=request.parameter("resourceVersion"),
        version_match=request.parameter("resourceVersionMatch"),
        limit=max(integer(request, "limit") or 0, 0),
        continue_token=request.parameter("continue"),
    )


def check_selectors(query: Query) -> None:
    """Refuses selectors that cannot be read, where the port would look at them too late."""
    parse_label_selector(query.labels)
    parse_field_selector(query.fields)


def watch_terms(request: Request) -> WatchTerms:
    initial = flag(request, "sendInitialEvents")
    return WatchTerms(bool(flag(request, "allowWatchBookmarks")), initial, integer(request, "timeoutSeconds"))


def _check_versions(request: Request) -> None:
    """The combinations of version, match and initial events that mean nothing are refused."""
    watching, match = is_watch(request), request.parameter("resourceVersionMatch")
    version, initial = request.parameter("resourceVersion"), flag(request, "sendInitialEvents")
    found: list[FieldError] = []
    field = "resourceVersionMatch"
    if watching:
        if initial is not None and match != "NotOlderThan":
            found.append(forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        elif match and initial is None:
            found.append(
                forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if match and match != "NotOlderThan":
            found.append(not_supported(field, match, ["NotOlderThan"]))
    else:
        if initial is not None:
            found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        found += _check_match(match, version, continued=bool(request.parameter("continue")))
    if found:
        raise _refused("ListOptions", found)


def _check_match(match: str, version: str, *, continued: bool) -> list[FieldError]:
    field = "resourceVersionMatch"
    if not match:
        return []
    found: list[FieldError] = []
    if not version:
        found.append(forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if continued:
        found.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    if match not in ("Exact", "NotOlderThan"):
        found.append(not_supported(field, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and version == "0":
        found.append(forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return found


_OWN_PARTS: Final = frozenset({"allhands", "allhands-scheduler"})
"""The cluster's own controllers, scheduler and nodes: they make things by the thousand, and nobody asks whose."""


def patch_options(request: Request, patch_type: PatchType) -> WriteOptions:
    """One who applies must say who he is, and may use force."""
    if patch_type != "apply":
        refused = forbidden("force", "may not be specified for non-apply patch")
        return write_options(request, "PatchOptions", [] if flag(request, "force") is None else [refused])
    missing = [] if request.parameter("fieldManager") else [required("fieldManager", "is required for apply patch")]
    options = write_options(request, "PatchOptions", missing)
    return msgspec.structs.replace(options, force=bool(flag(request, "force")))


def write_options(request: Request, options_kind: str, found: Sequence[FieldError] = ()) -> WriteOptions:
    """`options_kind` is CreateOptions, UpdateOptions or PatchOptions: the refusal names it. `found`: what is wrong with
    them already."""
    found = [*found]
    manager = request.parameter("fieldManager")
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        found.append(errors.too_long("fieldManager", MAX_MANAGER_BYTES))
    elif not manager.isprintable():
        found.append(invalid("fieldManager", manager, "should only contain printable characters"))
    dry_run = [value for value in request.query.get("dryRun", []) if value]
    found += dry_run_errors(dry_run)
    validation = request.parameter("fieldValidation")
    if validation not in _VALIDATIONS:
        found.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if found:
        raise _refused(options_kind, found)
    writer = manager or _name_of_client(request)
    return WriteOptions(
        dry_run=bool(dry_run),
        field_validation=cast("FieldValidation", validation or "Warn"),
        field_manager=writer,
        tracked=writer not in _OWN_PARTS,
        submitter=request.submitter,
    )


def _name_of_client(request: Request) -> str:
    """Who writes without saying so: what the client calls itself, up to the first slash."""
    name = request.header(b"user-agent").partition("/")[0]
    if name.isascii() and name.isprintable() and len(name) <= MAX_MANAGER_BYTES:
        return name
    printable = "".join(filter(str.isprintable, name))
    return printable.encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


class DeleteTerms(msgspec.Struct, frozen=True):
    """How to delete, and whether to say so if it takes longer."""

    options: DeleteOptions
    accepted_if_pending: bool = False
    """The old parameter `orphanDependents: false` makes the answer 202 while the object is not gone."""


def delete_terms(request: Request, body: Manifest | None) -> DeleteTerms:
    """From the body if there is one, else from the query, as the real server reads them."""
    fields = _delete_fields(body) if body is not None else _delete_query(request)
    propagation = fields.propagation
    found = delete_option_errors(fields.dry_run, propagation, fields.orphan)
    if found:
        raise _refused("DeleteOptions", found)
    if fields.orphan is not None:
        propagation = "Orphan" if fields.orphan else "Background"
    options = DeleteOptions(
        grace_seconds=fields.grace_seconds,
        propagation=cast("Propagation | None", propagation),
        uid=fields.uid,
        version=fields.version,
        dry_run=bool(fields.dry_run),
    )
    return DeleteTerms(options, fields.orphan is False)


class _DeleteFields(msgspec.Struct):
    grace_seconds: int | None = None
    propagation: str | None = None
    orphan: bool | None = None
    uid: str = ""
    version: str = ""
    dry_run: list[str] = []


def _delete_query(request: Request) -> _DeleteFields:
    return _DeleteFields(
        grace_seconds=integer(request, "gracePeriodSeconds"),
        propagation=request.parameter("propagationPolicy") or None,
        orphan=flag(request, "orphanDependents"),
        dry_run=[value for value in request.query.get("dryRun", []) if value],
    )


def _delete_fields(body: Manifest) -> _DeleteFields:
    preconditions = _typed(body, "preconditions", dict, "v1.Preconditions") or {}
    dry_run = _typed(body, "dryRun", list, "[]string") or []
    return _DeleteFields(
        grace_seconds=_typed(body, "gracePeriodSeconds", int, "int64"),
        propagation=_typed(body, "propagationPolicy", str, "v1.DeletionPropagation"),
        orphan=_typed(body, "orphanDependents", bool, "bool"),
        uid=_typed(preconditions, "uid", str, "types.UID", "preconditions.") or "",
        version=_typed(preconditions, "resourceVersion", str, "string", "preconditions.") or "",
        dry_run=[str(value) for value in dry_run],
    )


def _typed(body: Manifest, field: str, wanted: type, go_type: str, prefix: str = "") -> Json:
    value = body.get(field)
    right = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
    if value is None or right:
        return value
    names = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    what = names[type(value)]
    raise bad_request(
        f"json: cannot unmarshal {what} into Go struct field DeleteOptions.{prefix}{field} of type {go_type}"
    )
