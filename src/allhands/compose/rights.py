"""What is looked at of the submitter of an object in a cluster of this process, when rights are looked at.

It is what a real cluster asks: nobody grants more than they have, nobody creates by changing, and the functions of the
webhooks (`asks`) say what our controllers would do for somebody. Whose rights count is who the gate says it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.access.attributes import Attributes, refused
from allhands.api.access.default_roles import cluster_role_bindings, cluster_roles, reconciled, usage_roles
from allhands.api.access.escalation import escalation
from allhands.api.access.grants import GROUP
from allhands.api.errors import StatusError
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.server.webhooks.asks import asks_of
from allhands.server.webhooks.judging import ANNOTATED
from allhands.server.webhooks.review import GroupKind, GroupResource, Question, Submitter
from allhands.server.webhooks.submitters import refusal_of
from allhands.store.roles import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES

if TYPE_CHECKING:
    from allhands.api.access.identity import User
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind, Resource
    from allhands.ports import Objects
    from allhands.server.webhooks.asks import Ask
    from allhands.store import Store
    from allhands.store.roles import StoredRoles

_ASKED_ABOUT: Final = frozenset((it.group, it.kind) for it in VOLCANO_KINDS) | ANNOTATED
NOT_FOUND: Final = 404


class _StoredOthers:
    """Other objects, as they are now."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def one(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        kind = self._store.kinds.find(resource)
        record = None if kind is None else self._store.collection(kind).get((namespace, name))
        return None if record is None else record.manifest()


class SubmitterRights:
    """A `SubmitterCheck` by the roles of the cluster."""

    def __init__(self, store: Store, roles: StoredRoles) -> None:
        self._roles = roles
        self._others = _StoredOthers(store)

    def __call__(self, kind: Kind, new: Manifest, old: Manifest | None, user: User, *, by_update: bool) -> None:
        if by_update and old is None:
            self._check_creation(kind, new, user)
        if kind.group == GROUP:
            refusal = escalation(kind.kind, new, old, user, self._roles.grants)
            if refusal is not None:
                raise refusal
        if (kind.group, kind.kind) in _ASKED_ABOUT:
            self._check_asks(kind, new, old, user)

    def _check_creation(self, kind: Kind, new: Manifest, user: User) -> None:
        resource, metadata = kind.resource, new["metadata"]
        wanted = Attributes(
            verb="create",
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            name=metadata.get("name") or "",
            namespace=metadata.get("namespace") or "",
        )
        decision = self._roles.decide(user, wanted)
        if not decision.allowed:
            raise refused(user.name, wanted, decision.reason)

    def _check_asks(self, kind: Kind, new: Manifest, old: Manifest | None, user: User) -> None:
        asks = asks_of(kind.group, kind.kind, new, old, self._others)
        lacking = [ask for ask in asks if not self._roles.decide(user, _attributes(ask)).allowed]
        if lacking:
            raise refusal_of(_question(kind, new, user), lacking)


def _attributes(ask: Ask) -> Attributes:
    return Attributes(verb=ask.verb, group=ask.group, resource=ask.resource, namespace=ask.namespace, name=ask.name)


def _question(kind: Kind, new: Manifest, user: User) -> Question:
    resource, metadata = kind.resource, new["metadata"]
    return Question(
        uid="",
        kind=GroupKind(kind.group, resource.version, kind.kind),
        resource=GroupResource(resource.group, resource.version, resource.plural),
        name=metadata.get("name") or "",
        namespace=metadata.get("namespace") or "",
        user_info=Submitter(user.name, user.uid, user.groups, dict(user.extra)),
        object=new,
    )


async def install_roles(objects: Objects) -> None:
    """The roles that a cluster has from the start: those that are missing, and what those lack that are there."""
    for resource, wanted in [
        *((CLUSTER_ROLES, role) for role in (*cluster_roles(), *usage_roles())),
        *((CLUSTER_ROLE_BINDINGS, binding) for binding in cluster_role_bindings()),
    ]:
        name = wanted["metadata"]["name"]
        try:
            kept = (await objects.get(resource, name)).manifest()
        except StatusError as error:
            if error.code != NOT_FOUND:
                raise
            await objects.create(resource, wanted)
            continue
        changed = reconciled(kept, wanted)
        if changed is not None:
            await objects.update(resource, name, changed)
