"""The flags that a Job gives to a plugin, read as Go's flag package reads them: `--port=23`, `-port 23`, `--wait`.

A plugin is a frozen struct whose fields are its flags. What cannot be read is told with the place in the Job, what was
wrong and what is allowed; it is never passed over in silence.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from allhands.api.errors import FieldError, invalid, not_supported

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T", bound=msgspec.Struct)

MAX_PORT: Final = 65_535
Port = Annotated[int, Meta(ge=1, le=MAX_PORT)]
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_LONGEST_SHOWN: Final = 60


class Flag(NamedTuple):
    """One flag of a plugin, as its documentation tells it."""

    name: str
    default: str | int | bool
    meaning: str


def flags_of(plugin: type[msgspec.Struct]) -> tuple[Flag, ...]:
    return tuple(Flag(name, it.default, _meaning(it.type)) for name, it in _fields(plugin).items())


def read(plugin: type[T], arguments: Sequence[str], path: str) -> tuple[T, list[FieldError]]:
    """The plugin as its flags say, and what is wrong with them. What is wrong stays as it is without the flag."""
    fields = _fields(plugin)
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    rest = list(enumerate(arguments))
    while rest:
        index, argument = rest.pop(0)
        where = f"{path}[{index}]"
        name, equals, text = argument.lstrip("-").partition("=")
        dashes = len(argument) - len(argument.lstrip("-"))
        if argument == "--" or not 1 <= dashes <= 2 or not name:
            errors.append(invalid(where, _shown(argument), f"not a flag; {_allowed(fields)}"))
            continue
        if name not in fields:
            errors.append(not_supported(where, _shown(argument), [f"--{it}" for it in fields]))
            if not equals and rest and not rest[0][1].startswith("-"):
                rest.pop(0)  # its value, which would only be a second finding
            continue
        kind = _plain(fields[name].type)
        if not equals:
            if kind is bool:
                text = "true"
            elif rest:
                text = rest.pop(0)[1]
            else:
                errors.append(invalid(where, argument, f"the value of the flag is missing; write --{name}=VALUE"))
                continue
        value, problem = _value(kind, fields[name].type, text)
        if problem:
            errors.append(invalid(where, _shown(argument), f"--{name} {problem}"))
        else:
            values[fields[name].name] = value
    return plugin(**values), errors


@lru_cache(maxsize=64)
def _fields(plugin: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """By the names that users write. Never changed by who asks."""
    return {it.encode_name: it for it in msgspec.structs.fields(plugin)}


def _value(kind: Any, whole: Any, text: str) -> tuple[Any, str]:
    """What the text stands for, or what is wrong with it."""
    if kind is bool:
        if text in _TRUE or text in _FALSE:
            return text in _TRUE, ""
        return None, "must be true or false"
    if kind is int:
        if _NUMBER.fullmatch(text) is None:
            return None, f"must be a whole number{_range(whole)}"
        try:
            return msgspec.convert(int(text), whole), ""
        except msgspec.ValidationError:
            return None, f"must be a whole number{_range(whole)}"
    try:
        return msgspec.convert(text, whole), ""
    except msgspec.ValidationError:
        return None, f"must be one of {', '.join(map(repr, get_args(kind)))}"


def _plain(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _metas(kind: Any) -> list[Meta]:
    return [it for it in get_args(kind)[1:] if isinstance(it, Meta)] if get_origin(kind) is Annotated else []


def _meaning(kind: Any) -> str:
    return next((it.description for it in _metas(kind) if it.description), "")


def _range(kind: Any) -> str:
    least = next((it.ge for it in _metas(kind) if it.ge is not None), None)
    most = next((it.le for it in _metas(kind) if it.le is not None), None)
    return f" from {least} to {most}" if most is not None else f" of at least {least}" if least is not None else ""


def _allowed(fields: dict[str, Any]) -> str:
    return f"allowed: {', '.join(f'--{it}' for it in fields)}" if fields else "this plugin has no flags"


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
