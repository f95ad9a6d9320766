"""JSON patch (RFC 6902) as a kube-apiserver applies it, all operations or none.

Where the server is more lenient than the RFC it is followed, because clients rely on it: `replace` may add a member,
`copy` of an absent member adds null, an absent member passes a `test` for null, negative indices count from the end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from allhands.api.errors import go_quote
from allhands.api.patch.errors import PatchError, malformed, not_applicable, too_large, wrong_json_type
from allhands.api.patch.values import copied, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Json, Manifest

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Of all copies of a patch together; each could double the document."""

_match_index = re.compile("[+-]?[0-9]{1,18}").fullmatch


class _Fault(Exception):  # noqa: N818 (it never leaves this module)
    """Why a step inside a container failed; the operation adds its own name and path."""


def json_patch(document: Json, patch: Json) -> Json:
    """The document after all operations of the patch, or a `PatchError`."""
    operations = _decoded(patch)
    if len(operations) > MAX_OPERATIONS:
        text = "The allowed maximum operations in a JSON patch is %d, got %d"
        raise too_large(text % (MAX_OPERATIONS, len(operations)))
    result, copied_bytes = copied(document), 0
    for operation in operations:
        kind = operation.get("op") or "unknown"
        apply = _OPERATIONS.get(kind)
        if apply is None:
            raise not_applicable(f"Unexpected kind: {kind}")
        if kind == "copy":
            copied_bytes += _copy_bytes(result, operation)
            if copied_bytes > MAX_COPIED_BYTES:
                size = (
                    f"the accumulated size increase of copy is {copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
                )
                raise not_applicable(f"Unable to complete the copy, {size}")
        result = apply(result, operation)
    for operation in operations:
        for pointer in (operation.get("path"), operation.get("from")):
            _sort_fields_above(result, pointer or "")
    return result


def _sort_fields_above(document: Json, pointer: str) -> None:
    """Objects that an operation went through come out with their fields sorted: refusals name the first one."""
    place = document
    for part in pointer.split("/")[1:]:
        if isinstance(place, dict):
            for name in sorted(place):
                place[name] = place.pop(name)
            place = place.get(part.replace("~1", "/").replace("~0", "~"))
        elif isinstance(place, list) and part.isdecimal() and int(part) < len(place):
            place = place[int(part)]
        else:
            return


def _decoded(patch: Json) -> list[Manifest]:
    if patch is None:
        return []
    if not isinstance(patch, list):
        _refuse_type(patch, "value of type []handlers.jsonPatchOp")
    for operation in patch:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            _refuse_type(operation, "value of type handlers.jsonPatchOp")
        for field in ("op", "path", "from"):
            value = operation.get(field)
            if value is not None and not isinstance(value, str):
                _refuse_type(value, f"struct field jsonPatchOp.{field} of type string")
    return [operation or {} for operation in patch]


def _refuse_type(value: Json, wanted: str) -> NoReturn:
    raise malformed(f"error decoding patch: {wrong_json_type(value, wanted)}")


def _add(document: Json, operation: Manifest) -> Json:
    path = operation.get("path")
    if path is None:
        raise not_applicable("add operation failed to decode path: missing value")
    container, key = _find(
        document, path, f'add operation does not apply: doc is missing path: "{path}": missing value'
    )
    try:
        _insert(container, key, copied(operation.get("value")))
    except _Fault as fault:
        raise not_applicable(f"error in add for path: '{path}': {fault}") from None
    return document


def _remove(document: Json, operation: Manifest) -> Json:
    path = operation.get("path")
    if path is None:
        raise not_applicable("remove operation failed to decode path: missing value")
    missing = f'remove operation does not apply: doc is missing path: "{path}": missing value'
    container, key = _find(document, path, missing)
    try:
        _delete(container, key)
    except _Fault as fault:
        raise not_applicable(f"error in remove for path: '{path}': {fault}") from None
    return document


def _replace(document: Json, operation: Manifest) -> Json:
    path = _member(operation, "path", "replace")
    value = copied(operation.get("value"))
    if path == "":
        if not isinstance(value, (dict, list)):
            raise not_applicable("replace operation value must be object or array: %!w(<nil>)")
        return value
    missing = f"replace operation does not apply: doc is missing path: {path}: missing value"
    container, key = _find(document, path, missing)
    if isinstance(container, dict):
        container[key] = value
        return document
    try:
        container[_index(container, key)] = value
    except _Fault:
        text = f"replace operation does not apply: doc is missing key: {path}: missing value"
        raise not_applicable(text) from None
    return document


def _move(document: Json, operation: Manifest) -> Json:
    source = _member(operation, "from", "move")
    missing = f"move operation does not apply: doc is missing from path: {source}: missing value"
    container, key = _find(document, source, missing)
    try:
        value = _get(container, key)
        _delete(container, key)
    except _Fault as fault:
        raise not_applicable(f"error in move for path: '{key}': {fault}") from None
    path = _member(operation, "path", "move")
    missing = f"move operation does not apply: doc is missing destination path: {path}: missing value"
    container, key = _find(document, path, missing)
    try:
        _insert(container, key, value)
    except _Fault as fault:
        raise not_applicable(f"error in move for path: '{path}': {fault}") from None
    return document


def _copy(document: Json, operation: Manifest) -> Json:
    source = _member(operation, "from", "copy")
    missing = f"copy operation does not apply: doc is missing from path: {source}: missing value"
    container, key = _find(document, source, missing)
    try:
        value = copied(_get(container, key))
    except _Fault as fault:
        raise not_applicable(f"error in copy for from: '{source}': {fault}") from None
    path = operation.get("path")
    if path is None:
        raise not_applicable("copy operation failed to decode path: missing value")
    missing = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
    container, key = _find(document, path, missing)
    try:
        _insert(container, key, value)
    except _Fault as fault:
        raise not_applicable(f"error while adding value during copy: {fault}") from None
    return document


def _copy_bytes(document: Json, operation: Manifest) -> int:
    """How much a copy adds; nothing if it does not apply, which it is to say itself."""
    try:
        container, key = _find(document, _member(operation, "from", "copy"), "")
        return len(msgspec.json.encode(_get(container, key)))
    except (PatchError, _Fault):
        return 0


def _test(document: Json, operation: Manifest) -> Json:
    path = _member(operation, "path", "test")
    if path == "":
        value = document
    else:
        missing = f"test operation does not apply: is missing path: {path}: missing value"
        container, key = _find(document, path, missing)
        try:
            value = _get(container, key)
        except _Fault as fault:
            raise not_applicable(f"error in test for path: '{path}': {fault}") from None
    if not same(value, operation.get("value")):
        raise not_applicable(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: Final[dict[str, Callable[[Json, Manifest], Json]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _member(operation: Manifest, field: str, name: str) -> str:
    value = operation.get(field)
    if value is None:
        comma = "," if field == "from" else ""
        raise not_applicable(
            f"{name} operation failed to decode {field}: operation{comma} missing {field} field: missing value"
        )
    return str(value)


def _find(document: Json, pointer: str, missing: str) -> tuple[Json, str]:
    """The container that the pointer leads to and the last key; what stands before the first slash is ignored."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")]
    if len(tokens) < 2 or not isinstance(document, (dict, list)):
        raise not_applicable(missing)
    node = document
    for token in tokens[1:-1]:
        try:
            node = _get(node, token)
        except _Fault:
            raise not_applicable(missing) from None
        if not isinstance(node, (dict, list)):
            raise not_applicable(missing)
    return node, tokens[-1]


def _get(container: Json, key: str) -> Json:
    return container.get(key) if isinstance(container, dict) else container[_index(container, key)]


def _index(items: list[Json], key: str, extra: int = 0) -> int:
    """A place in the list. With `extra` 1 the place behind the last item is one, too."""
    if not _match_index(key):
        raise _Fault(f"strconv.Atoi: parsing {go_quote(key)}: invalid syntax")
    index, size = int(key), len(items) + extra
    if not -size <= index < size:
        raise _Fault(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _insert(container: Json, key: str, value: Json) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    elif not _match_index(key):
        raise _Fault(
            f"value was not a proper array index: '{key}': strconv.Atoi: parsing {go_quote(key)}: invalid syntax"
        )
    else:
        container.insert(_index(container, key, extra=1), value)


def _delete(container: Json, key: str) -> None:
    if isinstance(container, list):
        del container[_index(container, key)]
    elif key in container:
        del container[key]
    else:
        raise _Fault(f"Unable to remove nonexistent key: {key}: missing value")
