"""Whether the values of a custom object are what its schema asks for, in the words of a real server.

The schema is compiled once to checks; each appends to an `Outcome`, which also counts what matched, because of several
alternatives (`anyOf`, `oneOf`) the server explains the one that came closest. On updates an error in a part that did
not change is forgiven, so that a tightened schema does not lock existing objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import FieldError, go_quote, invalid, not_supported, required, too_long, too_many, type_invalid
from allhands.api.schema.formats import format_check
from allhands.api.schema.goregex import searcher
from allhands.api.schema.numeric import as_float, is_whole, json_text, number_check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.document import Json

    Check = Callable[["Json", str, "Outcome", "Json"], None]

ABSENT: Final = object()
"""In the place of an old value where there is none to compare with."""

ROOT: Final = "<nil>"
"""How the server names the path of an error about the whole object."""

_NUMERIC_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


class Outcome:
    """What a value was found to be: its errors, and how many checks it passed."""

    __slots__ = ("errors", "matches", "prefix")

    def __init__(self, prefix: str = "") -> None:
        self.errors: list[FieldError] = []
        self.matches = 0
        self.prefix = prefix
        """Where the value stands, if it is not a whole object."""

    def path(self, name: str) -> str:
        name = name.removeprefix(".")
        if not self.prefix:
            return name or ROOT
        return f"{self.prefix}.{name}" if name else self.prefix

    def say(self, text: str) -> None:
        """An error that is not about one field."""
        self.errors.append(invalid(self.prefix or ROOT, "", text))


class ValueSchema:
    """The value checks of a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._check = _compile(schema)

    def errors(self, value: Json, old: Json = ABSENT, *, prefix: str = "") -> list[FieldError]:
        """What is wrong with the value; with `old`, only what is wrong with the parts that changed."""
        outcome = Outcome(prefix)
        self._check(value, "", outcome, old)
        if outcome.errors and old is not ABSENT and old == value:
            return []
        return list({str(error): error for error in outcome.errors}.values())


def _compile(schema: Mapping[str, Any]) -> Check:
    type_check, enum_check = _type_check(schema), _enum_check(schema)
    checks = [
        check
        for check in (
            _junctor_check(schema),
            _string_check(schema),
            _number_check(schema),
            _list_check(schema),
            _object_check(schema),
        )
        if check is not None
    ]
    types = declared_types(schema)
    by_type: dict[type[Any], list[Check]] = {}
    counts: dict[type[Any], int] = {}
    for kind, name in _TYPE_NAMES.items():
        by_type[kind] = [check for kinds, check in checks if kind in kinds]
        counts[kind] = _COUNTED + _COUNTED_BY_TYPE[kind] + (type_check is not None)
        if name in types:
            counts[kind] += 1  # it is what it should be: no need to ask
        elif type_check is not None:
            by_type[kind].insert(0, type_check)

    def check_value(value: Json, path: str, outcome: Outcome, old: Json) -> None:
        if value is None:
            if type_check is not None:
                type_check(value, path, outcome, old)
        else:
            kind = type(value)
            if kind is int and not -(2**63) <= value < 2**63:
                value, kind = as_float(value), float
            for check in by_type[kind]:
                check(value, path, outcome, old)
            outcome.matches += counts[kind]
        if enum_check is not None:
            enum_check(value, path, outcome)

    return check_value


_COUNTED: Final = 4
"""How many checks the server counts for every value, passed or not, beside that of its type."""
_COUNTED_BY_TYPE: Final[dict[type[Any], int]] = {str: 1, int: 2, float: 2, bool: 0, list: 2, dict: 1}
_TYPE_NAMES: Final[dict[type[Any], str]] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_NATIVE_FORMATS: Final[dict[type[Any], str]] = {int: "int64", float: "float64"}


def declared_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def supported_format(schema: Mapping[str, Any]) -> str:
    """The format, if it is one that the server knows for the type."""
    form: str = schema.get("format") or ""
    types = declared_types(schema)
    only = types[0] if len(types) == 1 else ""
    if only in ("", "string"):
        return form if format_check(form) else ""
    return form if form in _NUMERIC_FORMATS.get(only, ()) else ""


def _type_check(schema: Mapping[str, Any]) -> Check | None:
    """Only asked about values that are not of a declared type."""
    types, form, nullable = declared_types(schema), supported_format(schema), bool(schema.get("nullable"))
    if not types and not form:
        return None
    numeric = "integer" in types or "number" in types
    wanted = ",".join(types)

    def check(value: Json, path: str, outcome: Outcome, _old: Json) -> None:
        kind = type(value)
        if _is_close_enough(value, types):
            outcome.matches += 1
        elif value is None:
            if types and not nullable:
                _refuse_type(outcome, path, wanted, "null")
            else:
                outcome.matches += 1
        elif form and kind not in (str, list):
            if _NATIVE_FORMATS.get(kind, "") != form:
                _refuse_type(outcome, path, form, _NATIVE_FORMATS.get(kind, ""))
            else:
                _refuse_type(outcome, path, wanted, _TYPE_NAMES[kind])
        elif form and not numeric:
            outcome.matches += 1
        else:
            _refuse_type(outcome, path, wanted, _TYPE_NAMES[kind])

    return check


def _is_close_enough(value: Json, types: tuple[str, ...]) -> bool:
    if type(value) is float:
        return "integer" in types and is_whole(value)
    return type(value) is int and "number" in types


def _refuse_type(outcome: Outcome, path: str, wanted: str, found: str) -> None:
    text = f"{path} in body must be of type {wanted}: {go_quote(found)}"
    outcome.errors.append(type_invalid(outcome.path(path), found, text))


def _enum_check(schema: Mapping[str, Any]) -> Callable[[Json, str, Outcome], None] | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    shown = [value if isinstance(value, str) else json_text(value) for value in allowed]
    texts = frozenset(value for value in allowed if isinstance(value, str))

    def check(value: Json, path: str, outcome: Outcome) -> None:
        if isinstance(value, str):
            found = value in texts
        else:
            found = value is not None and any(_same(value, choice) for choice in allowed)
        if not found:
            outcome.errors.append(not_supported(outcome.path(path), value, shown))

    return check


def _same(value: Json, other: Json) -> bool:
    """Equal as JSON: in Python, true would equal 1."""
    return bool(value == other) and isinstance(value, bool) is isinstance(other, bool)


def _string_check(schema: Mapping[str, Any]) -> tuple[tuple[type[Any], ...], Check] | None:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern") or ""
    form = supported_format(schema)
    is_formatted = format_check(form) if form else None
    if longest is None and shortest is None and not pattern and is_formatted is None:
        return None
    search = searcher(pattern) if pattern else None

    def check(value: Json, path: str, outcome: Outcome, _old: Json) -> None:
        if longest is not None and len(value) > longest:
            outcome.errors.append(too_long(outcome.path(path), longest))
        elif shortest is not None and len(value) < shortest:
            text = f"{path} in body should be at least {shortest} chars long"
            outcome.errors.append(invalid(outcome.path(path), value, text))
        elif search is not None and not search(value):
            outcome.errors.append(invalid(outcome.path(path), value, f"{path} in body should match '{pattern}'"))
        if is_formatted is not None:
            outcome.matches += 1
            if not is_formatted(value):
                text = f"{path} in body must be of type {form}: {go_quote(value)}"
                outcome.errors.append(type_invalid(outcome.path(path), value, text))

    return (str,), check


def _number_check(schema: Mapping[str, Any]) -> tuple[tuple[type[Any], ...], Check] | None:
    form = supported_format(schema)
    complaints = number_check(schema, declared_types(schema), form)
    if complaints is None:
        return None
    bounded = any(schema.get(word) is not None for word in ("maximum", "minimum", "multipleOf"))
    # Any integer is in the range of the widest type.
    kinds: tuple[type[Any], ...] = (int, float) if bounded or form in ("int32", "float") else (float,)

    def check(value: Json, path: str, outcome: Outcome, _old: Json) -> None:
        for complaint in complaints(value, path):
            if isinstance(complaint, str):
                outcome.say(complaint)
            else:
                outcome.errors.append(msgspec.structs.replace(complaint, path=outcome.path(path)))

    return kinds, check


def _list_check(schema: Mapping[str, Any]) -> tuple[tuple[type[Any], ...], Check]:
    items = schema.get("items")
    check_item = _compile(items) if isinstance(items, dict) else None
    fewest, most, unique = schema.get("minItems"), schema.get("maxItems"), bool(schema.get("uniqueItems"))
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    by_key = keys if schema.get("x-kubernetes-list-type") == "map" else []

    def check(value: Json, path: str, outcome: Outcome, old: Json) -> None:
        if check_item is not None:
            before = _by_keys(old, by_key) if by_key and isinstance(old, list) else {}
            for index, item in enumerate(value):
                was = before.get(_key_of(item, by_key), ABSENT) if before else ABSENT
                first = len(outcome.errors)
                check_item(item, f"{path}[{index}]", outcome, was)
                if len(outcome.errors) > first and was is not ABSENT and was == item:
                    del outcome.errors[first:]
        count = len(value)
        if fewest is not None and count < fewest:
            text = f"{path} in body should have at least {fewest} items"
            outcome.errors.append(invalid(outcome.path(path), count, text))
        if most is not None and count > most:
            outcome.errors.append(too_many(outcome.path(path), count, most))
        if unique and any(_same(item, other) for index, item in enumerate(value) for other in value[:index]):
            outcome.errors.append(invalid(outcome.path(path), "", f"{path} in body shouldn't contain duplicates"))

    return (list,), check


def _key_of(item: Json, keys: list[str]) -> str:
    return json_text([item.get(key) for key in keys]) if isinstance(item, dict) else ""


def _by_keys(items: list[Json], keys: list[str]) -> dict[str, Json]:
    return {_key_of(item, keys): item for item in reversed(items) if isinstance(item, dict)}


def _object_check(schema: Mapping[str, Any]) -> tuple[tuple[type[Any], ...], Check] | None:
    children = {name: _compile(child) for name, child in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    check_other = _compile(additional) if isinstance(additional, dict) else None
    closed = additional is False
    needed: list[str] = schema.get("required") or []
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")

    def check(value: Json, path: str, outcome: Outcome, old: Json) -> None:
        if fewest is not None and len(value) < fewest:
            text = f"{path} in body should have at least {fewest} properties"
            outcome.errors.append(invalid(outcome.path(path), len(value), text))
        if most is not None and len(value) > most:
            outcome.errors.append(too_many(outcome.path(path), len(value), most))
        before = old if isinstance(old, dict) else {}
        for key, item in value.items():
            check_child = children.get(key, check_other)
            if check_child is not None:
                first = len(outcome.errors)
                was = before.get(key, ABSENT)
                check_child(item, f"{path}.{key}" if path else key, outcome, was)
                if len(outcome.errors) > first and was is not ABSENT and was == item:
                    del outcome.errors[first:]
            elif closed and key not in children:
                text = f"{path}.{key} in body is a forbidden property"
                outcome.errors.append(invalid(outcome.path(path), key, text))
        for name in needed:
            if name not in value:
                outcome.errors.append(required(outcome.path(f"{path}.{name}")))

    return (
        ((dict,), check)
        if children or check_other or closed or needed or fewest is not None or most is not None
        else None
    )


def _junctor_check(schema: Mapping[str, Any]) -> tuple[tuple[type[Any], ...], Check] | None:
    any_of, one_of, all_of = (
        [_compile(each) for each in schema.get(word) or ()] for word in ("anyOf", "oneOf", "allOf")
    )
    negated = schema.get("not")
    check_not = _compile(negated) if negated else None
    if not (any_of or one_of or all_of or check_not):
        return None

    def check(value: Json, path: str, outcome: Outcome, old: Json) -> None:
        if any_of:
            _check_any(any_of, value, path, outcome, old)
        if one_of:
            _check_one(one_of, value, path, outcome, old)
        if all_of:
            _check_all(all_of, value, path, outcome, old)
        if check_not is not None and not _attempt(check_not, value, path, outcome, old).errors:
            outcome.say(f"{go_quote(path)} must not validate the schema (not)")

    return tuple(_TYPE_NAMES), check


def _attempt(check: Check, value: Json, path: str, outcome: Outcome, old: Json) -> Outcome:
    attempt = Outcome(outcome.prefix)
    check(value, path, attempt, old)
    return attempt


def _merge(outcome: Outcome, attempt: Outcome | None) -> None:
    if attempt is not None:
        outcome.errors += attempt.errors
        outcome.matches += attempt.matches


def _check_any(checks: list[Check], value: Json, path: str, outcome: Outcome, old: Json) -> None:
    closest: Outcome | None = None
    for check in checks:
        attempt = _attempt(check, value, path, outcome, old)
        if not attempt.errors:
            outcome.matches += attempt.matches
            return
        if closest is None or attempt.matches > closest.matches:
            closest = attempt
    outcome.say(f"{go_quote(path)} must validate at least one schema (anyOf)")
    _merge(outcome, closest)


def _check_one(checks: list[Check], value: Json, path: str, outcome: Outcome, old: Json) -> None:
    closest: Outcome | None = None
    valid: list[Outcome] = []
    for check in checks:
        attempt = _attempt(check, value, path, outcome, old)
        if not attempt.errors:
            valid.append(attempt)
            closest = None
        elif not valid and (closest is None or attempt.matches > closest.matches):
            closest = attempt
    if len(valid) == 1:
        outcome.matches += valid[0].matches
        return
    found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    outcome.say(f"{go_quote(path)} must validate one and only one schema (oneOf). {found}")
    _merge(outcome, closest)


def _check_all(checks: list[Check], value: Json, path: str, outcome: Outcome, old: Json) -> None:
    attempts = [_attempt(check, value, path, outcome, old) for check in checks]
    for attempt in attempts:
        _merge(outcome, attempt)
    passed = sum(not attempt.errors for attempt in attempts)
    if passed != len(attempts):
        none = "" if passed else ". None validated"
        outcome.say(f"{go_quote(path)} must validate all the schemas (allOf){none}")
