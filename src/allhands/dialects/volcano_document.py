"""Volcano's scheduler configuration as it is written: its fields, and the values of arguments as Volcano reads them.

Volcano itself passes over what it does not know or cannot read; here that is an error, since it is never meant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.configuration import wrong_type
from allhands.dialects.volcano_rows import Type
from allhands.model.go_duration import exact_seconds

if TYPE_CHECKING:
    from allhands.api.errors import FieldError


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: list[dict[str, Any]] | None = None


class ActionArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | None = None


class SchedulerConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    actions: str
    tiers: list[Tier] | None = None
    configurations: list[ActionArguments] | None = None
    metrics: dict[str, Any] | None = None


class Notice(msgspec.Struct, frozen=True):
    """Something that was understood differently from how it is written, and where it is written."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class Use(msgspec.Struct, frozen=True):
    """A plugin in a tier, checked: what it was given, and which of its switches are on or off by word."""

    path: str
    name: str
    arguments: dict[str, Any]
    switches: dict[str, bool]

    def is_on(self, switch: str) -> bool:
        """All are on unless they are switched off, except this one."""
        return self.switches.get(switch, switch != "enableHierarchy")

    def number(self, name: str, default: int) -> int:
        found: int = self.arguments.get(name, default)
        return found


TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_PYTHON_TYPES: Final[dict[Type, tuple[type, ...]]] = {
    Type.WHOLE: (int,),
    Type.NUMBER: (int, float),
    Type.BOOL: (bool,),
    Type.TEXT: (str,),
    Type.DURATION: (str,),
    Type.MAPPING: (dict,),
    Type.LIST: (list,),
}
_LONGEST_DURATION: Final = 100


def typed(value: Any, type: Type, path: str) -> Any | FieldError:
    """The value of an argument, or what is wrong with it. Text that says true or false is taken for it."""
    if type is Type.BOOL and isinstance(value, str) and value in TRUE | FALSE:
        return value in TRUE
    if not isinstance(value, _PYTHON_TYPES[type]) or (isinstance(value, bool) and type is not Type.BOOL):
        return wrong_type(path, value, f"a {type.value}" if type is not Type.BOOL else type.value)
    if type is Type.DURATION and seconds_of(str(value)) is None:
        return wrong_type(path, value, "a duration such as 1h30m, with the units ns, us, ms, s, m and h")
    return value


def seconds_of(duration: str) -> int | None:
    """A duration as Go writes it, in seconds, rounded up; None if it is none, or not more than zero."""
    exact = exact_seconds(duration, _LONGEST_DURATION)
    return None if exact is None else math.ceil(exact) or None
