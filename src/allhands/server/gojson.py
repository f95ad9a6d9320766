"""Reads JSON as the API server does: the last of duplicate keys wins, but their paths are known, and what is wrong
with a text is said in the words of Go's decoder, which clients and people search for.

The fast path is one pass of the standard decoder; the slow ones run only for texts that are malformed or have
duplicates.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from allhands.api.errors import go_quote

if TYPE_CHECKING:
    from allhands.api.document import Json

MAX_DEPTH: Final = 500
"""Deeper nesting than any object has; bounds the recursion of everything that looks at the document later."""

_WHITE: Final = " \t\r\n"
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_ESCAPES: Final = '"\\/bfnrt'
_HEX: Final = "0123456789abcdefABCDEF"
_HALF: Final = re.compile(
    r"\\(?:[^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?P<alone>[dD][89a-fA-F][0-9a-fA-F]{2})|u)",
    re.DOTALL,
)
"""Steps over escapes and finds the halves of a surrogate pair that stand alone."""


class MalformedError(ValueError):
    """The text is not JSON; the message is Go's."""


class _DuplicatesError(Exception):
    pass


class _Pairs(list[tuple[str, Any]]):
    """An object whose duplicate keys are still there."""


def _refuse_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicatesError
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_FAST: Final = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_constant=_no_constant)
_SLOW: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_no_constant)


def parse(text: bytes) -> tuple[Json, list[str]]:
    """The value, and the paths of keys that were given more than once, e.g. `spec.containers[0].name`."""
    duplicates: list[str] = []
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        raise MalformedError("invalid UTF-8 in JSON text") from None
    if b"\\ud" in text or b"\\uD" in text:
        decoded = _HALF.sub(_whole, decoded)
    try:
        value = _FAST.decode(decoded)
    except _DuplicatesError:
        value, duplicates = _with_duplicates(decoded)
    except RecursionError:
        raise MalformedError("exceeded max depth") from None
    except ValueError:
        raise MalformedError(complaint(decoded)) from None
    if too_deep(value):
        raise MalformedError("exceeded max depth")
    return value, duplicates


def _whole(escape: re.Match[str]) -> str:
    """Half a character becomes the replacement character, as in Go: no text that is stored or sent could hold it."""
    return "\\ufffd" if escape["alone"] else escape[0]


def too_deep(value: Json) -> bool:
    """Whether the value is nested past `MAX_DEPTH`. Level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(child for child in item.values() if isinstance(child, dict | list))
            elif isinstance(item, list):
                below.extend(child for child in item if isinstance(child, dict | list))
        if not below:
            return False
        level = below
    return True


def _with_duplicates(text: str) -> tuple[Json, list[str]]:
    try:
        tree = _SLOW.decode(text)
        duplicates: list[str] = []
        return _collapsed(tree, "", duplicates), duplicates
    except RecursionError:
        raise MalformedError("exceeded max depth") from None
    except ValueError:
        raise MalformedError(complaint(text)) from None


def _collapsed(value: Json, path: str, duplicates: list[str]) -> Json:
    if isinstance(value, _Pairs):
        found: dict[str, Json] = {}
        for key, child in value:
            where = f"{path}.{key}" if path else key
            if key in found and where not in duplicates:
                duplicates.append(where)
            found[key] = _collapsed(child, where, duplicates)
        return found
    if isinstance(value, list):
        return [_collapsed(child, f"{path}[{index}]", duplicates) for index, child in enumerate(value)]
    return value


def complaint(text: str) -> str:
    """What Go's decoder says about a text that is not JSON."""
    try:
        _Reader(text).document()
    except MalformedError as error:
        return str(error)
    return "invalid number or constant"


class _Reader:
    """A scanner that only looks for the first mistake. Open brackets are on a list, not on the stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> None:
        """Steps through the text; raises at the first mistake."""
        stack: list[str] = []
        self._begin_value(stack)
        while stack:
            self._after_value(stack)
        self._skip_white()
        if self._at < len(self._text):
            self._fail("after top-level value")

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise MalformedError("unexpected end of JSON input")
        return self._text[self._at]

    def _fail(self, context: str) -> NoReturn:
        char = self._peek()
        if not char.isascii():
            char = chr(char.encode()[0])  # Go reads bytes, and shows the one it stopped at as if it were a character
        shown = {"'": "'\\''", '"': "'\"'"}.get(char, f"'{go_quote(char)[1:-1]}'")
        raise MalformedError(f"invalid character {shown} {context}")

    def _skip_white(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _WHITE:
            self._at += 1

    def _begin_value(self, stack: list[str]) -> None:
        """Reads a scalar, or opens brackets down to the first scalar or empty pair."""
        while True:
            self._skip_white()
            char = self._peek()
            if char == "{":
                self._at += 1
                stack.append("}")
                if self._closes("}", stack):
                    return
                self._key()
            elif char == "[":
                self._at += 1
                stack.append("]")
                if self._closes("]", stack):
                    return
            else:
                self._scalar(char)
                return

    def _closes(self, bracket: str, stack: list[str]) -> bool:
        self._skip_white()
        if self._peek() != bracket:
            return False
        self._at += 1
        stack.pop()
        return True

    def _after_value(self, stack: list[str]) -> None:
        self._skip_white()
        char, bracket = self._peek(), stack[-1]
        if char == bracket:
            self._at += 1
            stack.pop()
        elif char == ",":
            self._at += 1
            if bracket == "}":
                self._skip_white()
                self._key()
            self._begin_value(stack)
        else:
            self._fail("after object key:value pair" if bracket == "}" else "after array element")

    def _key(self) -> None:
        if self._peek() != '"':
            self._fail("looking for beginning of object key string")
        self._string()
        self._skip_white()
        if self._peek() != ":":
            self._fail("after object key")
        self._at += 1

    def _scalar(self, char: str) -> None:
        if char == '"':
            self._string()
        elif char in _LITERALS:
            word = _LITERALS[char]
            for index, expected in enumerate(word[1:], 1):
                self._at += 1
                if self._peek() != expected:
                    self._fail(f"in literal {word} (expecting '{word[index]}')")
            self._at += 1
        elif char == "-" or char.isdigit():
            self._number()
        else:
            self._fail("looking for beginning of value")

    def _string(self) -> None:
        self._at += 1
        while (char := self._peek()) != '"':
            if char < " ":
                self._fail("in string literal")
            self._at += 1
            if char == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        char = self._peek()
        if char == "u":
            for _ in range(4):
                self._at += 1
                if self._peek() not in _HEX:
                    self._fail("in \\u hexadecimal character escape")
        elif char not in _ESCAPES:
            self._fail("in string escape code")
        self._at += 1

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
        if self._peek() == "0":
            self._at += 1
        else:
            self._digits("in numeric literal")
        if self._next_is("."):
            self._digits("after decimal point in numeric literal")
        if self._next_is("eE"):
            self._next_is("+-")
            self._digits("in exponent of numeric literal")

    def _next_is(self, chars: str) -> bool:
        if self._at < len(self._text) and self._text[self._at] in chars:
            self._at += 1
            return True
        return False

    def _digits(self, context: str) -> None:
        if not ("0" <= self._peek() <= "9"):
            self._fail(context)
        while self._at < len(self._text) and "0" <= self._text[self._at] <= "9":
            self._at += 1
