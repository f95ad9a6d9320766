"""Patterns of custom kinds, matched by RE2: the syntax and the meaning are Go's, and the time is linear.

A pattern comes from a user and is matched against what other users send. An engine that backtracks could be made to
think for minutes about forty characters; this one cannot.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import re2

_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2 and Go refuse the same patterns in slightly different words."""
_SHOWN_WHOLE: Final = frozenset({"missing )", "unexpected )"})
"""Faults for which Go shows the whole pattern."""


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re2._Regexp:
    import re2  # noqa: PLC0415 (loading it takes a while, and few meet a pattern)

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options=options)


def why_not(pattern: str) -> str:
    """Why Go would not compile the pattern; empty if it would."""
    import re2  # noqa: PLC0415

    try:
        _compiled(pattern)
    except UnicodeEncodeError:
        return "error parsing regexp: invalid UTF-8"
    except re2.error as error:
        text = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        fault, _, part = text.partition(": ")
        shown = pattern if fault in _SHOWN_WHOLE else part
        return f"error parsing regexp: {_GO_WORDS.get(fault, fault)}: `{shown}`"
    return ""


def searcher(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern is found in a text. One that does not compile is refused in a definition, and says nothing
    about values."""
    import re2  # noqa: PLC0415

    try:
        found = _compiled(pattern).search
    except (re2.error, UnicodeEncodeError):
        return lambda _text: True
    return lambda text: found(text.encode("utf-8", "replace").decode()) is not None


def found_in(pattern: str, text: str, most: int = -1) -> list[str]:
    """What the pattern matches in a text, from the left, at most so many; a pattern that does not compile is a
    ValueError."""
    why = why_not(pattern)
    if why:
        raise ValueError(why)
    matches = _compiled(pattern).finditer(text)
    return [match.group(0) for match in (matches if most < 0 else itertools.islice(matches, most))]
