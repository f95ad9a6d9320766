"""The published schemas of the built-in kinds, read once from the dependency that carries them.

Nothing is typed by hand here: fields, types, descriptions and merge keys come from `kubernetes-validate`, the encoding
facts from `gotypes.txt`. The package is located, never imported: it would pull in a validator that we do not use.
"""

from __future__ import annotations

import functools
import importlib.util
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

SCHEMA_VERSION: Final = "v1.36.0"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_REFERENCE_PREFIX: Final = "#/$defs/"

Mark = Literal["!", "n", "?", "0"]
"""How the encoder treats a field: always written; always, null when nil; unless nil; unless zero or empty."""


class GoField(msgspec.Struct, frozen=True):
    """What Go knows of a field beyond its schema."""

    mark: Mark
    go_type: str
    number: tuple[int, ...] = ()
    """Where it stands in its protobuf message. Two numbers: a field of a message that JSON inlines; none: not there."""


@functools.cache
def definitions() -> dict[str, dict[str, Any]]:
    """Every published definition by its full name, e.g. `io.k8s.api.core.v1.Pod`."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("the dependency kubernetes-validate, which carries the schemas, is not installed")
    folder = Path(found.submodule_search_locations[0]) / "kubernetes-json-schema" / f"{SCHEMA_VERSION}-local"
    document = msgspec.json.decode((folder / "_definitions.json").read_bytes())
    found_definitions = document.get("$defs") or document["definitions"]
    return cast("dict[str, dict[str, Any]]", found_definitions)


@functools.cache
def go_types() -> dict[str, dict[str, GoField]]:
    """For each definition, its fields in declaration order with what Go knows of them."""
    types: dict[str, dict[str, GoField]] = {}
    fields: dict[str, GoField] = {}
    for line in resources.files(__package__).joinpath("gotypes.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("  "):
            name, mark, go_type, number = line.split()
            path = () if number == "-" else tuple(int(part) for part in number.split("."))
            fields[name] = GoField(cast("Mark", mark), go_type, path)
        else:
            fields = types.setdefault(line, {})
    return types


def referenced(schema: dict[str, Any]) -> str | None:
    """The name of the definition that a schema points to, if it is a pointer."""
    reference = schema.get("$ref")
    if reference is None and len(schema.get("allOf", ())) == 1:
        reference = schema["allOf"][0].get("$ref")
    return None if reference is None else cast("str", reference).rpartition("/")[2]


def schema_type(schema: dict[str, Any]) -> str:
    """The JSON type of a schema; the dependency writes `["string", "null"]` where Go would accept null."""
    declared = schema.get("type", "")
    if isinstance(declared, list):
        return cast("str", next(name for name in declared if name != "null"))
    return cast("str", declared)


def is_published(api_version: str, kind: str) -> bool:
    """Whether Kubernetes itself has such a kind, served here or not."""
    return published_definition(api_version, kind) in go_types()


def published_definition(api_version: str, kind: str) -> str:
    """The name under which Kubernetes publishes a kind, if it has it."""
    group, _, version = api_version.rpartition("/")
    package = group.partition(".")[0] or "core"
    return f"io.k8s.api.{package}.{version}.{kind}"
