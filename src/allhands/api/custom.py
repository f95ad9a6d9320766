"""Kinds that users define: from a CustomResourceDefinition to the kinds that it serves.

One kind per served version. All versions share the collection of the storage version; between them only the apiVersion
differs (conversion strategy None).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from allhands.api.apply.schema_types import custom_type
from allhands.api.cel.rules import ExpressionRules
from allhands.api.errors import Fault, FieldError, invalid
from allhands.api.kinds import Kind, Resource, ScalePlaces, selector_by_paths
from allhands.api.rules import Rules
from allhands.api.schema.embedded import embedded_resource_errors, list_type_errors, reduced
from allhands.api.schema.structural import StructuralShape
from allhands.api.schema.values import ABSENT, ROOT, ValueSchema
from allhands.api.tables.custom import custom_printer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.apply.field_type import FieldType
    from allhands.api.document import Json, Manifest

_MAX_REPLICAS: Final = 2**31 - 1
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which the real server lists those of custom kinds."""
_BLOCKING: Final = frozenset({Fault.NOT_SUPPORTED, Fault.REQUIRED, Fault.TOO_LONG, Fault.TOO_MANY, Fault.TYPE_INVALID})
_UNCHECKED_RULES: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


def kinds_of(definition: Manifest) -> list[Kind]:
    """The kinds that a definition serves, one per served version, in the order of the definition."""
    spec = definition["spec"]
    types = {f"{spec['group']}/{each['name']}": _field_type(each) for each in spec["versions"]}
    return [_kind(spec, version, types) for version in spec["versions"] if version.get("served")]


def _field_type(version: Manifest) -> Callable[[], FieldType]:
    return functools.cache(lambda: custom_type(_schema(version)))


def _schema(version: Manifest) -> Manifest:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _selectable(version: Manifest) -> tuple[str, ...]:
    return tuple(each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ())


def _scale(version: Manifest) -> ScalePlaces | None:
    scale = (version.get("subresources") or {}).get("scale")
    if not scale:
        return None
    fields = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    return ScalePlaces(*(tuple(filter(None, (scale.get(field) or "").split("."))) for field in fields))


def _kind(spec: Manifest, version: Manifest, types: Mapping[str, Callable[[], FieldType]]) -> Kind:
    names, group = spec["names"], spec["group"]
    plural = names["plural"]
    stored = next((each["name"] for each in spec["versions"] if each.get("storage")), version["name"])
    schema = _schema(version)
    subresources = version.get("subresources") or {}
    selected = tuple(dict.fromkeys(path for each in spec["versions"] for path in _selectable(each)))
    return Kind(
        resource=Resource(group, version["name"], plural),
        kind=names["kind"],
        list_kind=names.get("listKind") or "",
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=_VERBS,
        subresources=tuple(name for name in ("status", "scale") if name in subresources),
        has_generation=True,
        allow_unconditional_update=False,
        rules=CustomRules(schema, subresources).rules(),
        shape=StructuralShape(schema),
        selectable=_selectable(version),
        select=selector_by_paths(selected),
        selected=selected,
        field_types=types,
        scales={f"{group}/{each['name']}": _scale(each) for each in spec["versions"]},
        printer=custom_printer(version.get("additionalPrinterColumns") or ()),
        storage=None if stored == version["name"] else Resource(group, stored, plural),
        custom=True,
        deprecation=_deprecation(group, version, names["kind"]),
        open_api_schema=schema,
    )


def _deprecation(group: str, version: Manifest, kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"


class CustomRules:
    """The behaviour of one version of a custom kind. Its checks are compiled when the first object comes."""

    def __init__(self, schema: Manifest, subresources: Manifest) -> None:
        self._schema = schema
        self._has_status = "status" in subresources
        self._scale: Manifest = subresources.get("scale") or {}

    def rules(self) -> Rules:
        return Rules(
            prepare_create=self._prepare_create,
            validate_create=self._validate_create,
            validate_update=self._validate_update,
            validate_status=self._validate_status,
        )

    @functools.cached_property
    def _lists(self) -> Manifest | None:
        return reduced(self._schema, "x-kubernetes-list-type", ("set", "map"))

    @functools.cached_property
    def _resources(self) -> Manifest | None:
        return reduced(self._schema, "x-kubernetes-embedded-resource")

    @functools.cached_property
    def _expressions(self) -> ExpressionRules:
        return ExpressionRules(self._schema)

    @functools.cached_property
    def _values(self) -> ValueSchema:
        return ValueSchema(self._schema)

    @functools.cached_property
    def _status_values(self) -> ValueSchema:
        return ValueSchema((self._schema.get("properties") or {}).get("status") or {})

    def _prepare_create(self, document: Manifest) -> None:
        if self._has_status:
            document.pop("status", None)

    def _validate_create(self, document: Manifest) -> list[FieldError]:
        errors = self._values.errors(document)
        errors += self._replicas_errors(document, "specReplicasPath", "statusReplicasPath")
        if self._resources is not None:
            errors += embedded_resource_errors(self._resources, document)
        if self._lists is not None:
            errors += list_type_errors(self._lists, document)
        return self._with_expressions(errors, document)

    def _validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        errors = self._values.errors(new, old)
        errors += self._replicas_errors(new, "specReplicasPath", "statusReplicasPath")
        if self._resources is not None:
            errors += embedded_resource_errors(self._resources, new)
        return self._with_expressions(errors + self._list_errors(new, old), new, old)

    def _validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        errors: list[FieldError] = []
        if "status" in new:
            errors += self._status_values.errors(new["status"], old.get("status", ABSENT), prefix="status")
        errors += self._replicas_errors(new, "statusReplicasPath")
        return self._with_expressions(errors + self._list_errors(new, old), new, old)

    def _list_errors(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Duplicates are refused only where there were none before."""
        if self._lists is None or list_type_errors(self._lists, old):
            return []
        return list_type_errors(self._lists, new)

    def _with_expressions(self, errors: list[FieldError], new: Manifest, old: Json = None) -> list[FieldError]:
        """And what breaks the author's own rules; they are asked only about values of the right types."""
        if not self._expressions:
            return errors
        if any(error.fault in _BLOCKING for error in errors):
            return [*errors, invalid(ROOT, None, _UNCHECKED_RULES)]
        return [*errors, *self._expressions.errors(new, old)]

    def _replicas_errors(self, document: Manifest, *paths: str) -> list[FieldError]:
        if not self._scale:
            return []
        errors = [error for path in paths for error in _replicas_error(document, self._scale[path])]
        selector = self._scale.get("labelSelectorPath")
        if selector and "statusReplicasPath" in paths:
            errors += _type_error(document, selector, "", str, "string")
        return errors


def _replicas_error(document: Manifest, path: str) -> list[FieldError]:
    errors = _type_error(document, path, 0, int, "int64")
    if errors:
        return errors
    replicas, _ = _at(document, path)
    if replicas is None:
        return []
    if replicas < 0:
        return [invalid(path, replicas, "should be a non-negative integer")]
    if replicas > _MAX_REPLICAS:
        return [invalid(path, replicas, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _type_error(document: Manifest, path: str, shown: Json, wanted: type[Any], name: str) -> list[FieldError]:
    value, arrived = _at(document, path)
    if value is None or (arrived and isinstance(value, wanted) and not isinstance(value, bool)):
        return []
    expected = name if arrived else "map[string]interface{}"
    text = f"{path} accessor error: {value} is of the type {_GO_TYPES[type(value)]}, expected {expected}"
    return [invalid(path, shown, text)]


_GO_TYPES: Final[dict[type[Any], str]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def _at(document: Manifest, path: str) -> tuple[Json, bool]:
    """The value at a dotted path, None where there is none; or what stands in the way of it, and False."""
    value: Json = document
    for name in path.removeprefix(".").split("."):
        if value is None:
            return None, True
        if not isinstance(value, dict):
            return value, False
        value = value.get(name)
    return value, True
