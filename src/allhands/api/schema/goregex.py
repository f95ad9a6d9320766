"""Patterns as Go writes them, for Python's engine.

The two dialects differ in few places: `$` and `\\z` mean the very end, classes such as `\\d` are ASCII, `[[:alpha:]]`
is a class, and looking around is not allowed. A pattern that Python cannot express matches everything: refusing values
that a real cluster accepts would be worse.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_UNSUPPORTED = re.compile(r"\(\?(?:=|!|<=|<!|>|#|\(|P=|P>)")
_PIECE = re.compile(r"\\[QE]|\\[pP](?:\{\^?\w+\}|\w)|\\.|\[\[:(?:\^?)\w+:\]|\[:\^?\w+:\]|\[|\]|\$|.", re.DOTALL)
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


_WORDS: Final = {
    "missing ), unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "unterminated character set": "missing closing ]",
}


def why_not(pattern: str) -> str:
    """Why Go would not compile the pattern, as far as we can tell; empty if it would."""
    found = _UNSUPPORTED.search(re.sub(r"\\.", "  ", pattern, flags=re.DOTALL))
    if found:
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{found[0]}`"
    try:
        _compiled(pattern)
    except re.error as error:
        if error.msg in _WORDS:
            rest = pattern[error.pos :] if error.msg.startswith("unterminated") else pattern
            return f"error parsing regexp: {_WORDS[error.msg]}: `{rest}`"
    except (_InexpressibleError, OverflowError, RecursionError):
        pass
    return ""


@functools.lru_cache(maxsize=1024)
def searcher(pattern: str) -> Callable[[str], object]:
    """A function that tells whether the pattern occurs in a text."""
    try:
        return _compiled(pattern).search
    except (re.error, _InexpressibleError, OverflowError, RecursionError):
        return lambda _text: True


class _InexpressibleError(ValueError):
    """Python has no such construct."""


def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about sets in classes, which Go does not have
        return re.compile(_translated(pattern), re.ASCII)


def _translated(pattern: str) -> str:
    parts: list[str] = []
    in_class = False
    for found in _PIECE.finditer(pattern):
        piece = found[0]
        if piece[:2] in ("\\p", "\\P", "\\Q", "\\E", "\\C"):
            raise _InexpressibleError(piece)
        if in_class:
            if piece.startswith("[:"):
                piece = _posix(piece[2:-2])
            elif piece == "[":
                piece = "\\["
            in_class = piece != "]" or parts[-1] in ("[", "[^")
        elif piece.startswith("[[:"):
            piece, in_class = "[" + _posix(piece[3:-2]), True
        elif piece == "[":
            in_class = True
        elif piece in ("$", "\\z"):
            piece = "\\Z"
        if piece == "^" and in_class and parts[-1] == "[":
            parts[-1] = "[^"
            continue
        parts.append(piece)
    return "".join(parts)


def _posix(name: str) -> str:
    if name not in _POSIX:
        raise _InexpressibleError(name)
    return _POSIX[name]
