"""Label requirements and selectors, with the meaning that Kubernetes gives them, to the letter.

What a server would refuse to parse is never an error here: it is `is_valid == False` and matches nothing. An absent
selector (None) is not an empty one: absent matches nothing, empty matches everything, and only the caller knows which.
"""

import enum
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1


class Operator(enum.StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER_THAN = "Gt"
    LESS_THAN = "Lt"


_NUMERIC: Final = frozenset((Operator.GREATER_THAN.value, Operator.LESS_THAN.value))

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_LONGEST_PREFIX: Final = 253


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one label. The operator stays a plain text, since an unknown one must be kept to be refused."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether a server can parse it; one that it cannot parse matches nothing, whatever its operator."""
        return _is_valid(self.key, self.operator, self.values)

    @property
    def is_numeric(self) -> bool:
        """Whether it compares numbers, which only selectors of nodes may do."""
        return self.operator in _NUMERIC

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it. It is asked only of valid requirements."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, text: str) -> bool:
        value = parse_int64(text)
        bound = parse_int64(self.values[0]) if len(self.values) == 1 else None
        if value is None or bound is None:
            return False
        return value > bound if self.operator == Operator.GREATER_THAN else value < bound


class LabelSelector(msgspec.Struct, frozen=True, gc=False):
    """All of its pairs and expressions must hold. `match_labels` are sorted; build with `of` where they may not be."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    @staticmethod
    def of(labels: Mapping[str, str] | None = None, expressions: Iterable[Requirement] = ()) -> "LabelSelector":
        return LabelSelector(tuple(sorted((labels or {}).items())), tuple(expressions))

    @property
    def is_empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    @property
    def is_valid(self) -> bool:
        """Whether a server can parse it. A pod with a term that cannot be parsed is never placed by kube-scheduler."""
        return all(_is_valid(key, "In", (value,)) for key, value in self.match_labels) and all(
            it.is_valid and not it.is_numeric for it in self.match_expressions
        )

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that decide about a match."""
        return frozenset((*(key for key, _ in self.match_labels), *(it.key for it in self.match_expressions)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it; nothing meets one that is not valid."""
        for key, value in self.match_labels:
            if labels.get(key) != value:
                return False
        for requirement in self.match_expressions:
            if not requirement.matches(labels):
                return False
        return self.is_valid

    def with_requirement(self, requirement: Requirement) -> "LabelSelector":
        """The same and one more condition; one that it already has is not repeated."""
        if requirement in self.match_expressions:
            return self
        return LabelSelector(self.match_labels, (*self.match_expressions, requirement))


EVERYTHING: Final = LabelSelector()


class RequirementDocument(msgspec.Struct, frozen=True):
    """One element of `matchExpressions` or `matchFields`, as it stands in JSON."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    def requirement(self) -> Requirement:
        return Requirement(self.key, self.operator, self.values or ())


class LabelSelectorDocument(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[RequirementDocument, ...] | None = None

    def selector(self) -> LabelSelector:
        return LabelSelector.of(self.match_labels, requirements_of(self.match_expressions))


def requirements_of(documents: Iterable[RequirementDocument] | None) -> tuple[Requirement, ...]:
    return tuple(document.requirement() for document in documents or ())


def selector_of(document: LabelSelectorDocument | None) -> LabelSelector | None:
    """An absent selector stays absent."""
    return None if document is None else document.selector()


def parse_int64(text: str) -> int | None:
    """A decimal 64-bit integer as Go's ParseInt reads it: a sign and leading zeros may be there, nothing else."""
    # No longer text can be an integer of 64 bits unless it is zeros, and int() of a huge text is slow.
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > len(str(MAX_INT64)):
        return None
    number = int(digits or "0")
    if text[0] == "-":
        number = -number
    return number if MIN_INT64 <= number <= MAX_INT64 else None


@functools.lru_cache(maxsize=1 << 13)
def _is_valid(key: str, operator: str, values: tuple[str, ...]) -> bool:
    if not _is_label_key(key) or not all(value == "" or _NAME.fullmatch(value) for value in values):
        return False
    match operator:
        case "In" | "NotIn":
            return len(values) > 0
        case "Exists" | "DoesNotExist":
            return len(values) == 0
        case "Gt" | "Lt":
            return len(values) == 1 and parse_int64(values[0]) is not None
    return False


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None
