"""Whether we may do what we are about to do, asked before anything is done.

The API server is asked verb by verb, after it was asked once for all that it grants in any case; what is missing is
told as verb and resource, all of it at once. A server that cannot be asked is not a reason to stop: it refuses by
itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Manifest
    from allhands.ports import Objects

REVIEWS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
RULES: Final = Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews")
NOWHERE: Final = "allhands-nowhere"
"""A namespace that is not there: what is granted in it is granted everywhere."""
FEW: Final = 8
"""So many rights are asked for one by one; of more it is first seen which of them go without saying."""
INSTALLING: Final = ("get", "list", "create", "patch")
REMOVING: Final = ("list", "delete")
_CANNOT_BE_ASKED: Final = frozenset({404, 405})


class Right(msgspec.Struct, frozen=True, order=True):
    group: str
    resource: str
    verb: str
    namespace: str = ""

    def __str__(self) -> str:
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {whole}" + (f" in namespace {self.namespace}" if self.namespace else "")


class _Verdict(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Verdict = _Verdict()


class _Granted(msgspec.Struct, frozen=True, rename="camel"):
    """A rule that some binding gives us. With names it grants less than we ask for."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def grants(self, right: Right) -> bool:
        _, _, part = right.resource.partition("/")
        resources = ("*", right.resource, f"*/{part}") if part else ("*", right.resource)
        return (
            not self.resource_names
            and any(verb in self.verbs for verb in ("*", right.verb))
            and any(group in self.api_groups for group in ("*", right.group))
            and any(resource in self.resources for resource in resources)
        )


class _GrantedRules(msgspec.Struct, frozen=True, rename="camel"):
    resource_rules: tuple[_Granted, ...] = ()


class _RulesReview(msgspec.Struct, frozen=True):
    status: _GrantedRules = _GrantedRules()


def rights_for(kinds: Iterable[str], verbs: Sequence[str], namespace: str) -> list[Right]:
    """Lists are of the whole cluster, everything else happens in the one namespace."""
    from allhands.runtime.installation.places import COLLECTIONS  # noqa: PLC0415 (who only asks does not install)

    found = []
    for kind in dict.fromkeys(kinds):
        resource, is_namespaced = COLLECTIONS[kind]
        for verb in verbs:
            where = namespace if is_namespaced and verb != "list" else ""
            found.append(Right(resource.group, resource.plural, verb, where))
    return found


async def missing(objects: Objects, rights: Sequence[Right]) -> list[Right]:
    """Those that we do not have."""
    doubtful = list(rights)
    if len(rights) > FEW:
        granted = await _granted_everywhere(objects)
        doubtful = [right for right in rights if not any(rule.grants(right) for rule in granted)]
    answers = await asyncio.gather(*(_is_allowed(objects, right) for right in doubtful))
    return [right for right, allowed in zip(doubtful, answers, strict=True) if not allowed]


async def require(objects: Objects, rights: Sequence[Right]) -> None:
    """Raises with all that is missing."""
    from allhands.runtime.installation.places import InstallationError  # noqa: PLC0415

    if lacking := await missing(objects, rights):
        lines = "\n".join(f"  {right}" for right in lacking)
        raise InstallationError(f"you lack rights in this cluster; nothing was changed. Missing:\n{lines}")


async def _is_allowed(objects: Objects, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    wanted: Manifest = {"group": right.group, "resource": resource, "subresource": part, "verb": right.verb}
    if right.namespace:
        wanted["namespace"] = right.namespace
    body = {"apiVersion": REVIEWS.api_version, "kind": "SelfSubjectAccessReview"}
    try:
        review = await objects.create(REVIEWS, {**body, "spec": {"resourceAttributes": wanted}})
    except StatusError as refusal:
        if refusal.code in _CANNOT_BE_ASKED:
            return True
        raise
    return review.decode(_Review).status.allowed


async def _granted_everywhere(objects: Objects) -> tuple[_Granted, ...]:
    """What the server says without being asked for each; it may leave out some, and may not be able to say any."""
    body = {"apiVersion": RULES.api_version, "kind": "SelfSubjectRulesReview", "spec": {"namespace": NOWHERE}}
    try:
        review = await objects.create(RULES, body)
        return review.decode(_RulesReview).status.resource_rules
    except (StatusError, msgspec.ValidationError):
        return ()
