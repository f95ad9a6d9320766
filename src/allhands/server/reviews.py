"""Questions about identities and rights, answered at once: who am I, may they, what may I, whose token is this.

They are answered in the same way whether or not rights are looked at; if not, everybody may do everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.access.attributes import Attributes
from allhands.api.access.identity import User
from allhands.api.errors import FieldError, Telling, bad_request, invalid, invalid_object
from allhands.api.schema import timestamps
from allhands.server import options, resources
from allhands.server.access.account_tokens import ISSUER
from allhands.server.answers import warning_headers, written
from allhands.server.parts import read_part

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.api.access.rules import Rule
    from allhands.api.document import Manifest
    from allhands.server.answers import Answer
    from allhands.server.resources import Call

_RULE_FIELDS: Final = {
    "verbs": "verbs",
    "apiGroups": "api_groups",
    "resources": "resources",
    "resourceNames": "resource_names",
    "nonResourceURLs": "urls",
}


async def answer(call: Call) -> Answer:
    """The question that was posted, with its answer in it."""
    if call.request.method != "POST" or call.target.name or (call.kind.namespaced and not call.target.namespace):
        raise resources.refused_method(call)
    form = call.form()
    how = options.write_options(call.request, "CreateOptions")
    body, warnings = await read_part(call.request, call.kind.kind, how.field_validation)
    with Telling(warnings):
        answered = await _ANSWERS[call.kind.kind](call, body)
    whole = {"kind": call.kind.kind, "apiVersion": call.kind.api_version} | answered
    return written(whole, form, 201, warning_headers(warnings))


async def _access(call: Call, review: Manifest) -> Manifest:
    kind, spec = call.kind.kind, review.get("spec") or {}
    _refuse_if(_access_errors(kind, review, call.target.namespace))
    user = call.request.user if kind.startswith("Self") else _user_of(spec)
    decision = call.face.gate.authority.decide(user, _attributes_of(spec))
    status: Manifest = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    metadata = {"namespace": call.target.namespace} if call.target.namespace else {}
    return {"metadata": metadata, "spec": spec, "status": status}


def _user_of(spec: Manifest) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def _attributes_of(spec: Manifest) -> Attributes:
    of_path = spec.get("nonResourceAttributes")
    if of_path is not None:
        return Attributes(verb=of_path.get("verb") or "", path=of_path.get("path") or "")
    fields = ("verb", "group", "version", "resource", "subresource", "name", "namespace")
    stated = spec.get("resourceAttributes") or {}
    return Attributes(**{field: stated.get(field) or "" for field in fields})


def _access_errors(kind: str, review: Manifest, namespace: str) -> list[FieldError]:
    spec = review.get("spec") or {}
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if of_resource is not None and of_path is not None:
        shown = {"Path": of_path.get("path") or "", "Verb": of_path.get("verb") or ""}
        why = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", shown, why))
    if of_resource is None and of_path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, why))
    if not kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    metadata = {name: value for name, value in review["metadata"].items() if name != "managedFields"}
    if not kind.startswith("Local"):
        return [*errors, invalid("metadata", metadata, "must be empty")] if metadata else errors
    if metadata.keys() - {"namespace"}:
        errors.append(invalid("metadata", metadata, "must be empty except for namespace"))
    if of_resource is not None and (of_resource.get("namespace") or "") != namespace:
        stated = of_resource.get("namespace") or ""
        errors.append(invalid("spec.resourceAttributes.namespace", stated, "must match metadata.namespace"))
    if of_path is not None:
        shown = {"Path": of_path.get("path") or "", "Verb": of_path.get("verb") or ""}
        errors.append(invalid("spec.nonResourceAttributes", shown, "disallowed on this kind of request"))
    return errors


def _refuse_if(errors: list[FieldError]) -> None:
    if errors:
        raise invalid_object("authorization.k8s.io", "", "", errors)


async def _rules(call: Call, review: Manifest) -> Manifest:
    namespace = (review.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    rules, problems = call.face.gate.authority.rules_for(call.request.user, namespace)
    of_paths = ("verbs", "nonResourceURLs")
    status: Manifest = {
        "resourceRules": [
            _shown(rule, [it for it in _RULE_FIELDS if it != of_paths[1]]) for rule in rules if rule.resources
        ],
        "nonResourceRules": [_shown(rule, of_paths) for rule in rules if rule.urls],
        "incomplete": False,
    }
    if problems:
        status["evaluationError"] = problems
    return {"metadata": {}, "spec": {}, "status": status}


def _shown(rule: Rule, fields: list[str] | tuple[str, ...]) -> Manifest:
    values = {field: list(getattr(rule, _RULE_FIELDS[field])) for field in fields}
    return {field: value for field, value in values.items() if value or field == "verbs"}


async def _whoami(call: Call, review: Manifest) -> Manifest:
    del review
    created = timestamps.seconds(call.face.clock.now())
    return {"metadata": {"creationTimestamp": created}, "status": {"userInfo": call.request.user.document()}}


async def _token(call: Call, review: Manifest) -> Manifest:
    spec = review.get("spec") or {}
    token = spec.get("token") or ""
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    audiences = tuple(spec.get("audiences") or (ISSUER,))
    known = await call.face.gate.user_of(token.encode("utf-8", "replace"), audiences)
    status: Manifest = {"user": {}, "error": "invalid bearer token"}
    if known is not None:
        status = {"authenticated": True, "user": known[0].document(), "audiences": list(known[1])}
    return {"metadata": review["metadata"], "spec": spec, "status": status}


_ANSWERS: Final[dict[str, Callable[[Call, Manifest], Awaitable[Manifest]]]] = {
    "LocalSubjectAccessReview": _access,
    "SelfSubjectAccessReview": _access,
    "SubjectAccessReview": _access,
    "SelfSubjectRulesReview": _rules,
    "SelfSubjectReview": _whoami,
    "TokenReview": _token,
}
