"""What went wrong with a request, as one kind of error: a `StatusError`, with what a caller needs to go on.

A server refuses with a `Status`; a proxy in between with whatever it likes; a connection breaks. What is told apart is
whether a write may have been done all the same (`may_have_happened`): it must be read back, never simply repeated.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError, status_from
from allhands.api.schema import protobuf
from allhands.api.schema.definitions import META

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.kube.answers import Answer
    from allhands.kube.paths import Asked

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
TOO_MANY: Final = 429
SERVER_MISTAKE: Final = 500
BAD_GATEWAY: Final = 502
UNAVAILABLE: Final = 503
GATEWAY_TIMEOUT: Final = 504
MOST_TEXT: Final = 500
"""How much is shown of an answer that is no `Status`."""
LONGEST_WAIT_SECONDS: Final = 24 * 3600
_TAGS = re.compile(r"(?is)<(script|style|head)\b.*?</\1>|<[^>]*>")


class UnansweredError(StatusError):
    """No answer came, or only a part of one."""

    def __init__(self, code: int, reason: str, message: str, *, was_sent: bool) -> None:
        super().__init__(code, reason, message)
        self.was_sent = was_sent
        """False if the request cannot have reached the server: repeating it is safe whatever it asks for."""


class UntrustedError(UnansweredError):
    """Whoever answers is not the server that we were told of: asking again gives the same."""


class UnusableError(StatusError):
    """An answer came, and is not one of the Kubernetes API: the next will be the same."""


def not_reached(server: str, why: object) -> UnansweredError:
    return UnansweredError(UNAVAILABLE, "ServiceUnavailable", f"{server} cannot be reached: {why}", was_sent=False)


def not_trusted(server: str, why: object) -> UntrustedError:
    message = f"{server} cannot be reached: TLS does not come about: {why}"
    return UntrustedError(UNAVAILABLE, "ServiceUnavailable", message, was_sent=False)


def answer_lost(server: str, why: object) -> UnansweredError:
    message = f"{server} cannot be reached: the connection broke before the answer was complete: {why}"
    return UnansweredError(UNAVAILABLE, "ServiceUnavailable", message, was_sent=True)


def too_late(server: str, seconds: float, *, was_sent: bool = True) -> UnansweredError:
    message = f"{server} has not answered within {seconds:g} seconds"
    return UnansweredError(GATEWAY_TIMEOUT, "Timeout", message, was_sent=was_sent)


def too_large(what: Asked, most_bytes: int) -> UnusableError:
    message = f"{what}: the answer is larger than {most_bytes:,} bytes; ask for less at a time (limit)"
    return UnusableError(BAD_GATEWAY, "RequestEntityTooLarge", message)


def not_the_api(server: str, content_type: str, raw: bytes) -> UnusableError:
    """It answered well, but not with JSON: a login page, a welcome page."""
    shown = readable(raw)
    message = f"{server} does not speak the Kubernetes API: it answered with {content_type or 'no content type'}"
    return UnusableError(BAD_GATEWAY, "", f"{message}: {shown}" if shown else message)


def redirected(server: str, location: str) -> UnusableError:
    message = f"{server} sends us elsewhere ({location}); credentials are not carried there: correct the address"
    return UnusableError(BAD_GATEWAY, "", message)


def refusal(code: int, raw: bytes, what: Asked | None = None, headers: Mapping[str, str] | None = None) -> StatusError:
    """The error that a response stands for; a proxy in between may answer with something that is no `Status`."""
    error = _from_status(code, raw)
    if error is None:
        error = StatusError(code, "", readable(raw) or f"HTTP {code} without a body")
    if code == FORBIDDEN and what is not None and f"cannot {what.verb} " not in error.message:
        # The server's own words name the verb and the resource; those of a webhook or a proxy may not.
        error = StatusError(code, error.reason, f"{what} is not allowed: {error.message}", error.details)
    if headers is not None and "retryAfterSeconds" not in (error.details or {}):
        seconds = retry_after_seconds(headers.get("Retry-After", ""))
        if seconds is not None:
            error.details = {**(error.details or {}), "retryAfterSeconds": seconds}
    return error


def of_answer(server: str, what: Asked, answer: Answer, most_bytes: int) -> StatusError:
    """Why an answer is not a good one of an API server, which is known already."""
    if answer.status >= 400:
        return refusal(answer.status, answer.body, what, {"Retry-After": answer.header("Retry-After")})
    if answer.status >= 300:
        return redirected(server, answer.header("Location") or "nowhere")
    if not answer.is_spoken:
        return not_the_api(server, answer.header("Content-Type"), answer.body)
    return too_large(what, most_bytes)


class _Details(msgspec.Struct, rename="camel"):
    """What of the details is acted upon must have its form."""

    causes: list[dict[str, Any]] | None = None
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct):
    kind: str
    code: int = 0
    details: _Details | None = None


_statuses = msgspec.json.Decoder(_Status)


def _from_status(code: int, raw: bytes) -> StatusError | None:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, StatusError):
        if raw.startswith(protobuf.MAGIC):
            raw = _in_json(raw)
        status = _statuses.decode(raw)
        if status.kind == "Status":
            document = msgspec.json.decode(raw)
            document["code"] = status.code or code
            return status_from(document)
    return None


def _in_json(raw: bytes) -> bytes:
    """A server answers in the language that it was asked in, also if it refuses."""
    _, kind, message = protobuf.decode_envelope(raw)
    return msgspec.json.encode({"kind": kind, **protobuf.decode(message, META + "Status")})


def retry_after_seconds(header: str) -> int | None:
    """Servers of Kubernetes write whole seconds; a date would need their clock, and means nothing to us."""
    header = header.strip()
    return min(int(header), LONGEST_WAIT_SECONDS) if header.isascii() and header.isdecimal() else None


def readable(raw: bytes) -> str:
    """The words of an answer that may be HTML, in one line."""
    text = raw[: 16 * MOST_TEXT].decode(errors="replace")
    if "<" in text[:MOST_TEXT]:
        text = _TAGS.sub(" ", text)
    return " ".join(text.split())[:MOST_TEXT]
