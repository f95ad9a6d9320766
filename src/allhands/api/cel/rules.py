"""The rules of a schema, walked beside an object and what it was before.

Rules about a change are asked only where the value that was there before is known. A rule that was broken before stays
forgiven as long as nothing changes in its part. What a real server says, in its words, is what an author is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.api.cel.expression import EvaluationError, Expression, NotCompiledError, compiled
from allhands.api.cel.values import as_seen, escaped, of_resource, ordered_like, partner
from allhands.api.errors import OMITTED, FieldError, duplicate, forbidden, invalid, required
from allhands.api.schema.values import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.api.document import Json

    Schema = Mapping[str, Any]

KEYWORD: Final = "x-kubernetes-validations"
_MAX_MESSAGE_BYTES: Final = 5 * 1024


class Rule:
    """One rule of a schema. Compiled when it is first asked; a definition that does not compile was refused."""

    def __init__(self, written: Mapping[str, Any]) -> None:
        self.text: str = written.get("rule") or ""
        self.message: str = (written.get("message") or "").strip()
        self.message_expression: str = written.get("messageExpression") or ""
        self.reason: str | None = written.get("reason")
        self.field_path: str = (written.get("fieldPath") or "").removeprefix(".")
        self.optional_old: bool = bool(written.get("optionalOldSelf"))

    @property
    def program(self) -> Expression:
        return compiled(self.text, "BOOL", optional_old=self.optional_old)

    @property
    def name(self) -> str:
        """How it is called in errors."""
        return self.message or self.text.strip()


class ExpressionRules:
    """All rules of a schema, its own and those of its parts."""

    def __init__(self, schema: Schema, *, is_resource: bool = True) -> None:
        self._schema = schema
        self._seen_by = of_resource(schema) if is_resource else schema
        self._rules = [Rule(each) for each in schema.get(KEYWORD) or ()]
        for part in schema.get("allOf") or ():
            self._rules += [Rule(each) for each in part.get(KEYWORD) or ()]
        self._shown: Schema | None = None
        self._properties = {
            name: found for name, child in (schema.get("properties") or {}).items() if (found := _rules_of(child))
        }
        self._items = _rules_of(schema.get("items"))
        self._additional = _rules_of(schema.get("additionalProperties"))

    def __bool__(self) -> bool:
        return bool(self._rules or self._properties or self._items or self._additional)

    def errors(self, new: Json, old: Json = None) -> list[FieldError]:
        """What breaks a rule in a new object, or in a changed one."""
        return list(self._errors("", new, old, is_same=False))

    def _errors(self, path: str, new: Json, old: Json, *, is_same: bool) -> Iterator[FieldError]:
        if new is None:
            return
        is_same = is_same or (old is not None and old == new)
        if self._rules:
            yield from self._broken(path, new, old, is_same=is_same)
        match new:
            case list() if self._items:
                for index, item in enumerate(new):
                    before = partner(item, old, self._schema)
                    yield from self._items._errors(f"{path}[{index}]", item, before, is_same=is_same)
            case dict():
                known = old if isinstance(old, dict) else {}
                for name, item in new.items():
                    if self._additional:
                        yield from self._additional._errors(f"{path}[{name}]", item, known.get(name), is_same=is_same)
                for name, rules in self._properties.items():
                    if name in new:
                        place = f"{path}.{name}" if path else name
                        yield from rules._errors(place, new[name], known.get(name), is_same=is_same)

    def _broken(self, path: str, new: Json, old: Json, *, is_same: bool) -> Iterator[FieldError]:
        kind = self._schema.get("type", "")
        shown = self._read_by_rules()
        seen = as_seen(new, shown)
        before = None if old is None else as_seen(ordered_like(old, new, shown), shown)
        size = _size(seen) + _size(before)
        for rule in self._rules:
            try:
                program = rule.program
            except NotCompiledError as error:
                yield invalid(path or ROOT, kind, f"rule compile error: {error}")
                continue
            if program.uses_old and old is None and not rule.optional_old:
                continue
            known = _variables(seen, before, optional=rule.optional_old)
            try:
                if program.result(known, size) is True:
                    continue
            except EvaluationError as error:
                yield invalid(path or ROOT, kind, _why(error, rule))
                if error.is_too_dear:
                    return
                continue
            if program.uses_old or not is_same:
                yield self._refusal(path, new, rule, _told(rule, known, size))

    def _read_by_rules(self) -> Schema:
        """The schema without the fields that no rule reads: most rules are about two or three fields of many."""
        if self._shown is None:
            read = _fields_read(self._rules)
            properties = self._seen_by.get("properties")
            if read is None or not properties:
                self._shown = self._seen_by
            else:
                kept = {name: child for name, child in properties.items() if escaped(name) in read}
                self._shown = {**self._seen_by, "properties": kept}
        return self._shown

    def _refusal(self, path: str, value: Json, rule: Rule, detail: str) -> FieldError:
        place = f"{path}.{rule.field_path}" if path and rule.field_path else path or rule.field_path or ROOT
        shown = OMITTED if self._schema.get("type") in ("object", "array") else value
        match rule.reason:
            case "FieldValueForbidden":
                return forbidden(place, detail)
            case "FieldValueRequired":
                return required(place, detail)
            case "FieldValueDuplicate":
                return duplicate(place, shown)
        return invalid(place, shown, detail)


def _fields_read(rules: list[Rule]) -> set[str] | None:
    """The fields that the rules and their messages read; None if one of them may read all."""
    read: set[str] = set()
    for rule in rules:
        for text, result in ((rule.text, "BOOL"), (rule.message_expression, "STRING")):
            try:
                fields = compiled(text, result, optional_old=rule.optional_old).fields if text else frozenset()
            except NotCompiledError:
                fields = None
            if fields is None:
                return None
            read |= fields
    return read


def _rules_of(schema: Json) -> ExpressionRules | None:
    if not isinstance(schema, dict):
        return None
    return ExpressionRules(schema, is_resource=bool(schema.get("x-kubernetes-embedded-resource"))) or None


def _variables(seen: Json, before: Json, *, optional: bool) -> dict[str, Json]:
    if optional:
        return {"self": seen, "hasOldSelf": before is not None, "knownOldSelf": before}
    return {"self": seen} if before is None else {"self": seen, "oldSelf": before}


def _size(value: Json) -> int:
    """How many values it holds, itself among them."""
    match value:
        case dict():
            return 1 + sum(map(_size, value.values()))
        case list():
            return 1 + sum(map(_size, value))
    return 1


def _why(error: EvaluationError, rule: Rule) -> str:
    if error.is_too_dear:
        return (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.name}"
        )
    if error.is_overload:
        meaning = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {meaning} for rule: {rule.name}"
    return f"{error} evaluating rule: {rule.name}"


def _told(rule: Rule, known: dict[str, Json], size: int) -> str:
    """What is said about a rule that is broken: the message it works out, else its message, else itself."""
    if rule.message_expression:
        try:
            program = compiled(rule.message_expression, "STRING", optional_old=rule.optional_old)
            found = program.result(known, size)
        except (EvaluationError, NotCompiledError):
            found = None
        text = found.strip() if isinstance(found, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES:
            return text
    return rule.message or f"failed rule: {rule.name}"
