"""Nobody grants what they do not have: what a user may write into roles and bindings.

Whoever holds the verb `escalate` on roles, or `bind` on the role in question, is trusted to; members of
`system:masters` are never asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.access.attributes import Attributes
from allhands.api.access.grants import GROUP, Grants
from allhands.api.access.rules import EVERYTHING, Rule, compacted, missing, quoted, rules_of
from allhands.api.errors import StatusError, go_quote, no_such_object, not_allowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.access.identity import User
    from allhands.api.document import Manifest

_PLURALS: Final = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}
_LEFT_ALONE: Final = ("ownerReferences", "finalizers", "resourceVersion", "managedFields", "generation")
"""What a change may touch that only leads to the object's own end."""


def escalation(kind: str, new: Manifest, old: Manifest | None, user: User, grants: Grants) -> StatusError | None:
    """Why this user may not write the role or binding `new` in the place of `old`; None if they may."""
    if user.is_master or kind not in _PLURALS or (old is not None and _is_same(new, old)):
        return None
    metadata = new["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
    if kind in ("Role", "ClusterRole"):
        if _may(grants, user, "escalate", _PLURALS[kind], "" if old is None else name, namespace):
            return None
        why = _beyond(grants, user, namespace, rules_of(new)) or _gathering(grants, user, new, old)
    else:
        reference = new.get("roleRef") or {}
        role_kind, role_name = reference.get("kind") or "", reference.get("name") or ""
        if role_kind in _PLURALS and _may(grants, user, "bind", _PLURALS[role_kind], role_name, namespace):
            return None
        rules = grants.rules_of_role(role_kind, role_name, namespace)
        if rules is None:
            return no_such_object(GROUP, _PLURALS[kind], role_name)  # the real server names the wrong kind, too
        why = _beyond(grants, user, namespace, rules)
    return not_allowed(GROUP, _PLURALS[kind], name, why) if why else None


def _is_same(new: Manifest, old: Manifest) -> bool:
    def rest(document: Manifest) -> Manifest:
        metadata = {name: value for name, value in document["metadata"].items() if name not in _LEFT_ALONE}
        return {**document, "metadata": metadata}

    return rest(new) == rest(old)


def _may(grants: Grants, user: User, verb: str, plural: str, name: str, namespace: str) -> bool:
    wanted = Attributes(verb=verb, group=GROUP, version="*", resource=plural, name=name, namespace=namespace)
    return grants.decide(user, wanted).allowed


def _beyond(grants: Grants, user: User, namespace: str, rules: Sequence[Rule]) -> str:
    """What of these rules the user does not hold, in words."""
    held, problems = grants.rules_for(user, namespace)
    lacking = missing(held, rules)
    if not lacking:
        return ""
    listing = "\n".join(sorted({str(rule) for rule in compacted(lacking)}))
    who = f"user {go_quote(user.name)} (groups={quoted(user.groups)})"
    text = f"{who} is attempting to grant RBAC permissions not currently held:\n{listing}"
    return f"{text}; resolution errors: [{problems}]" if problems else text


def _gathering(grants: Grants, user: User, new: Manifest, old: Manifest | None) -> str:
    """A role that gathers others can come to hold anything."""
    if not any(_gathers(document) for document in (new, old or {})):
        return ""
    if not _beyond(grants, user, "", EVERYTHING):
        return ""
    return "must have cluster-admin privileges to use the aggregationRule"


def _gathers(role: Manifest) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))
