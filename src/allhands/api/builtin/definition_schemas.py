"""Whether a schema in a CustomResourceDefinition is structural, and uses only what the server supports.

The texts and their order are the real server's. Rules written in CEL are looked at last, by `definition_expressions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from allhands.api.builtin.definition_expressions import compilation_errors, rule_errors
from allhands.api.errors import Fault, FieldError, forbidden, invalid, not_supported, required
from allhands.api.schema.generated import is_generated
from allhands.api.schema.goregex import why_not
from allhands.api.schema.structural import StructuralShape
from allhands.api.schema.values import ValueSchema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.api.document import Json

    Schema = Mapping[str, Any]

Level = Literal["root", "item", "field"]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})
_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_KEYS: Final = "x-kubernetes-list-map-keys"
_NESTED_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_PRESERVE, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    (_KEYS, "must be empty to be structural"),
    (_LIST_TYPE, "must be undefined to be structural"),
    (_MAP_TYPE, "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_ALLOWED_AT_ROOT: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations"
)
_ROOT_KEYWORDS: Final = frozenset(
    {word[0].lower() + word[1:] for word in _ALLOWED_AT_ROOT.split()} | {_PRESERVE, "x-kubernetes-validations"}
)


def validate_schema(schema: Schema, path: str, *, has_status: bool) -> list[FieldError]:
    """All that is wrong with the schema of one version."""
    try:
        return [] if is_generated(schema) else _errors(schema, path, has_status=has_status)
    except RecursionError:
        return [FieldError(Fault.INVALID, path, detail="exceeded max depth")]


def _errors(schema: Schema, path: str, *, has_status: bool) -> list[FieldError]:
    errors = list(_malformed(schema, path))
    if errors:
        return errors
    if has_status:
        errors += _root_errors(schema, path)
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    if _is_convertible(schema):
        structural = sorted([*_invariants(schema, "root", path), *_completeness(schema, path)], key=str)
        errors += structural or list(_default_errors(schema, path))
    errors += _openapi_errors(schema, path, root=True)
    return errors or list(compilation_errors(schema, path))


_FORMS: Final[dict[str, tuple[type[Any], ...]]] = {
    "type": (str,),
    "format": (str,),
    "pattern": (str,),
    "required": (list,),
    "enum": (list,),
    "properties": (dict,),
    "items": (dict, list),
    "additionalProperties": (dict, bool),
    "not": (dict,),
    "allOf": (list,),
    "anyOf": (list,),
    "oneOf": (list,),
    "maximum": (int, float),
    "minimum": (int, float),
    "multipleOf": (int, float),
    "maxLength": (int,),
    "minLength": (int,),
    "maxItems": (int,),
    "minItems": (int,),
    "maxProperties": (int,),
    "minProperties": (int,),
    _LIST_TYPE: (str,),
    _MAP_TYPE: (str,),
    _KEYS: (list,),
    "x-kubernetes-validations": (list,),
}


def _malformed(schema: Json, path: str) -> Iterator[FieldError]:
    """Keywords with values of the wrong type: without them the rest of the checks need not look."""
    if not isinstance(schema, dict):
        yield invalid(path, schema, "must be a schema")
        return
    for keyword, types in _FORMS.items():
        value = schema.get(keyword)
        if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            yield invalid(f"{path}.{keyword}", value, f"must not be of type {type(value).__name__}")
            return
    for keyword in ("required", _KEYS):
        if not all(isinstance(name, str) for name in schema.get(keyword) or ()):
            yield invalid(f"{path}.{keyword}", schema[keyword], "must be a list of names")
    if not all(isinstance(rule, dict) for rule in schema.get("x-kubernetes-validations") or ()):
        yield invalid(f"{path}.x-kubernetes-validations", schema["x-kubernetes-validations"], "must be a list of rules")
    for name, child in (schema.get("properties") or {}).items():
        yield from _malformed(child, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield from _malformed(schema[keyword], f"{path}.{keyword}")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(schema.get(keyword) or ()):
            yield from _malformed(each, f"{path}.{keyword}[{index}]")


def _root_errors(schema: Schema, path: str) -> list[FieldError]:
    """With a status sub-resource the status is cut out of the schema, so the root must not say much."""
    if schema.get("type") and schema["type"] != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{path}.type", schema["type"], text)]
    if any(value and keyword not in _ROOT_KEYWORDS for keyword, value in schema.items()):
        text = f"only [{_ALLOWED_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is "
        text += "enabled"
        return [invalid(path, dict(schema), text)]
    return []


def _is_convertible(schema: Json) -> bool:
    """Whether the schema has none of the keywords that a structural schema cannot even hold."""
    if isinstance(schema, list):
        return all(_is_convertible(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if any(schema.get(keyword) for keyword in (*_UNSUPPORTED, "$schema")) or isinstance(schema.get("items"), list):
        return False
    if schema.get(_PRESERVE) is False:
        return False
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    nested = [schema.get("not"), *(each for word in ("allOf", "anyOf", "oneOf") for each in schema.get(word) or ())]
    return all(_is_convertible(each) for each in (*inner, *nested))


def _invariants(schema: Schema, level: Level, path: str) -> Iterator[FieldError]:
    kind, items, additional = schema.get("type") or "", schema.get("items"), schema.get("additionalProperties")
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if items is not None:
        yield from _invariants(items, "item", f"{path}.items")
    for name, child in properties.items():
        yield from _invariants(child, "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, "field", f"{path}.additionalProperties")
    yield from _extension_errors(schema, path)
    yield from _value_validation(schema, level, path, skip_any_of=schema.get("anyOf") == _INT_OR_STRING)
    yield from _type_errors(schema, level, path)
    yield from _meta_errors(schema, level, path)
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) and not properties:
        text = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        yield required(f"{path}.properties", text)


def _extension_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for keyword in (_PRESERVE, _EMBEDDED):
            if schema.get(keyword):
                yield invalid(f"{path}.{keyword}", True, "must be false if x-kubernetes-int-or-string is true")


def _type_errors(schema: Schema, level: Level, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if schema.get(_EMBEDDED) and kind != "object":
        text = f"must be object if {_EMBEDDED} is true"
        yield required(f"{path}.type", text) if not kind else invalid(f"{path}.type", kind, text)
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not schema.get(_PRESERVE):
        yield required(f"{path}.type", _NO_TYPE[level])
    if schema.get(_EMBEDDED) and schema.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")


def _meta_errors(schema: Schema, level: Level, path: str) -> Iterator[FieldError]:
    """What a schema may say of what every resource has."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    if level == "root" or schema.get(_EMBEDDED):
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in properties and properties[name].get("type") != wanted:
                place = f"{path}.properties[{name}].type"
                yield invalid(place, properties[name].get("type") or "", f"must be {wanted}")
    metadata = properties.get("metadata")
    if level == "root" and metadata is not None:
        more = {word for word, value in metadata.items() if value} - {"type", "default", "properties"}
        if more or not set(metadata.get("properties") or {}) <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(f"{path}.properties[metadata]", text)


def _value_validation(schema: Schema, level: Level, path: str, *, skip_any_of: bool) -> Iterator[FieldError]:
    if not skip_any_of:
        for index, each in enumerate(schema.get("anyOf") or ()):
            yield from _nested(each, level, f"{path}.anyOf[{index}]")
    for index, each in enumerate(schema.get("allOf") or ()):
        first_is_pair = index == 0 and each.get("anyOf") == _INT_OR_STRING
        yield from _nested(each, level, f"{path}.allOf[{index}]", skip_any_of=first_is_pair)
    for index, each in enumerate(schema.get("oneOf") or ()):
        yield from _nested(each, level, f"{path}.oneOf[{index}]")
    if schema.get("not"):
        yield from _nested(schema["not"], level, f"{path}.not")
    if schema.get("pattern") and (why := why_not(schema["pattern"])):
        yield invalid(f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {why}")


def _nested(schema: Schema, level: Level, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    """A schema under allOf, anyOf, oneOf or not: it may restrict values, not say what fields there are."""
    yield from _value_validation(schema, level, path, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], level, f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _nested(child, "field", f"{path}.properties[{name}]")
    for keyword, text in _NESTED_FORBIDDEN:
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", text)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Schema, path: str) -> Iterator[FieldError]:
    """Every field that a nested schema at the root restricts must be specified outside of it."""
    for word in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(schema.get(word) or ()):
            yield from _is_complete(each, schema, f"{path}.{word}[{index}]", path)
    if schema.get("not"):
        yield from _is_complete(schema["not"], schema, f"{path}.not", path)


def _is_complete(nested: Schema, schema: Schema | None, path: str, outer: str) -> Iterator[FieldError]:
    if schema is None:
        yield required(outer, f"because it is defined in {path}")
        return
    for word in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(nested.get(word) or ()):
            yield from _is_complete(each, schema, f"{path}.{word}[{index}]", outer)
    if nested.get("not"):
        yield from _is_complete(nested["not"], schema, f"{path}.not", outer)
    if isinstance(nested.get("items"), dict):
        yield from _is_complete(nested["items"], schema.get("items"), f"{path}.items", f"{outer}.items")
    for name, child in (nested.get("properties") or {}).items():
        inner = (schema.get("properties") or {}).get(name)
        place = f"properties[{name}]"
        yield from _is_complete(child, inner, f"{path}.{place}", f"{outer}.{place}")


def _default_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """Defaults must be values that the schema itself accepts, without fields that it does not know."""
    default = schema.get("default")
    if default is not None:
        wrapped = {"properties": {"value": {**schema, "default": None}}, "type": "object"}
        if StructuralShape(wrapped).check({"value": default}).unknown:
            yield invalid(f"{path}.default", default, "must not have unknown fields")
        yield from ValueSchema(schema).errors(default, prefix=f"{path}.default")
    if isinstance(schema.get("items"), dict):
        yield from _default_errors(schema["items"], f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _default_errors(child, f"{path}.properties[{name}]")


def _openapi_errors(
    schema: Schema, path: str, *, root: bool = False, no_default: str = "", in_meta: bool = False
) -> Iterator[FieldError]:
    """Keywords that are not supported, or not together."""
    yield from _keyword_errors(schema, path, no_default, in_meta)
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    if additional is not None and properties and additional is not True:
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata" if in_meta else no_default
        yield from _openapi_errors(additional, f"{path}.additionalProperties", no_default=reason, in_meta=in_meta)
    for name, child in properties.items():
        of_meta = (root or bool(schema.get(_EMBEDDED))) and name in _META_FIELDS
        reason = f"in top-level {name}" if of_meta and root else no_default
        place = f"{path}.properties[{name}]"
        yield from _openapi_errors(child, place, no_default=reason, in_meta=in_meta or of_meta)
    if isinstance(schema.get("not"), dict):
        yield from _openapi_errors(schema["not"], f"{path}.not", no_default=no_default, in_meta=in_meta)
    for word in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(schema.get(word) or ()):
            yield from _openapi_errors(each, f"{path}.{word}[{index}]", no_default=no_default, in_meta=in_meta)
    if isinstance(schema.get("items"), dict):
        yield from _openapi_errors(schema["items"], f"{path}.items", no_default=no_default, in_meta=in_meta)
    if schema.get(_PRESERVE) is False:
        yield invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    yield from _list_and_map_errors(schema, path)
    yield from rule_errors(schema, path)


def _keyword_errors(schema: Schema, path: str, no_default: str, in_meta: bool) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and no_default:
        yield forbidden(f"{path}.default", f"must not be set {no_default}")
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if in_meta and schema.get(_EMBEDDED):
        yield forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)


def _list_and_map_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    kind, items = schema.get("type") or "", schema.get("items")
    for keyword, wanted, choices in (
        (_MAP_TYPE, "object", ("atomic", "granular")),
        (_LIST_TYPE, "array", ("atomic", "set", "map")),
    ):
        value = schema.get(keyword)
        if value is None:
            continue
        if kind != wanted:
            text = f"must be {wanted} if {keyword} is specified"
            yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
        elif value == "set" and isinstance(items, dict):
            yield from _set_item_errors(items, path)
        if value not in choices:
            yield not_supported(f"{path}.{keyword}", value, choices)
    if schema.get(_KEYS) and schema.get(_LIST_TYPE) != "map":
        text = f"must be map if {_KEYS} is non-empty"
        stated = schema.get(_LIST_TYPE)
        yield (
            required(f"{path}.{_LIST_TYPE}", text) if stated is None else invalid(f"{path}.{_LIST_TYPE}", stated, text)
        )
    if schema.get(_LIST_TYPE) == "map":
        yield from _list_map_errors(schema, path)
    if schema.get(_LIST_TYPE) in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        text = f"cannot be nullable when {_LIST_TYPE} is {schema[_LIST_TYPE]}"
        yield forbidden(f"{path}.items.nullable", text)


def _set_item_errors(items: Schema, path: str) -> Iterator[FieldError]:
    text = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(_LIST_TYPE, "atomic") != "atomic":
        yield invalid(f"{path}.items.{_LIST_TYPE}", items[_LIST_TYPE], text)
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(f"{path}.items.{_MAP_TYPE}", items.get(_LIST_TYPE), text)


def _list_map_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    keys, items = schema.get(_KEYS) or [], schema.get("items")
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if items is None:
        yield required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", text)
        return
    properties = items.get("properties") or {}
    for position, key in enumerate(keys):
        if key not in properties:
            yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], text)
        if key in keys[:position]:
            yield invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
    for key in keys:
        place, child = f"{path}.items.properties[{key}]", properties.get(key)
        if child is None:
            continue
        if key not in (items.get("required") or ()) and child.get("default") is None:
            text = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{place}.default", text)
        if child.get("nullable"):
            yield forbidden(f"{place}.nullable", f"this property is in {_KEYS}, so it cannot be nullable")
