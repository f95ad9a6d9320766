"""Which objects a client means: label selectors, as text or as a `LabelSelector` object, and field selectors.

Parsing yields frozen values that match mappings, print in the API's canonical form and tell an index which labels it
can use. A selector that is wrong is refused with the server's own words; it is never read leniently.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.api.errors import FieldError, bad_request, forbidden, go_quote, invalid, required
from allhands.api.metadata import validate_labels
from allhands.api.names import is_label_value, label_key, label_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.api.document import Manifest


class Operator(enum.StrEnum):
    """How a requirement relates a label to its values."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_ONE_OF: Final = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
_NONE_OF: Final = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})
_COMPARISONS: Final = frozenset({Operator.GREATER_THAN, Operator.LESS_THAN})
_SIGNS: Final = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}
_BINARY_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        operator = self.operator
        value = labels.get(self.key)
        if operator in _ONE_OF:
            return value in self.values
        if operator in _NONE_OF:
            return value is None or value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        number = _int64(value or "")
        bound = _int64(next(iter(self.values), ""))
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        listing = ",".join(sorted(self.values))
        if self.operator in (Operator.IN, Operator.NOT_IN):
            return f"{self.key} {self.operator} ({listing})"
        return f"{self.key}{_SIGNS.get(self.operator, self.operator)}{listing}"


class LabelSelector(msgspec.Struct, frozen=True):
    """All requirements together; without any it selects everything, unless it is the one that selects `nothing`."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def everything(self) -> bool:
        return not self.requirements and not self.nothing

    def equalities(self) -> list[tuple[str, frozenset[str]]]:
        """The labels that must have one of a few known values; an index by label can start from any of them."""
        return [(each.key, each.values) for each in self.requirements if each.operator in _ONE_OF]

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(nothing=True)


_match_integer = re.compile("[+-]?[0-9]{1,100}").fullmatch


def _int64(text: str) -> int | None:
    if not _match_integer(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _requirement(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
    errors: list[FieldError] = []
    if texts := label_key(key):
        errors.append(invalid("key", key, "; ".join(texts)))
    shown = list(values) or None
    if operator in (Operator.IN, Operator.NOT_IN):
        if not values:
            errors.append(invalid("values", shown, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        if values:
            errors.append(invalid("values", shown, "values set must be empty for exists and does not exist"))
    elif operator in _COMPARISONS:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [invalid(f"values[{i}]", value, text) for i, value in enumerate(values) if _int64(value) is None]
    for index, value in enumerate(values):
        if not is_label_value(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(label_value(value))))
    if errors:
        texts = list(dict.fromkeys(map(str, errors)))
        raise _Refused(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, frozenset(values))


class _Refused(Exception):  # noqa: N818 (it never leaves this module)
    """The text that explains a selector's fault, on its way to a `StatusError`."""


_TOKENS: Final = re.compile(r"(?P<sign>==|!=|[=!(),<>])|(?P<word>[^=!(),<> \t\r\n]+)")
_WORD_OPERATORS: Final = {"in": Operator.IN, "notin": Operator.NOT_IN}
_SIGN_OPERATORS: Final = {
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


class _Token(NamedTuple):
    text: str
    is_word: bool


_END: Final = _Token("", False)
_COMMA: Final = _Token(",", False)
_NOT: Final = _Token("!", False)
_OPEN: Final = _Token("(", False)
_CLOSE: Final = _Token(")", False)


class _Parser:
    """Recursive descent over the tokens of one selector. Words are words wherever an operator is not expected."""

    def __init__(self, text: str) -> None:
        self._tokens = [_Token(match[0], match.lastgroup == "word") for match in _TOKENS.finditer(text)]
        self._tokens.append(_END)
        self._position = 0

    def _peek(self) -> _Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _take(self) -> _Token:
        self._position += 1
        return self._tokens[self._position - 1]

    def selector(self) -> LabelSelector:
        requirements: list[Requirement] = []
        while self._peek() != _END:
            token = self._peek()
            if not token.is_word and token != _NOT:
                raise _Refused(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            requirements.append(self._required())
            separator = self._take()
            if separator == _END:
                break
            if separator != _COMMA:
                raise _Refused(f"found '{separator.text}', expected: ',' or 'end of string'")
            following = self._peek()
            if not following.is_word and following != _NOT:
                raise _Refused(f"found '{following.text}', expected: identifier after ','")
        return LabelSelector(tuple(sorted(requirements, key=lambda each: each.key)))

    def _required(self) -> Requirement:
        try:
            return self._one_requirement()
        except _Refused as refused:
            raise _Refused(f"unable to parse requirement: {refused}") from None

    def _one_requirement(self) -> Requirement:
        token = self._take()
        absent = token == _NOT
        if absent:
            token = self._take()
        if not token.is_word:
            raise _Refused(f"found '{token.text}', expected: identifier")
        key = token.text
        if texts := label_key(key):
            # The server has no path here, and Go prints that as it prints any nil.
            raise _Refused(str(invalid("<nil>", key, "; ".join(texts))))
        if absent:
            return _requirement(key, Operator.DOES_NOT_EXIST, ())
        if self._peek() in (_END, _COMMA):
            return _requirement(key, Operator.EXISTS, ())
        operator = self._operator()
        values = self._set() if operator in (Operator.IN, Operator.NOT_IN) else {self._exact_value()}
        return _requirement(key, operator, sorted(values))

    def _operator(self) -> Operator:
        token = self._take()
        operator = (_WORD_OPERATORS if token.is_word else _SIGN_OPERATORS).get(token.text)
        if operator is None:
            raise _Refused(f"found '{token.text}', expected: {_BINARY_OPERATORS}")
        return operator

    def _exact_value(self) -> str:
        if self._peek() in (_END, _COMMA):
            return ""
        token = self._take()
        if not token.is_word:
            raise _Refused(f"found '{token.text}', expected: identifier")
        return token.text

    def _set(self) -> set[str]:
        token = self._take()
        if token != _OPEN:
            raise _Refused(f"found '{token.text}' expected: '('")
        token = self._peek()
        if token == _CLOSE:
            self._take()
            return {""}
        if not token.is_word and token != _COMMA:
            raise _Refused(f"found '{token.text}', expected: ',', ')' or identifier")
        values = self._members()
        self._take()
        return values

    def _members(self) -> set[str]:
        """Up to the closing parenthesis. An empty place beside a comma is the empty value."""
        values: set[str] = set()
        while True:
            token = self._take()
            following = self._peek()
            if token.is_word:
                values.add(token.text)
                if following not in (_COMMA, _CLOSE):
                    raise _Refused(f"found '{following.text}', expected: ',' or ')'")
            elif token == _COMMA:
                if not values or following in (_CLOSE, _COMMA):
                    values.add("")
            else:
                raise _Refused(f"found '{token.text}', expected: ',', or identifier")
            if following == _CLOSE:
                return values


def parse_label_selector(text: str) -> LabelSelector:
    """The selector that the query parameter `labelSelector` stands for, or a `StatusError` 400."""
    if not text:
        return EVERYTHING
    try:
        return _Parser(text).selector()
    except _Refused as refused:
        raise bad_request(str(refused)) from None


_OBJECT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def label_selector(selector: Manifest | None) -> LabelSelector:
    """A `LabelSelector` object as a value. None selects nothing and `{}` everything, as everywhere in the API."""
    if selector is None:
        return NOTHING
    requirements = []
    try:
        for key, value in (selector.get("matchLabels") or {}).items():
            requirements.append(_requirement(key, Operator.EQUALS, (value,)))
        for expression in selector.get("matchExpressions") or ():
            name = expression.get("operator") or ""
            if name not in _OBJECT_OPERATORS:
                raise _Refused(f"{go_quote(name)} is not a valid label selector operator")
            values = tuple(expression.get("values") or ())
            requirements.append(_requirement(expression.get("key") or "", _OBJECT_OPERATORS[name], values))
    except _Refused as refused:
        raise bad_request(str(refused)) from None
    return LabelSelector(tuple(sorted(requirements, key=lambda each: each.key)))


def validate_label_selector(selector: Manifest | None, path: str) -> list[FieldError]:
    """All that is wrong with a `LabelSelector` object at `path`."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _expression_errors(expression, f"{path}.matchExpressions[{index}]")
    return errors


def _expression_errors(expression: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = expression.get("key") or ""
    errors += [invalid(f"{path}.key", key, text) for text in label_key(key)]
    for index, value in enumerate(values):
        errors += [invalid(f"{path}.values[{index}]", value, text) for text in label_value(value)]
    return errors


class FieldRequirement(NamedTuple):
    """One condition on one field; the operator is `=` or `!=`."""

    field: str
    operator: str
    value: str


class FieldSelector(msgspec.Struct, frozen=True):
    """All conditions together. Which fields a kind supports is for its owner to say, from `requirements`."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """A field that is absent counts as the empty text."""
        return all((fields.get(each.field, "") == each.value) == (each.operator == "=") for each in self.requirements)

    def exact(self, field: str) -> str | None:
        """The one value that `field` must have, if there is one."""
        return next((each.value for each in self.requirements if each.field == field and each.operator == "="), None)

    def __str__(self) -> str:
        return ",".join(f"{field}{operator}{_escape(value)}" for field, operator, value in self.requirements)


_FIELD_TERM: Final = re.compile(r"(?:\\.|[^\\,])*(?:\\$)?", re.DOTALL)
_FIELD_OPERATOR: Final = re.compile("!=|==|=")
_ESCAPED: Final = re.compile(r"\\(.?)|[,=]", re.DOTALL)


def parse_field_selector(text: str) -> FieldSelector:
    """The selector that the query parameter `fieldSelector` stands for, or a `StatusError` 400."""
    requirements = []
    for term in sorted(_field_terms(text)):
        operator = _FIELD_OPERATOR.search(term)
        if operator is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        sign = "!=" if operator[0] == "!=" else "="
        field, value = term[: operator.start()], _unescape(term[operator.end() :])
        if field or value:  # the server, too, drops a term that says nothing
            requirements.append(FieldRequirement(field, sign, value))
    return FieldSelector(tuple(requirements))


def _field_terms(text: str) -> list[str]:
    if "\\" not in text:
        return [term for term in text.split(",") if term]
    return [term for term in _FIELD_TERM.findall(text) if term]


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _unescape(value: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if not match[0].startswith("\\"):
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(match[0])}")
        if match[1] not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid escape sequence: {match[0]}")
        return match[1]

    return _ESCAPED.sub(plain, value)
