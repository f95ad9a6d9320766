"""One expression: compiled once, evaluated against what it may see, with an end to how long that may take.

CEL always ends, but loops inside of loops over long lists can take years. Before each evaluation the steps that it
could take are bounded from the nesting of the expression and the size of the document.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.cel.functions import kubernetes_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cel_expr_python import cel

    from allhands.api.document import Json

MAX_STEPS: Final = 1_000_000
_LITERAL: Final = re.compile(
    r"""[rRbB]*(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)
_OLD: Final = re.compile(r"(?<![\w.])oldSelf\b")
_WHOLE: Final = re.compile(r"(?<![\w.])(?:self|oldSelf)\b(?!\s*\.\s*\??\s*[A-Za-z_])")
_FIELD: Final = re.compile(r"(?<![\w.])(?:self|oldSelf)\s*\.\s*\??\s*([A-Za-z_]\w*)")
_LOOP: Final = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")
_PLACES: Final = re.compile(r"\s*\[INVALID_ARGUMENT\]\s*$")
_NO_KEY: Final = re.compile(r'^Key not found in map : "?(.*?)"?$', re.DOTALL)
_NO_PLACE: Final = re.compile(r"^Index error: index=(-?\d+) size=\d+$")
_NO_OVERLOAD: Final = re.compile(r"^(?:No matching overloads found|no such overload)")


class NotCompiledError(Exception):
    """An expression that is none, with the words of the compiler."""


class EvaluationError(Exception):
    """An expression that had no result for a document: a key that is not there, a division by zero."""

    def __init__(self, why: str, *, is_overload: bool = False, is_too_dear: bool = False) -> None:
        super().__init__(why)
        self.is_overload = is_overload
        self.is_too_dear = is_too_dear


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression over `self` and `oldSelf`."""

    program: Any
    uses_old: bool
    loops: int
    """How deeply loops stand in loops."""
    fields: frozenset[str] | None
    """The fields of `self` and `oldSelf` that it can read, as it writes them; None if it may read all of them."""

    def result(self, seen: Mapping[str, Json], size: int) -> Json:
        """Its value. `size` is the number of values that `seen` holds; what would take too long is refused."""
        if max(size, 2) ** self.loops > MAX_STEPS:
            raise EvaluationError("operation cancelled: actual cost limit exceeded", is_too_dear=True)
        found = self.program.eval(data=seen)
        if found.type().name() == "ERROR":
            raise _error(str(found.plain_value()))
        value: Json = found.plain_value()
        return value


@functools.lru_cache(maxsize=4096)
def compiled(text: str, result: str, *, optional_old: bool = False) -> Expression:
    """The expression, if it is one and its result can be of the type (`BOOL`, `STRING`)."""
    code = _LITERAL.sub("''", text)
    whole = text
    if optional_old:
        whole = f"cel.bind(oldSelf, hasOldSelf ? optional.of(knownOldSelf) : optional.none(), ({text}\n))"
    try:
        program = _environment(optional_old).compile(whole)
    except RuntimeError as error:
        raise NotCompiledError(f"compilation failed: {_PLACES.sub('', _STATUS.sub('', str(error)))}") from None
    if program.return_type().name() not in (result, "DYN"):
        raise NotCompiledError(f"must evaluate to a {result.lower()}")
    fields = None if _WHOLE.search(code) else frozenset(_FIELD.findall(code))
    return Expression(program, uses_old=_OLD.search(code) is not None, loops=_depth(code), fields=fields)


@functools.cache
def _environment(optional_old: bool) -> cel.Env:
    from cel_expr_python import cel  # noqa: PLC0415 (a large library, and few meet a rule)
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings  # noqa: PLC0415

    names = ("self", "hasOldSelf", "knownOldSelf") if optional_old else ("self", "oldSelf")
    return cel.NewEnv(
        variables=dict.fromkeys(names, cel.Type.DYN),
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            ext_math.ExtMath(),
            ext_bindings.ExtBindings(),
        ],
        functions=kubernetes_functions(),
    )


def _depth(code: str) -> int:
    """How many loops stand in one another at most, by the parentheses that they open."""
    starts = {found.end() - 1 for found in _LOOP.finditer(code)}
    open_loops: list[bool] = []
    deepest = 0
    for place, char in enumerate(code):
        if char == "(":
            open_loops.append(place in starts)
            deepest = max(deepest, sum(open_loops))
        elif char == ")" and open_loops:
            open_loops.pop()
    return deepest


def _error(text: str) -> EvaluationError:
    """In the words of a real server."""
    why = _STATUS.sub("", text)
    if found := _NO_KEY.match(why):
        return EvaluationError(f"no such key: {found[1]}")
    if found := _NO_PLACE.match(why):
        return EvaluationError(f"index out of bounds: {found[1]}")
    if _NO_OVERLOAD.match(why):
        return EvaluationError("no such overload", is_overload=True)
    return EvaluationError({"divide by zero": "division by zero", "modulus by zero": "modulus by zero"}.get(why, why))
