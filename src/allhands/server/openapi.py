"""The OpenAPI v3 documents, from which kubectl validates, explains and computes patches.

Schemas of built-in kinds are the published ones, those of custom kinds their own. A document is built when it is first
asked for; its hash is known before, so that the index costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

import allhands
from allhands.api.schema.definitions import META, SCHEMA_VERSION, definitions, schema_type
from allhands.server.answers import Answer
from allhands.server.discovery import KUBERNETES_MINOR, PART_DEFINITIONS, part_of, tagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.kinds import Kind
    from allhands.server.discovery import Discovery
    from allhands.server.request import Request

Schema = dict[str, Any]

_REFERENCE: Final = "#/components/schemas/"
_FOREVER: Final = b"public, immutable"
_METHODS: Final = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_PATCH_TYPES: Final = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
_TEXT: Final = {"type": "string", "uniqueItems": True}
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_LIST_PARAMETERS: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)


def definition_of(kind: Kind) -> str:
    """The name of a kind's schema: the published one, or the group turned round as the real server does."""
    if kind.definition:
        return kind.definition
    return ".".join((*reversed(kind.group.split(".")), kind.resource.version, kind.kind))


def list_definition_of(kind: Kind) -> str:
    """The name of the schema of a list."""
    return f"{definition_of(kind).rpartition('.')[0]}.{kind.listed_as}"


def converted(schema: Any, *, top: bool = False) -> Any:
    """A published schema as OpenAPI v3 has it: no null types, references wrapped so that they may have siblings."""
    if isinstance(schema, list):
        return [converted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: Schema = {}
    for key, value in schema.items():
        if key == "type":
            result[key] = schema_type(schema)
        elif key == "$ref":
            result["allOf"] = [{"$ref": _REFERENCE + value.rpartition("/")[2]}]
        elif key == "properties":
            result[key] = {name: converted(child) for name, child in value.items()}
        elif key.startswith("x-kubernetes-") or key in ("required", "enum", "default", "description"):
            result[key] = value
        else:
            result[key] = converted(value)
    if top:
        for name in ("apiVersion", "kind"):
            if isinstance(field := result.get("properties", {}).get(name), dict):
                field.pop("enum", None)
    return result


def references(schema: Any) -> Iterable[str]:
    """The definitions that a converted schema points to."""
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                if key == "$ref" and isinstance(value, str):
                    yield value.removeprefix(_REFERENCE)
                else:
                    pending.append(value)
        elif isinstance(item, list):
            pending.extend(item)


def _custom_schema(kind: Kind) -> Schema:
    known = definitions()["io.k8s.api.core.v1.ConfigMap"]["properties"]
    schema = dict(cast("Schema", kind.open_api_schema) or {"x-kubernetes-preserve-unknown-fields": True})
    schema["type"] = "object"
    properties = dict(schema.get("properties") or {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": known[name]["description"]}
    properties["metadata"] = {
        "description": known["metadata"]["description"],
        "allOf": [{"$ref": _REFERENCE + META + "ObjectMeta"}],
    }
    schema["properties"] = properties
    group_version_kind = {"group": kind.group, "version": kind.resource.version, "kind": kind.kind}
    return schema | {"x-kubernetes-group-version-kind": [group_version_kind]}


def _list_schema(kind: Kind) -> Schema:
    known = definitions()["io.k8s.api.core.v1.ConfigMapList"]["properties"]
    group_version_kind = {"group": kind.group, "version": kind.resource.version, "kind": kind.listed_as}
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": known["apiVersion"]["description"]},
            "kind": {"type": "string", "description": known["kind"]["description"]},
            "metadata": {"allOf": [{"$ref": _REFERENCE + META + "ListMeta"}]},
            "items": {"type": "array", "items": {"allOf": [{"$ref": _REFERENCE + definition_of(kind)}]}},
        },
        "x-kubernetes-group-version-kind": [group_version_kind],
    }


def _schemas(kinds: Sequence[Kind], wanted: Iterable[str]) -> dict[str, Schema]:
    """The schemas of these kinds and everything that they refer to."""
    published = definitions()
    found: dict[str, Schema] = {}
    for kind in kinds:
        name = definition_of(kind)
        if kind.custom or name not in published:
            found[name] = _custom_schema(kind)
            found[list_definition_of(kind)] = _list_schema(kind)
    pending = [*wanted, *(definition_of(kind) for kind in kinds), *(list_definition_of(kind) for kind in kinds)]
    for schema in list(found.values()):
        pending.extend(references(schema))
    while pending:
        name = pending.pop()
        if name in found or name not in published:
            continue
        found[name] = converted(published[name], top=True)
        pending.extend(references(found[name]))
    return dict(sorted(found.items()))


def _parameter(name: str, where: str = "query") -> Schema:
    parameter: Schema = {"name": name, "in": where, "schema": _TEXT}
    return parameter | {"required": True} if where == "path" else parameter


def _content(definition: str, types: Iterable[str] = ("json", "yaml")) -> Schema:
    return {f"application/{name}": {"schema": {"$ref": _REFERENCE + definition}} for name in types}


def _operation(kind: Kind, verb: str, definition: str, answered: Schema) -> Schema:
    """One verb on one path. The body and the answer are of the same definition, but for lists, patches and deletes."""
    parameters: Sequence[str] = ()
    operation: Schema = {"tags": [kind.api_version.replace("/", "_")], "operationId": f"{verb}{kind.kind}"}
    if verb in ("create", "update", "patch"):
        parameters = (*_WRITE_PARAMETERS, "force") if verb == "patch" else _WRITE_PARAMETERS
        types = [name for name in _PATCH_TYPES if not (kind.custom and name.startswith("strategic"))]
        content = _content(META + "Patch", types) if verb == "patch" else _content(definition)
        operation["requestBody"] = {"required": True, "content": content}
    elif verb == "list":
        parameters = _LIST_PARAMETERS
        definition = list_definition_of(kind)
    elif verb in ("delete", "deletecollection"):
        parameters = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
        operation["requestBody"] = {"content": _content(META + "DeleteOptions")}
        definition = META + "Status"
    operation["parameters"] = [_parameter(name) for name in parameters]
    operation["responses"] = {"200": {"description": "OK", "content": _content(definition)}}
    action = {"create": "post", "update": "put"}.get(verb, verb)
    return operation | {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": answered}


def _paths_of(kind: Kind) -> dict[str, Schema]:
    """The paths of one kind with their operations."""
    group, version, plural = kind.group, kind.resource.version, kind.resource.plural
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    scope = f"{base}/namespaces/{{namespace}}/{plural}" if kind.namespaced else f"{base}/{plural}"
    itself = {"group": group, "version": version, "kind": kind.kind}
    definition = definition_of(kind)
    in_path = [_parameter("namespace", "path")] if kind.namespaced else []
    named = [_parameter("name", "path"), *in_path]

    collection: Schema = {"parameters": in_path}
    single: Schema = {"parameters": named}
    for verb in sorted(kind.verbs):
        if verb in ("list", "create"):
            collection[_METHODS[verb]] = _operation(kind, verb, definition, itself)
        elif verb == "deletecollection":
            collection["delete"] = _operation(kind, verb, definition, itself)
        elif verb in _METHODS:
            single[_METHODS[verb]] = _operation(kind, verb, definition, itself)
    paths = {scope: collection, f"{scope}/{{name}}": single}
    if kind.namespaced and "list" in kind.verbs:
        paths[f"{base}/{plural}"] = {"get": _operation(kind, "list", definition, itself)}
    for name in sorted(kind.subresources):
        paths[f"{scope}/{{name}}/{name}"] = {"parameters": named} | _part_operations(kind, name)
    return paths


def _part_operations(kind: Kind, name: str) -> Schema:
    part = part_of(kind, name)
    group, _, version = (part.api_version or kind.api_version).rpartition("/")
    answered = {"group": group, "version": version, "kind": part.kind}
    definition = definition_of(kind) if part.kind == kind.kind else PART_DEFINITIONS.get(part.kind, "")
    if not definition:
        return {}
    return {_METHODS[verb]: _operation(kind, verb, definition, answered) for verb in part.verbs if verb in _METHODS}


def document(kinds: Sequence[Kind]) -> Schema:
    """The document of one group and version."""
    paths: dict[str, Schema] = {}
    for kind in kinds:
        paths |= _paths_of(kind)
    schemas = _schemas(kinds, set(references(paths)))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"1.{KUBERNETES_MINOR}"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas},
    }


def fingerprint(kinds: Sequence[Kind]) -> str:
    """Tells apart documents without building them: what they are made from, hashed."""
    digest = hashlib.sha512(f"{allhands.__version__} {SCHEMA_VERSION}".encode())
    for kind in kinds:
        facts = (
            kind.resource,
            kind.kind,
            kind.list_kind,
            kind.namespaced,
            kind.verbs,
            kind.subresources,
            kind.definition,
        )
        digest.update(msgspec.json.encode((facts, kind.open_api_schema)))
    return digest.hexdigest().upper()


class OpenApi:
    """Answers below `/openapi/v3`. Documents are kept by their hash."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._groups: object = None
        self._hashes: dict[str, str] = {}
        self._documents: dict[str, bytes] = {}
        self._building = asyncio.Lock()

    async def answer(self, request: Request, segments: list[str]) -> Answer | None:
        """The index, or the document of the group and version that the path names."""
        groups = self._discovery.groups()
        if self._groups is not groups:
            self._groups = groups
            self._hashes = {
                f"apis/{group}/{version}" if group else f"api/{version}": fingerprint(kinds)
                for group, versions in groups.items()
                for version, kinds in versions.items()
            }
        if not segments:
            return self._index(request)
        path = "/".join(segments)
        if path not in self._hashes:
            return None
        hashed = self._hashes[path]
        tag = f'"{hashed}"'.encode()
        asked = request.parameter("hash")
        if asked and asked != hashed:
            location = f"/openapi/v3/{path}?hash={hashed}".encode()
            return Answer(301, b"", headers=((b"location", location), (b"etag", tag), (b"vary", b"Accept")))
        kinds = groups[segments[1] if len(segments) == 3 else ""][segments[-1]]
        body = await self._document(hashed, kinds)
        cache = _FOREVER if asked else b"no-cache, private"
        return tagged(request, body, tag, b"application/json", cache=cache)

    def _index(self, request: Request) -> Answer:
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashed}"}
            for path, hashed in sorted(self._hashes.items())
        }
        body = msgspec.json.encode({"paths": paths})
        tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode()
        return tagged(request, body, tag, b"text/plain; charset=utf-8")

    async def _document(self, hashed: str, kinds: Sequence[Kind]) -> bytes:
        """Built in a thread, once: it takes a moment in which other requests are answered."""
        async with self._building:
            body = self._documents.get(hashed)
            if body is None:
                body = await asyncio.to_thread(lambda: msgspec.json.encode(document(kinds)))
                if len(self._documents) > 2 * len(self._hashes):
                    self._documents.clear()
                self._documents[hashed] = body
            return body
