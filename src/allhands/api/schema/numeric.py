"""Numbers in the schemas of custom kinds: bounds, multiples and ranges, checked and worded as Go does.

Go compares integers with bounds cut to integers, and writes floats its own way; so do we.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import FieldError, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allhands.api.document import Json

INT_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_MAX_FLOAT32: Final = 3.4028235677973366e38
"""The first number that no longer rounds to a float of 32 bits."""


def go_float(number: float) -> str:
    """A number as Go's %v writes it."""
    if isinstance(number, int):
        return str(number)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    mantissa, _, exponent = _shortest(number).partition("e")
    power = int(exponent or "0")
    if -4 <= power < 6:
        plain = f"{number:.{max(0, len(mantissa.lstrip('-').replace('.', '')) - 1 - power)}f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _shortest(number: float) -> str:
    """The fewest digits that mean the number, always with an exponent."""
    for digits in range(17):
        text = f"{number:.{digits}e}"
        if float(text) == number:
            return text
    return f"{number:.17e}"


def as_float(number: int) -> float:
    """What Go reads for an integer that does not fit into 64 bits."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def json_text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


class NumberCheck:
    """The checks of one schema; calling it yields the errors of a number, with and without a field of their own."""

    def __init__(self, schema: Mapping[str, Any], type_name: str, form: str) -> None:
        self._type = type_name
        self._format = form
        self._maximum, self._minimum = schema.get("maximum"), schema.get("minimum")
        self._below, self._above = bool(schema.get("exclusiveMaximum")), bool(schema.get("exclusiveMinimum"))
        self._factor = schema.get("multipleOf")

    def __call__(self, value: float, path: str) -> Iterator[FieldError | str]:
        """Errors of a field (its path is still the plain one), or sentences about the whole object."""
        if wrong := self._out_of_range(value, "Checked", path):
            yield wrong
        if self._factor is not None:
            yield from self._multiple(value, self._factor, path)
        if self._minimum is not None:
            yield from self._bound(value, self._minimum, path, lower=True)
        if self._maximum is not None:
            yield from self._bound(value, self._maximum, path, lower=False)

    def _out_of_range(self, value: float, what: str, path: str) -> str:
        """Why a value, or a bound in the schema, is no number of the type."""
        if self._type == "integer":
            low, high = INT_RANGES.get(self._format, INT_RANGES["int64"])
            fits = float(value).is_integer() and low <= value <= high
        else:
            fits = self._format != "float" or abs(value) < _MAX_FLOAT32
        if fits:
            return ""
        form = f"with format {self._format}" if self._format else "(default format)"
        return f"{what} value must be of type {self._type} {form} in {path}"

    def _bound(self, value: float, bound: float, path: str, *, lower: bool) -> Iterator[FieldError | str]:
        name = "Minimum boundary" if lower else "Maximum boundary"
        wrong = self._out_of_range(bound, name, path)
        if wrong:
            yield wrong
        whole = isinstance(value, int) and not wrong
        limit = math.trunc(bound) if whole else float(bound)
        exclusive = self._above if lower else self._below
        missed = value < limit if lower else value > limit
        if missed or (exclusive and value == limit):
            comparison = ("greater" if lower else "less") + (" than" if exclusive else " than or equal to")
            shown = value if whole else float(value)
            yield invalid(path, shown, f"{path} in body should be {comparison} {go_float(limit)}")

    def _multiple(self, value: float, factor: float, path: str) -> Iterator[FieldError | str]:
        wrong = self._out_of_range(factor, "MultipleOf", path)
        if wrong:
            yield wrong
        whole = isinstance(value, int) and not wrong
        unit = math.trunc(factor) if whole else float(factor)
        if unit <= 0:
            yield invalid(path, unit, f"factor MultipleOf declared for {path} must be positive: {go_float(unit)}")
            return
        ratio = value % unit == 0 if whole else is_whole(1 / unit * value if unit < 1 else value / unit)
        if not ratio:
            yield invalid(path, value, f"{path} in body should be a multiple of {go_float(unit)}")


def is_whole(number: float) -> bool:
    """Close enough to an integer, as the server's library counts."""
    if not math.isfinite(number) or abs(number) > 2**53 - 1:
        return False
    nearest = float(round(number))
    difference = abs(number - nearest)
    if difference == 0:
        return True
    if number == 0 or nearest == 0 or difference < 2.2e-308:
        return difference < 1e-9 * 2.2e-308
    return difference / min(abs(number) + abs(nearest), 1.7e308) < 1e-9


def number_check(
    schema: Mapping[str, Any], types: tuple[str, ...], form: str
) -> Callable[[float, str], Iterator[FieldError | str]] | None:
    """The check of a schema; None if every number will do."""
    only = types[0] if len(types) == 1 and types[0] in ("integer", "number") else ""
    bounded = any(schema.get(word) is not None for word in ("maximum", "minimum", "multipleOf"))
    if not bounded and only != "integer" and form != "float":
        return None
    return NumberCheck(schema, only, form if only else "")
