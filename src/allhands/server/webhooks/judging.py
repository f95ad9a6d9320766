"""From a question of the API server to a verdict: defaults as a patch, rules and rights as a refusal.

The rules are those of `api.volcano.admission`, which the embedded cluster asks in process. Nothing is written, so a dry
run is answered like any other. An object whose shape is wrong is left to the API server, which refuses it by its schema
and says why better; a mistake of ours is never taken for a verdict.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeVar

from allhands.api.custom import kinds_of
from allhands.api.errors import StatusError, bad_request, invalid_object, not_allowed
from allhands.api.patch.json_difference import json_difference
from allhands.api.patch.values import copied
from allhands.api.volcano.admission import ADMISSIONS
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.surroundings import Surroundings
from allhands.server.webhooks.asks import asks_of
from allhands.server.webhooks.review import ALLOWED, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.definitions import Definition
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.kinds import Kind
    from allhands.api.volcano.admission import Admission
    from allhands.server.webhooks.asks import Ask
    from allhands.server.webhooks.others import KnownObjects, Sight
    from allhands.server.webhooks.review import Question
    from allhands.server.webhooks.submitters import Submitters

T = TypeVar("T")

ANNOTATED: Final = frozenset(
    {("", "Pod"), ("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("batch", "Job")}
)
"""Kinds that are not ours and of which only the queue is looked at, where they name one."""
_DEFINITIONS: Final = {(it.group, it.kind): it for it in VOLCANO_KINDS}


class _WrongShapeError(Exception):
    """A rule could not read the object, and its schema says why."""

    def __init__(self, refusal: StatusError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Judge:
    """Answers questions. Without `submitters` nobody's rights are looked at."""

    def __init__(
        self,
        known: KnownObjects,
        submitters: Submitters | None = None,
        *,
        scheduler_name: str,
        plugin_errors: Callable[[Manifest], list[FieldError]] = lambda _job: [],
    ) -> None:
        self._known = known
        self._submitters = submitters
        self._scheduler_name = scheduler_name
        self._plugin_errors = plugin_errors

    async def mutate(self, question: Question) -> Verdict:
        """What is to be filled in."""
        admission = _admission_of(question)
        if admission is None or question.object is None:
            return ALLOWED
        if question.operation == "CREATE" or (question.operation == "UPDATE" and admission.completes_updates):
            return Verdict(patch=await self._completion(question, admission, question.object))
        return ALLOWED

    async def _completion(self, question: Question, admission: Admission, before: Manifest) -> Sequence[Manifest]:
        def complete(sight: Sight) -> Manifest:
            document: Manifest = copied(before)
            document["metadata"] = dict(_placed(question, document)["metadata"])
            admission.complete(document, self._surroundings(sight))
            return document

        try:
            after = await self._known.judge(complete, lambda _after, sight: sight.has_missed)
        except (LookupError, TypeError, ValueError, AttributeError):
            if _shape_errors(question, before):
                return ()
            raise
        if not (before.get("metadata") or {}).get("namespace"):
            after["metadata"].pop("namespace", None)
        return json_difference(before, after)

    async def validate(self, question: Question) -> Verdict:
        """Whether it may be."""
        admission = _admission_of(question)
        refusal = None
        try:
            if admission is not None:
                refusal = await self._against_rules(question, admission)
            if refusal is None and question.operation in ("CREATE", "UPDATE"):
                refusal = await self._against_rights(question)
        except _WrongShapeError as error:
            refusal = error.refusal
        return ALLOWED if refusal is None else Verdict(refusal=refusal)

    async def _against_rules(self, question: Question, admission: Admission) -> StatusError | None:
        def rule(sight: Sight) -> StatusError | None:
            return _refusal(question, admission, self._surroundings(sight))

        return await self._judged(question, rule, lambda refusal, _sight: refusal is not None)

    async def _against_rights(self, question: Question) -> StatusError | None:
        new, old = question.object, question.old_object
        if self._submitters is None or new is None:
            return None
        new = _placed(question, new)
        group, kind = question.kind.group, question.kind.kind

        def rule(sight: Sight) -> tuple[Ask, ...]:
            return asks_of(group, kind, new, old if question.operation == "UPDATE" else None, sight)

        asks = await self._judged(question, rule, lambda _asks, sight: sight.has_missed)
        return await self._submitters.refusal(question, asks)

    async def _judged(
        self, question: Question, rule: Callable[[Sight], T], is_doubtful: Callable[[T, Sight], bool]
    ) -> T:
        """What the rule says. If it stumbles over an object that its schema refuses, that is the refusal."""
        try:
            return await self._known.judge(rule, is_doubtful)
        except (LookupError, TypeError, ValueError, AttributeError):
            errors = _shape_errors(question, question.object or {})
            if not errors:
                raise
            raise _WrongShapeError(
                invalid_object(question.kind.group, question.kind.kind, _name(question), errors)
            ) from None

    def _surroundings(self, sight: Sight) -> Surroundings:
        return Surroundings(
            queues=sight.queues,
            namespace_annotations=sight.namespace_annotations,
            scheduler_name=self._scheduler_name,
            plugin_errors=self._plugin_errors,
        )


def _admission_of(question: Question) -> Admission | None:
    """The rules of the kind; None if there are none. A kind that is not known here was sent by a wrong configuration,
    and is neither allowed nor refused."""
    key = (question.kind.group, question.kind.kind)
    if question.sub_resource:
        raise bad_request(f"request.subResource: {question.sub_resource!r} is not looked at here")
    if key not in _DEFINITIONS and key not in ANNOTATED:
        known = ", ".join(sorted(f"{it.kind}.{it.group}" for it in VOLCANO_KINDS))
        raise bad_request(f"request.kind: {key[1]!r} of group {key[0]!r} is not looked at here; known are: {known}")
    return ADMISSIONS.get(key)


def _refusal(question: Question, admission: Admission, around: Surroundings) -> StatusError | None:
    new, old = question.object, question.old_object
    if question.operation == "DELETE":
        why = admission.deletion_error(old, around) if old is not None else ""
        return not_allowed(question.resource.group, question.resource.resource, _name(question), why) if why else None
    if new is None:
        return None
    errors = []
    if question.operation == "CREATE":
        errors = admission.create_errors(_placed(question, new), around)
    elif question.operation == "UPDATE" and old is not None:
        errors = admission.update_errors(_placed(question, new), old, around)
    return invalid_object(question.kind.group, question.kind.kind, _name(question), errors) if errors else None


def _placed(question: Question, document: Manifest) -> Manifest:
    """The object in the namespace of the request: what it says itself may be left out, and does not count."""
    metadata = {**(document.get("metadata") or {})}
    if question.namespace:
        metadata["namespace"] = question.namespace
    return {**document, "metadata": metadata}


def _name(question: Question) -> str:
    metadata = (question.object or question.old_object or {}).get("metadata")
    stated = metadata if isinstance(metadata, dict) else {}
    return question.name or str(stated.get("name") or stated.get("generateName") or "")


@functools.cache
def _kind_of(definition: Definition, version: str) -> Kind | None:
    return next((it for it in kinds_of(definition.manifest()) if it.resource.version == version), None)


def _shape_errors(question: Question, document: Manifest) -> list[FieldError]:
    """What the schema of its kind says against the object."""
    definition = _DEFINITIONS.get((question.kind.group, question.kind.kind))
    kind = _kind_of(definition, question.kind.version) if definition is not None else None
    return kind.rules.validate_create(document) if kind is not None else []
