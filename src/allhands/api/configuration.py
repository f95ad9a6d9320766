"""Reading what people configure: into types, or refused with each field's path, what was wrong and what is allowed.

The fast way is one conversion; only a document that fails is walked in Python, to name everything that is wrong with
it at once. Nothing is guessed: text is no number, and a name that nobody knows is never skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import inspect

from allhands.api.errors import Fault, FieldError, not_supported, required, type_invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

_LONGEST_SHOWN = 60


class ConfigurationError(ValueError):
    """A configuration that cannot be used, with everything that is wrong with it."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


def read(document: object, wanted: type[T], path: str = "") -> T:
    """The document as the wanted type, or a ConfigurationError."""
    try:
        return msgspec.convert(document, wanted)
    except msgspec.ValidationError as error:
        found = list(_faults(document, inspect.type_info(wanted), path))
        raise ConfigurationError(found or [FieldError(Fault.INVALID, path or "document", detail=str(error))]) from None


def unknown_field(path: str, known: Iterable[str]) -> FieldError:
    return FieldError(Fault.FORBIDDEN, path, detail=f"there is no such field; there are {listed(known)}")


def listed(names: Iterable[str]) -> str:
    """Names for a sentence, in a fixed order."""
    return ", ".join(sorted(names)) or "none"


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def wrong_type(path: str, value: object, expected: str) -> FieldError:
    return type_invalid(path or "document", shown(value), f"expected {expected}")


def shown(value: object) -> object:
    """A value for a message. What is long or nested is named by its kind: no message is larger than its cause."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…"
    if isinstance(value, int | float) or value is None:
        return value if not isinstance(value, int) or value.bit_length() <= 64 else "a number of more than 64 bits"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def _faults(value: object, kind: inspect.Type, path: str) -> Iterator[FieldError]:
    match kind:
        case inspect.UnionType():
            if value is not None or not any(isinstance(it, inspect.NoneType) for it in kind.types):
                others = [it for it in kind.types if not isinstance(it, inspect.NoneType)]
                # A value is reported by the first type that it could have been meant as.
                meant = next((it for it in others if _could_be(value, it)), others[0])
                yield from _faults(value, meant, path)
        case inspect.Metadata():
            yield from _faults(value, kind.type, path)
        case inspect.StructType():
            yield from _struct_faults(value, kind, path)
        case inspect.ListType() | inspect.VarTupleType():
            if not isinstance(value, list | tuple):
                yield wrong_type(path, value, "a list")
                return
            for index, item in enumerate(value):
                yield from _faults(item, kind.item_type, f"{path}[{index}]")
        case inspect.DictType():
            if not isinstance(value, dict):
                yield wrong_type(path, value, "a mapping")
                return
            for name, item in value.items():
                yield from _faults(name, kind.key_type, path)
                yield from _faults(item, kind.value_type, f"{path}[{shown(name)}]")
        case _:
            yield from _leaf_faults(value, kind, path)


def _struct_faults(value: object, kind: inspect.StructType, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield wrong_type(path, value, "a mapping")
        return
    fields = {field.encode_name: field for field in kind.fields}
    clean = True
    for name in value:
        if name not in fields:
            clean = False
            yield unknown_field(child(path, str(shown(name))), fields)
    for name, field in fields.items():
        if name in value:
            for fault in _faults(value[name], field.type, child(path, name)):
                clean = False
                yield fault
        elif field.required:
            clean = False
            yield required(child(path, name), _expected(field.type))
    if clean:
        # What the type itself refuses: rules over several fields.
        try:
            msgspec.convert(value, kind.cls)
        except msgspec.ValidationError as error:
            detail, _, below = str(error).partition(" - at `$")
            yield FieldError(Fault.INVALID, f"{path}{below.rstrip('`')}".lstrip(".") or "document", detail=detail)


def _leaf_faults(value: object, kind: inspect.Type, path: str) -> Iterator[FieldError]:
    if (choices := _choices(kind)) is not None:
        if not isinstance(value, str) or value not in choices:
            yield not_supported(path, shown(value), choices)
        return
    if not _has_type(value, kind):
        yield wrong_type(path, value, _expected(kind))
    elif isinstance(kind, inspect.IntType | inspect.FloatType) and (problem := _out_of_range(value, kind)):
        yield FieldError(Fault.INVALID, path, shown(value), problem)
    elif isinstance(kind, inspect.StrType) and kind.min_length and not value:
        yield FieldError(Fault.INVALID, path, "", "must not be empty")


def _could_be(value: object, kind: inspect.Type) -> bool:
    """Whether the one was written for the other, right or wrong."""
    match kind:
        case inspect.Metadata():
            return _could_be(value, kind.type)
        case inspect.StructType() | inspect.DictType():
            return isinstance(value, dict)
        case inspect.ListType() | inspect.VarTupleType():
            return isinstance(value, list | tuple)
        case inspect.LiteralType() | inspect.EnumType() | inspect.StrType():
            return isinstance(value, str)
        case _:
            return _has_type(value, kind)


def _has_type(value: object, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        numbers = int if isinstance(kind, inspect.IntType) else int | float
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, str) or not isinstance(kind, inspect.StrType)


def _choices(kind: inspect.Type) -> tuple[str, ...] | None:
    if isinstance(kind, inspect.EnumType):
        return tuple(str(member.value) for member in kind.cls)
    if isinstance(kind, inspect.LiteralType):
        return tuple(str(value) for value in kind.values)
    return None


def _out_of_range(value: Any, kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and value < kind.ge:
        return f"must be at least {kind.ge}"
    if kind.gt is not None and value <= kind.gt:
        return f"must be more than {kind.gt}"
    if kind.le is not None and value > kind.le:
        return f"must be at most {kind.le}"
    return ""


def _expected(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.UnionType):
        return _expected(next(it for it in kind.types if not isinstance(it, inspect.NoneType)))
    if (choices := _choices(kind)) is not None:
        return " or ".join(f'"{choice}"' for choice in choices)
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return "a mapping"
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return "a list"
    names = {inspect.IntType: "a whole number", inspect.FloatType: "a number", inspect.StrType: "text"}
    return names.get(type(kind), "true or false" if isinstance(kind, inspect.BoolType) else "a value")
