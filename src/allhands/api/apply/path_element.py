"""One step of a field's path, as the text that FieldsV1 has for it: `f:name`, `k:{"name":"x"}`, `v:"x"` or `i:0`.

The text is canonical: two steps that mean the same place are the same text, so that sets of them are plain sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from allhands.api.errors import go_quote

if TYPE_CHECKING:
    from allhands.api.document import Json

PathElement: TypeAlias = str

_RANKS: Final = {"f": 0, "k": 1, "v": 2, "i": 3}
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""What Go writes of these inside of JSON texts."""


class MalformedElementError(ValueError):
    """A text that is no step of a path."""


def field(name: str) -> PathElement:
    """The field of that name in a map or a struct."""
    return f"f:{name}"


def key(values: dict[str, Json]) -> PathElement:
    """The item of a list whose key fields have these values."""
    inside = ",".join(f"{go_json(name)}:{go_json(values[name])}" for name in sorted(values))
    return f"k:{{{inside}}}"


def member(value: Json) -> PathElement:
    """The item of a set that is this value."""
    return f"v:{go_json(value)}"


def canonical(text: str) -> PathElement | None:
    """The step that a client wrote; None for one of a sort that is not known."""
    if len(text) < 2:
        raise MalformedElementError("key must be 2 characters long:")
    if text[1] != ":":
        raise MalformedElementError(f"missing colon: {text}")
    match text[0]:
        case "f":
            return text
        case "k":
            values = _decoded(text[2:])
            if not isinstance(values, dict):
                raise MalformedElementError(f"no object: {text}")
            return key(values)
        case "v":
            return member(_decoded(text[2:]))
        case "i":
            return f"i:{_index(text[2:])}"
    return None


def shown(element: PathElement) -> str:
    """The step as refusals write it: `.name`, `[name="x"]`, `[="x"]`, `[0]`."""
    inside = element[2:]
    match element[0]:
        case "f":
            return f".{inside}"
        case "k":
            return "[" + ",".join(f"{name}={_shown_value(value)}" for name, value in _decoded(inside).items()) + "]"
        case "v":
            return f"[={_shown_value(_decoded(inside))}]"
    return f"[{inside}]"


def shown_path(path: tuple[PathElement, ...]) -> str:
    return "".join(map(shown, path))


def sort_key(element: PathElement) -> tuple[int, Any]:
    """Fields come first, then keys, values and indexes; numbers before texts, texts before truths."""
    rank, inside = _RANKS[element[0]], element[2:]
    match element[0]:
        case "k":
            return rank, [(name, _value_key(value)) for name, value in _decoded(inside).items()]
        case "v":
            return rank, _value_key(_decoded(inside))
        case "i":
            return rank, int(inside)
    return rank, inside


def _value_key(value: Json) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, go_json(value))


def _shown_value(value: Json) -> str:
    if isinstance(value, str):
        return go_quote(value)
    return go_json(value)


def go_json(value: Json) -> str:
    """The value as Go writes it: keys sorted, nothing in it that HTML would take for its own."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return msgspec.json.encode(value, order="sorted").decode().translate(_ESCAPES)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise MalformedElementError(str(error)) from None


def _index(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise MalformedElementError(f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    return int(text)
