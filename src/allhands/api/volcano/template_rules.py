"""What the server would say against pods and claims that are made from the templates of a Job, said when it comes.

The rules are those of the built-in kinds, over a copy in their normal form and with their defaults: the template itself
stays as its author wrote it. Equal templates are looked at once; that is a memory, not a state.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.builtin.claims import check_claim_spec
from allhands.api.builtin.podspec import default_pod_template, validate_pod_template
from allhands.api.errors import FieldError, invalid
from allhands.api.schema.diagnosis import Diagnosis
from allhands.api.schema.typed import TypedSchema, drop_nulls
from allhands.api.volcano.pod_template import POD_TEMPLATE, VOLUME_CLAIM

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest

_REMEMBERED: Final = 512


def template_errors(template: Manifest | None, path: str) -> list[FieldError]:
    """What is wrong with the template of a pod."""
    return [_moved(error, path) for error in _template_errors(msgspec.json.encode(template or {}))]


def claim_errors(claim: Manifest, path: str) -> list[FieldError]:
    """What is wrong with the spec of a claim."""
    return [_moved(error, path) for error in _claim_errors(msgspec.json.encode(claim))]


@functools.lru_cache(maxsize=_REMEMBERED)
def _template_errors(text: bytes) -> tuple[FieldError, ...]:
    def check(template: Manifest) -> list[FieldError]:
        template.setdefault("spec", {})
        default_pod_template(template)
        return validate_pod_template(template, "")

    return _errors(text, POD_TEMPLATE, check)


@functools.lru_cache(maxsize=_REMEMBERED)
def _claim_errors(text: bytes) -> tuple[FieldError, ...]:
    def check(claim: Manifest) -> list[FieldError]:
        errors: list[FieldError] = []
        check_claim_spec(claim, "", errors)
        return errors

    return _errors(text, VOLUME_CLAIM, check)


def _errors(text: bytes, definition: str, check: Callable[[Manifest], list[FieldError]]) -> tuple[FieldError, ...]:
    document: Any = drop_nulls(msgspec.json.decode(text))
    try:
        formed = _schema(definition).normal_form(document)
    except msgspec.ValidationError as error:
        why = Diagnosis(document, definition).mismatch or str(error)
        return (invalid("", msgspec.json.decode(text), why),)
    return tuple(check(formed))


@functools.cache
def _schema(definition: str) -> TypedSchema:
    return TypedSchema(definition)


def _moved(error: FieldError, path: str) -> FieldError:
    below = error.path.removeprefix(".")
    return msgspec.structs.replace(error, path=f"{path}.{below}" if below else path)
