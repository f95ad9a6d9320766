"""AdmissionReview v1: the question that an API server asks, and the answer, as text.

A question that cannot be read is refused with what is wrong with it. The answer carries the question's uid, and never
more than was decided: no trace of the program, no name of a file.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError, bad_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
MOST_UID: Final = 256


class GroupKind(msgspec.Struct, frozen=True):
    """Which kind of object it is about."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupResource(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class Submitter(msgspec.Struct, frozen=True):
    """Who asks for it, as the API server knows them. Nothing in the object itself can say otherwise."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None

    def key(self) -> tuple[Any, ...]:
        """The same for the same identity, and never for another."""
        extra = tuple(sorted((self.extra or {}).items()))
        return (self.username, self.uid, tuple(sorted(self.groups or ())), extra)


class Question(msgspec.Struct, frozen=True, rename="camel"):
    """One request of a user, on its way into the store."""

    uid: str
    kind: GroupKind
    resource: GroupResource = GroupResource()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: Submitter = Submitter()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Question | None = None


_reviews: Final = msgspec.json.Decoder(_Review)


def question_of(body: bytes) -> Question:
    """What is asked, or a refusal that says what is wrong with it."""
    try:
        review = _reviews.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body is no {KIND}: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise bad_request(f"the body is no {KIND} of {API_VERSION}, but {review.kind!r} of {review.api_version!r}")
    question = review.request
    if question is None:
        raise bad_request("request: Required value")
    if not question.uid or len(question.uid) > MOST_UID:
        raise bad_request(f"request.uid: must have 1 to {MOST_UID} characters")
    if question.operation not in OPERATIONS:
        raise bad_request(f"request.operation: must be one of {', '.join(OPERATIONS)}")
    return question


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided: a refusal, or what is to be changed; and what to tell the user in any case."""

    refusal: StatusError | None = None
    patch: Sequence[Manifest] = ()
    warnings: Sequence[str] = ()


ALLOWED: Final = Verdict()


def answer_text(question: Question, verdict: Verdict) -> bytes:
    """The answer as a body."""
    answer: Manifest = {"uid": question.uid, "allowed": verdict.refusal is None}
    if verdict.refusal is not None:
        answer["status"] = verdict.refusal.status()
    elif verdict.patch:
        answer["patchType"] = "JSONPatch"
        answer["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    if verdict.warnings:
        answer["warnings"] = list(verdict.warnings)
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": answer})
