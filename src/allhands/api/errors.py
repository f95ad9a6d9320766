"""Every refusal of the API: a `Status` with a reason, and field errors that carry the field's path.

The texts are the ones of a real kube-apiserver, because clients (kubectl, client-go, people with grep) depend on them.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Json, Manifest


class Fault(enum.Enum):
    """Why a field was refused: (machine-readable cause, words for people)."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    TOO_FEW = ("FieldValueTooFew", "Too few")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")
    TOO_SHORT = ("FieldValueTooShort", "Too short")
    INTERNAL = ("InternalError", "Internal error")


class _Omitted(enum.Enum):
    OMITTED = "omitted"


OMITTED: Final = _Omitted.OMITTED
"""The bad value of an error that does not show one."""

_WITHOUT_VALUE = frozenset({Fault.REQUIRED, Fault.FORBIDDEN, Fault.TOO_LONG, Fault.TOO_SHORT, Fault.INTERNAL})


class FieldError(msgspec.Struct, frozen=True):
    """One field that was refused. `path` is dotted, with `[0]` for list items and `[key]` for map keys."""

    fault: Fault
    path: str
    value: Json = OMITTED
    detail: str = ""

    def body(self) -> str:
        """The message without the path."""
        text = self.fault.value[1]
        if self.fault not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {_render(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body()}"

    def cause(self) -> Manifest:
        return {"reason": self.fault.value[0], "message": self.body(), "field": self.path}


def _render(value: Json) -> str:
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = msgspec.json.encode(value).decode()
    return text.translate(_GO_JSON_ESCAPES)


_GO_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


_GO_JSON_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""Go writes these three escaped in JSON, for the sake of HTML."""


def go_quote(text: str) -> str:
    """The string in double quotes as Go's %q writes it, which is what the API's messages contain."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = []
    for char in text:
        if char in _GO_ESCAPES:
            parts.append(_GO_ESCAPES[char])
        elif char.isprintable():
            parts.append(char)
        elif ord(char) < 0x80:
            parts.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            parts.append(f"\\u{ord(char):04x}")
        else:
            parts.append(f"\\U{ord(char):08x}")
    return '"' + "".join(parts) + '"'


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(Fault.REQUIRED, path, detail=detail)


def invalid(path: str, value: Json, detail: str) -> FieldError:
    return FieldError(Fault.INVALID, path, value, detail)


def type_invalid(path: str, value: Json, detail: str) -> FieldError:
    return FieldError(Fault.TYPE_INVALID, path, value, detail)


def not_supported(path: str, value: Json, allowed: Iterable[str]) -> FieldError:
    """`allowed` is listed in the order given; the API sorts it where the source is a set."""
    choices = ", ".join(go_quote(choice) for choice in allowed)
    return FieldError(Fault.NOT_SUPPORTED, path, value, f"supported values: {choices}" if choices else "")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(Fault.FORBIDDEN, path, detail=detail)


def duplicate(path: str, value: Json) -> FieldError:
    return FieldError(Fault.DUPLICATE, path, value)


def not_found(path: str, value: Json) -> FieldError:
    return FieldError(Fault.NOT_FOUND, path, value)


def too_long(path: str, max_bytes: int) -> FieldError:
    unit = "byte" if max_bytes == 1 else "bytes"
    return FieldError(Fault.TOO_LONG, path, detail=f"may not be more than {max_bytes} {unit}")


def too_many(path: str, actual: int, max_items: int) -> FieldError:
    unit = "item" if max_items == 1 else "items"
    return FieldError(Fault.TOO_MANY, path, actual, f"must have at most {max_items} {unit}")


class StatusError(Exception):
    """A request that was refused: becomes a `Status` object on the wire and a sentence in a terminal."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.warnings: tuple[str, ...] = ()
        """What was odd in the request besides; a client is told although it was refused."""
        self.may_have_happened = False
        """A write of which nobody knows whether it was done: its answer was lost, or the server gave up waiting. Read
        back before doing it again."""

    def status(self) -> Manifest:
        status: Manifest = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        if self.details is None:
            del status["details"]
        if not self.reason:
            del status["reason"]
        return status

    @property
    def retry_after_seconds(self) -> int:
        return int((self.details or {}).get("retryAfterSeconds", 0))


class Telling:
    """Whoever is refused inside of this is told these warnings too."""

    __slots__ = ("_warnings",)

    def __init__(self, warnings: tuple[str, ...]) -> None:
        self._warnings = warnings

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StatusError):
            error.warnings = self._warnings + error.warnings


def status_from(status: Manifest) -> StatusError:
    """The error that a `Status` document received from a server stands for."""
    return StatusError(
        int(status.get("code") or 500),
        str(status.get("reason") or ""),
        str(status.get("message") or "the server refused the request without a message"),
        status.get("details"),
    )


MAX_CAUSES: Final = 250
"""A refusal with more would be larger than the request it refuses."""


def _details(group: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details | more


def qualified(group: str, name: str) -> str:
    """`jobs.batch`, `pods`: how messages name a resource or a kind."""
    return f"{name}.{group}" if group else name


def no_such_object(group: str, resource: str, name: str) -> StatusError:
    message = f"{qualified(group, resource)} {go_quote(name)} not found"
    return StatusError(404, "NotFound", message, _details(group, resource, name))


def already_exists(group: str, resource: str, name: str) -> StatusError:
    message = f"{qualified(group, resource)} {go_quote(name)} already exists"
    return StatusError(409, "AlreadyExists", message, _details(group, resource, name))


def conflict(group: str, resource: str, name: str, why: str) -> StatusError:
    message = f"Operation cannot be fulfilled on {qualified(group, resource)} {go_quote(name)}: {why}"
    return StatusError(409, "Conflict", message, _details(group, resource, name))


def not_allowed(group: str, resource: str, name: str, why: str) -> StatusError:
    subject = f"{qualified(group, resource)} {go_quote(name)}" if name else qualified(group, resource)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(group, resource, name))


def invalid_object(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 with every field error as a cause; the message lists each distinct one once."""
    shown = errors[:MAX_CAUSES]
    texts = list(dict.fromkeys(str(error) for error in shown))
    if len(errors) > len(shown):
        texts.append(f"and {len(errors) - len(shown)} more")
    listing = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f"{qualified(group, kind)} {go_quote(name)} is invalid: {listing}"
    return StatusError(422, "Invalid", message, _details(group, kind, name, causes=[e.cause() for e in shown]))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def method_not_supported(group: str, resource: str, action: str) -> StatusError:
    message = f"{action} is not supported on resources of kind {go_quote(qualified(group, resource))}"
    return StatusError(405, "MethodNotAllowed", message, _details(group, resource, ""))


def unsupported_media_type(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)
