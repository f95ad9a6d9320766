"""Whether the rules in a schema (`x-kubernetes-validations`) are written right and compile.

A real server also checks every field that a rule names against the schema and estimates what it could cost; here an
unknown field shows when the rule is evaluated, and the cost is bounded then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.api.cel.expression import NotCompiledError, compiled
from allhands.api.cel.rules import KEYWORD
from allhands.api.errors import invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.api.errors import FieldError

    Schema = Mapping[str, Any]

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_INTERNAL_NAMES: Final = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")


def rule_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """What is wrong with the rules of one schema, without compiling them."""
    for index, rule in enumerate(schema.get(KEYWORD) or ()):
        place = f"{path}.{KEYWORD}[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required(f"{place}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{place}.message", message, "must be non-empty if specified")
        elif _has_breaks(message.strip()):
            yield invalid(f"{place}.message", message, "must not contain line breaks")
        elif _has_breaks(text) and not message.strip():
            yield required(f"{place}.message", "message must be specified if rule contains line breaks")
        if (expression := rule.get("messageExpression") or "") and not expression.strip():
            yield required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")
        if (reason := rule.get("reason")) is not None and reason not in _REASONS:
            yield not_supported(f"{place}.reason", reason, _REASONS)
        yield from _path_errors(rule.get("fieldPath") or "", schema, f"{place}.fieldPath")


def compilation_errors(schema: Schema, path: str, unrelated: str = "") -> Iterator[FieldError]:
    """What the compiler says about the rules of a schema and of its parts. `unrelated` is the list around it whose
    items nobody can find again after a change."""
    for name, child in (schema.get("properties") or {}).items():
        yield from compilation_errors(child, f"{path}.properties[{name}]", unrelated)
    if isinstance(additional := schema.get("additionalProperties"), dict):
        yield from compilation_errors(additional, f"{path}.additionalProperties", unrelated)
    if isinstance(items := schema.get("items"), dict):
        around = unrelated if schema.get("x-kubernetes-list-type") == "map" else unrelated or path
        yield from compilation_errors(items, f"{path}.items", around)
    for index, rule in enumerate(schema.get(KEYWORD) or ()):
        yield from _compilation_errors(rule, f"{path}.{KEYWORD}[{index}]", unrelated)


def _compilation_errors(rule: Mapping[str, Any], place: str, unrelated: str) -> Iterator[FieldError]:
    optional = bool(rule.get("optionalOldSelf"))
    uses_old = None
    try:
        uses_old = compiled(rule["rule"], "BOOL", optional_old=optional).uses_old
    except NotCompiledError as error:
        text = str(error)
        yield invalid(f"{place}.rule", _shown(rule), f"cel expression {text}" if text.startswith("must ") else text)
    if (message := rule.get("messageExpression") or "").strip():
        try:
            compiled(message, "STRING", optional_old=optional)
        except NotCompiledError as error:
            yield invalid(f"{place}.messageExpression", _shown(rule), f"messageExpression {error}")
    if uses_old and unrelated:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unrelated}"
        yield invalid(f"{place}.rule", rule["rule"], text)
    elif uses_old is False and rule.get("optionalOldSelf") is not None:
        yield invalid(f"{place}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


def _path_errors(written: str, schema: Schema, place: str) -> Iterator[FieldError]:
    if written and not written.strip():
        yield invalid(place, written, "must be non-empty if specified")
    if _has_breaks(written):
        yield invalid(place, written, "must not contain line breaks")
    if written and not _leads_somewhere(written, schema):
        yield invalid(place, written, "must be a valid path")


def _leads_somewhere(written: str, schema: Schema) -> bool:
    """Only dotted names and keys in quotes, each known to the schema."""
    rest, here = written, schema
    while rest:
        if rest.startswith("['") and (end := rest.find("']")) > 0:
            name, rest = rest[2:end], rest[end + 2 :]
        elif rest.startswith("."):
            name = rest[1:].split(".")[0].split("[")[0]
            rest = rest[1 + len(name) :]
        else:
            return False
        properties, additional = here.get("properties"), here.get("additionalProperties")
        found = properties.get(name) if properties else additional
        if not name or not isinstance(found, dict):
            return False
        here = found
    return True


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _shown(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as the real server shows it in a refusal: the fields of its internal type, all of them."""
    empty: dict[str, Any] = {"reason": None, "optionalOldSelf": None}
    return {f"{name[0].upper()}{name[1:]}": rule.get(name, empty.get(name, "")) for name in _INTERNAL_NAMES}
