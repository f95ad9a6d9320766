"""The JSONPath dialect of Kubernetes (client-go), as printer columns of custom resources use it.

A path is compiled once into steps; a step maps the values found so far to the next ones. Where the dialect is odd, the
oddity is kept, because a column must show here what it shows on a real cluster: `['a.b']` means `.a.b` (a dot in a key
is written `\\.`), and comparing values of two types is an error, not false.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final

from allhands.api.document import Json

Step = Callable[[list[Json]], list[Json]]

_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_FIELD: Final = re.compile(r"(?:\\.|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[\d.]*", re.ASCII)
_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?", re.ASCII)
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARE: Final[dict[str, Callable[[Json, Json], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class PathSyntaxError(ValueError):
    """The text is no path."""


class PathEvaluationError(ValueError):
    """The path does not fit the object: an index out of bounds, a filter over what is no list."""


def compile_path(text: str) -> Step:
    """The path as a function from values to the values it finds in them. Raises PathSyntaxError."""
    return _Compiler(text).compile()


def find(path: Step, document: Json) -> list[Json]:
    """Everything the path finds in a document. Raises PathEvaluationError."""
    return path([document])


class _Compiler:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._steps: list[Step] = []
        self._recursed = False

    def compile(self) -> Step:
        while self._position < len(self._text) and self._text[self._position] != "}":
            self._next_step()
        return _chain(self._steps)

    def _add(self, step: Step) -> None:
        self._steps.append(step)
        self._recursed = False

    def _next_step(self) -> None:
        text, start = self._text, self._position
        character = text[start]
        if text.startswith("[?(", start):
            self._add(self._filter())
        elif text.startswith("..", start):
            self._descend()
        elif character in " @$":
            self._position += 1
        elif character == "[":
            self._add(self._array())
        elif character in "\"'":
            self._add(_constant(self._quoted()))
        elif character == ".":
            self._position += 1
            self._add(self._field())
        elif character in "+-" or character.isdigit():
            self._add(_per_value(self._number()))
        elif character == "_" or character.isalpha():
            self._add(self._word())
        else:
            raise PathSyntaxError(f"unrecognized character in action: {character!r}")

    def _field(self) -> Step:
        match = _FIELD.match(self._text, self._position)
        assert match is not None  # the expression also matches the empty text
        self._position = match.end()
        name = match.group()
        return _wildcard if name == "*" else _field(name.replace("\\", ""))

    def _descend(self) -> None:
        if self._recursed:
            raise PathSyntaxError("invalid multiple recursive descent")
        self._position += 2
        self._add(_descendants)
        self._recursed = True
        following = self._text[self._position : self._position + 1]
        if following == "_" or following.isalnum():
            self._add(self._field())

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._position)
        assert match is not None  # the expression also matches the empty text
        self._position = match.end()
        try:
            return int(match.group())
        except ValueError:
            try:
                return float(match.group())
            except ValueError as error:
                raise PathSyntaxError(f"cannot parse number {match.group()}") from error

    def _word(self) -> Step:
        start = self._position
        while self._position < len(self._text) and self._text[self._position] not in _TERMINATORS:
            self._position += 1
        word = self._text[start : self._position]
        return _per_value(word == "true") if word in ("true", "false") else _unknown_word(word)

    def _quoted(self) -> str:
        quote, index = self._text[self._position], self._position + 1
        characters: list[str] = []
        while index < len(self._text) and self._text[index] not in (quote, "\n"):
            if self._text[index] == "\\":
                index += 1
                characters.append(_ESCAPES.get(self._text[index : index + 1], self._text[index : index + 1]))
            else:
                characters.append(self._text[index])
            index += 1
        if self._text[index : index + 1] != quote:
            raise PathSyntaxError("unterminated quoted string")
        self._position = index + 1
        return "".join(characters)

    def _array(self) -> Step:
        end = self._text.find("]", self._position)
        if end < 0:
            raise PathSyntaxError("unterminated array")
        inner = self._text[self._position + 1 : end]
        self._position = end + 1
        if "," in inner:
            return _union([compile_path(f"[{part.strip(' ')}]") for part in inner.split(",")])
        if key := _KEY.fullmatch(inner):
            return compile_path("." + key.group(1))
        bounds = _SLICE.fullmatch(":" if inner == "*" else inner)
        if bounds is None:
            raise PathSyntaxError(f"invalid array index {inner}")
        return _slice(*bounds.groups())

    def _filter(self) -> Step:
        start = self._position + len("[?(")
        end, quote = start, ""
        while end < len(self._text) and (quote or self._text[end] != ")"):
            character = self._text[end]
            if quote and character == quote and self._text[end - 1] != "\\":
                quote = ""
            elif not quote and character in "\"'":
                quote = character
            end += 1
        if self._text[end : end + 2] != ")]":
            raise PathSyntaxError("unterminated filter")
        self._position = end + 2
        condition = self._text[start:end]
        comparison = _COMPARISON.fullmatch(condition)
        if comparison is None:
            return _filter_present(compile_path(condition))
        left, word, right = comparison.groups()
        return _filter_compared(compile_path(left), word, compile_path(right))


def _chain(steps: list[Step]) -> Step:
    def chain(values: list[Json]) -> list[Json]:
        for step in steps:
            values = step(values)
        return values

    return chain


def _constant(value: Json) -> Step:
    return lambda _values: [value]


def _per_value(value: Json) -> Step:
    return lambda values: [value for _ in values]


def _unknown_word(word: str) -> Step:
    def refuse(_values: list[Json]) -> list[Json]:
        raise PathEvaluationError(f"unrecognized identifier {word}")

    return refuse


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _wildcard(values: list[Json]) -> list[Json]:
    return [child for value in values for child in _children(value)]


def _descendants(values: list[Json]) -> list[Json]:
    found: list[Json] = []
    for value in values:
        if children := _children(value):
            found.append(value)
            found.extend(_descendants(children))
    return found


def _union(paths: list[Step]) -> Step:
    return lambda values: [found for path in paths for found in path(values)]


MAX_DIGITS = 18


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise PathSyntaxError(f"strconv.Atoi: parsing {text[:MAX_DIGITS]}…: value out of range")
    return int(text)


def _slice(first: str, second: str | None, third: str | None) -> Step:
    """`[start:stop:step]`, of which `[start]` is the one element: not as forgiving as Python's own slices."""
    start = _integer(first) if first not in ("", "-") else 0
    alone = second is None
    stop = start + 1 if second is None else _integer(second[1:]) if second not in (":", ":-") else None
    step = _integer(third[1:]) if third not in (None, ":", ":-") and third is not None else 1

    def bounds(length: int) -> tuple[int, int]:
        low = start + length if start < 0 else start
        high = length if stop is None else stop
        return low, high + length if high < 0 or (high == 0 and alone) else high

    def cut(values: list[Json]) -> list[Json]:
        found: list[Json] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise PathEvaluationError("not an array")
            low, high = bounds(len(value))
            if low == high:
                return found
            if not (0 <= low < len(value) and low < high <= len(value)) or step <= 0:
                raise PathEvaluationError(f"array index out of bounds: index {low}, length {len(value)}")
            found.extend(value[low:high:step])
        return found

    return cut


def _filter_items(values: list[Json], keep: Callable[[Json], bool]) -> list[Json]:
    found: list[Json] = []
    for value in values:
        if not isinstance(value, list):
            raise PathEvaluationError("not an array, so it cannot be filtered")
        found.extend(item for item in value if keep(item))
    return found


def _filter_present(path: Step) -> Step:
    def present(item: Json) -> bool:
        try:
            return bool(path([item]))
        except PathEvaluationError:
            return True

    return lambda values: _filter_items(values, present)


def _filter_compared(left: Step, word: str, right: Step) -> Step:
    def matches(item: Json) -> bool:
        compare = _COMPARE.get(word)
        sides = left([item]), right([item])
        if not all(sides):
            return False
        if compare is None or any(len(side) > 1 for side in sides):
            raise PathEvaluationError(f"cannot compare with {word}")
        one, other = sides[0][0], sides[1][0]
        # Of the JSON types only scalars can be compared, and only with their like; nor is there an order of booleans.
        ordered = word not in ("==", "!=")
        if type(one) is not type(other) or not isinstance(one, str | int | float) or (ordered and one in (True, False)):
            raise PathEvaluationError("incompatible types for comparison")
        return compare(one, other)

    return lambda values: _filter_items(values, matches)
