"""What a client sent, decoded: objects, patches and options, with the refusals of a real server.

Bodies are JSON, YAML or, for built-in kinds, protobuf. Duplicate keys are known only here, where the text still is; so
they are judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import bad_request, go_quote, unsupported_media_type
from allhands.api.schema import protobuf
from allhands.api.schema.definitions import META
from allhands.server import gojson, yamltext

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import FieldValidation, PatchType
    from allhands.server.request import Request

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PATCHES: Final[dict[str, PatchType]] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_JSON_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def media_type(request: Request) -> str:
    """Without its parameters; absent means JSON."""
    return request.header(b"content-type").partition(";")[0].strip().lower() or _JSON


def _served_type(request: Request, *, has_protobuf: bool) -> str:
    """The body's media type, if it is one that can be read."""
    found = media_type(request)
    served = (_JSON, _YAML, protobuf.CONTENT_TYPE) if has_protobuf else (_JSON, _YAML)
    if found not in served:
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(served)}"
        )
    return found


def _summary(text: bytes, max_length: int = 30) -> str:
    if not text:
        return "<empty>"
    head = text[:max_length]
    shown = head.decode("utf-8", "replace") if text.startswith(b"{") else head.hex()
    return f"{shown} ..." if len(text) > max_length else shown


def _decoded(text: bytes, *, yaml: bool) -> tuple[Json, list[str]]:
    """The value and what is to be said about its duplicate keys."""
    if yaml:
        value, complaints = yamltext.parse(text)
        return value, complaints
    try:
        value, paths = gojson.parse(text)
    except gojson.MalformedError as error:
        raise gojson.MalformedError(f"couldn't get version/kind; json parse error: {error}") from None
    return value, [f"duplicate field {go_quote(path)}" for path in paths]


def _manifest(text: bytes, *, yaml: bool) -> tuple[Manifest, list[str]]:
    value, complaints = _decoded(text, yaml=yaml)
    if value is None:
        return {}, complaints
    if not isinstance(value, dict):
        what = _JSON_NAMES[type(value)]
        message = f"json: cannot unmarshal {what} into Go value of type {_TYPE_META}"
        raise gojson.MalformedError(f"couldn't get version/kind; json parse error: {message}")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field, ""), str | None):
            what = _JSON_NAMES[type(value[field])]
            message = f"json: cannot unmarshal {what} into Go struct field .{field} of type string"
            raise gojson.MalformedError(f"couldn't get version/kind; json parse error: {message}")
    return value, complaints


def _from_protobuf(body: bytes, definition: str) -> Manifest:
    api_version, kind, message = protobuf.decode_envelope(body)
    if kind and kind != definition.rpartition(".")[2]:
        return {"apiVersion": api_version, "kind": kind}
    return {"apiVersion": api_version, "kind": kind} | protobuf.decode(message, definition)


async def read_object(
    request: Request, kind_name: str, definition: str, validation: FieldValidation
) -> tuple[Manifest, tuple[str, ...]]:
    """The object in the body, and warnings about its text. `definition` is empty for custom kinds."""
    media = _served_type(request, has_protobuf=bool(definition))
    yaml = media == _YAML
    text = await request.body()
    if media == protobuf.CONTENT_TYPE:
        return _from_protobuf(text, definition), ()
    try:
        manifest, complaints = _manifest(text, yaml=yaml)
    except (gojson.MalformedError, yamltext.MalformedError) as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind_name}): {error} ({_summary(text)})"
        ) from None
    if complaints and validation == "Strict":
        version = str(manifest.get("apiVersion") or "v1").rpartition("/")[2]
        listing = "yaml: unmarshal errors:\n  " + "\n  ".join(complaints) if yaml else ", ".join(complaints)
        raise bad_request(
            f"{manifest.get('kind') or kind_name} in version {go_quote(version)} cannot be handled as a {kind_name}: "
            f"strict decoding error: {listing}"
        )
    return manifest, () if validation == "Ignore" else tuple(complaints)


async def read_options(request: Request) -> Manifest | None:
    """The options in the body of a DELETE, or None if it has none."""
    if not request.has_body:
        return None
    media = _served_type(request, has_protobuf=True)
    text = await request.body()
    if not text:
        return None
    try:
        if media == protobuf.CONTENT_TYPE:
            return _from_protobuf(text, META + "DeleteOptions")
        options, _complaints = _manifest(text, yaml=media == _YAML)
    except (gojson.MalformedError, yamltext.MalformedError) as error:
        raise bad_request(str(error)) from None
    if (kind := options.get("kind") or "DeleteOptions") != "DeleteOptions":
        version = options.get("apiVersion") or "v1"
        raise bad_request(f"no kind {go_quote(kind)} is registered for version {go_quote(version)}")
    return options


def patch_type(request: Request, kind: Kind) -> PatchType:
    """Which kind of patch the body is; strategic ones only where the kind has merge keys."""
    found = _PATCHES.get(media_type(request))
    if found is None or (found == "strategic" and kind.custom):
        accepted = [name for name, meant in _PATCHES.items() if meant != "strategic" or not kind.custom]
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
        )
    return found


async def read_patch(request: Request, type: PatchType, validation: FieldValidation) -> tuple[Json, tuple[str, ...]]:
    """The patch, of the right outer shape, and warnings about its text."""
    text = await request.body()
    try:
        value, complaints = _patch_value(text, type)
    except gojson.MalformedError as error:
        raise bad_request(str(error) if type == "strategic" else f"error decoding patch: {error}") from None
    except yamltext.MalformedError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    wanted, go_type = (list, "[]handlers.jsonPatchOp") if type == "json" else (dict, "map[string]interface {}")
    if not isinstance(value, wanted):
        what = _JSON_NAMES.get(value.__class__, "null")
        raise bad_request(f"error decoding patch: json: cannot unmarshal {what} into Go value of type {go_type}")
    if complaints and validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(complaints)}")
    return value, () if validation == "Ignore" else complaints


def _patch_value(text: bytes, type: PatchType) -> tuple[Json, tuple[str, ...]]:
    if type == "apply" and not text.lstrip().startswith(b"{"):
        value, found = yamltext.parse(text)
        return value, tuple(found)
    try:
        value, paths = gojson.parse(text)
    except gojson.MalformedError:
        if type != "apply":
            raise
        value, found = yamltext.parse(text)
        return value, tuple(found)
    prefix = "json patch duplicate field" if type == "json" else "duplicate field"
    return value, tuple(f"{prefix} {go_quote(path)}" for path in paths)
