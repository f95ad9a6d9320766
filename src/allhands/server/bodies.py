"""What a client sent, decoded: objects, patches and options, with the refusals of a real server.

Bodies are JSON, YAML or, for built-in kinds, protobuf. Duplicate keys are known only here, where the text still is; so
they are judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError, bad_request, go_quote, invalid, invalid_object, unsupported_media_type
from allhands.api.schema import protobuf
from allhands.api.schema.definitions import META
from allhands.server import gojson, yamltext
from allhands.server.accept import SPOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

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
SCHEME: Final = 'in scheme "pkg/runtime/scheme.go:111"'
"""A place in the real server's source that its messages name; clients match the whole text."""
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
        raise _unknown_format(served if found == protobuf.CONTENT_TYPE else SPOKEN)
    return found


def _unknown_format(accepted: Sequence[str]) -> StatusError:
    return unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )


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
    if (version := value.get("apiVersion") or "").count("/") > 1:
        raise gojson.MalformedError(f"unexpected GroupVersion string: {version}")
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
        if not definition and not manifest.get("kind"):
            raise gojson.MalformedError(f"Object 'Kind' is missing in '{text.decode('utf-8', 'replace')}'")
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


def check_custom(kind: Kind, manifest: Manifest) -> None:
    """A custom object must say what it is; nothing is taken from the path."""
    version, name = manifest.get("apiVersion") or "", manifest.get("kind") or ""
    if version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if name != kind.kind:
        metadata = manifest.get("metadata")
        called = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        raise invalid_object(kind.group, name, called, [invalid("kind", name, f"must be {kind.kind}")])


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
        version = options.get("apiVersion") or "meta.k8s.io/v1"
        raise bad_request(f"no kind {go_quote(kind)} is registered for version {go_quote(version)} {SCHEME}")
    return options


def patch_type(request: Request, kind: Kind) -> PatchType:
    """Which kind of patch the body is; strategic ones only where the kind has merge keys."""
    media = media_type(request) if request.header(b"content-type") else ""
    found = _PATCHES.get(media)
    if kind.custom:
        if found is None or found == "strategic":
            raise _unknown_format([name for name, meant in _PATCHES.items() if meant != "strategic"])
    elif found is None:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return found


async def read_patch(request: Request, type: PatchType, validation: FieldValidation) -> tuple[Json, tuple[str, ...]]:
    """The patch, of the right outer shape, and warnings about its text."""
    text = await request.body()
    if type == "apply":
        return _configuration(text, validation)
    prefix = "" if type == "strategic" else "error decoding patch: "
    try:
        value, paths = gojson.parse(text)
    except gojson.MalformedError as error:
        raise bad_request(f"{prefix}{error}") from None
    wanted, go_type = (list, "[]handlers.jsonPatchOp") if type == "json" else (dict, "map[string]interface {}")
    if not isinstance(value, wanted):
        what = _JSON_NAMES.get(value.__class__, "null")
        raise bad_request(f"{prefix}json: cannot unmarshal {what} into Go value of type {go_type}")
    about = "json patch duplicate field" if type == "json" else "duplicate field"
    complaints = tuple(f"{about} {go_quote(path)}" for path in paths)
    if complaints and validation == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(complaints)}")
    return value, () if validation == "Ignore" else complaints


def _configuration(text: bytes, validation: FieldValidation) -> tuple[Manifest, tuple[str, ...]]:
    """What is to be applied, which may be YAML, and warnings about its text."""
    try:
        value, complaints = yamltext.parse(text)
    except yamltext.MalformedError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        fault = f"json: cannot unmarshal {_JSON_NAMES[value.__class__]} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {fault}")
    if not complaints or validation == "Ignore":
        return value, ()
    if validation == "Strict":
        listing = "yaml: unmarshal errors:\n  " + "\n  ".join(complaints)
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {listing}")
    return value, tuple(complaints)
