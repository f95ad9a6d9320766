"""The roles and bindings of a store, ready for decisions: at every question as they are at that moment.

Whether anything has changed is four comparisons of numbers; what has not changed is not read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.access.grants import GROUP, Decision, Grants
from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.access.attributes import Attributes
    from allhands.api.access.identity import User
    from allhands.api.access.rules import Rule
    from allhands.api.document import Manifest
    from allhands.store.collection import Collection
    from allhands.store.record import Key, Record
    from allhands.store.store import Store

ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = RESOURCES = tuple(
    Resource(GROUP, "v1", plural) for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
)
_ROLE_KINDS: Final = (ROLES, CLUSTER_ROLES)


class _Followed:
    """One collection, and what of it was taken over."""

    def __init__(self, collection: Collection, put: Callable[[Key, Manifest | None], None]) -> None:
        self.collection = collection
        self._put = put
        self._taken: dict[Key, Record] = {}
        self._version = -1

    def catch_up(self) -> None:
        if self.collection.version == self._version:
            return
        self._version = self.collection.version
        present = {record.key: record for record in self.collection}
        for key in self._taken.keys() - present.keys():
            self._put(key, None)
        for key, record in present.items():
            if self._taken.get(key) is not record:
                self._put(key, record.manifest())
        self._taken = present


class StoredRoles:
    """Decides by the roles in a store."""

    def __init__(self, store: Store) -> None:
        self._grants = Grants()
        self._followed = [
            _Followed(
                store.collection(store.kind(resource)),
                self._grants.put_role if resource in _ROLE_KINDS else self._grants.put_binding,
            )
            for resource in RESOURCES
        ]

    @property
    def grants(self) -> Grants:
        """Everything that is granted now."""
        for followed in self._followed:
            followed.catch_up()
        return self._grants

    def decide(self, user: User, wanted: Attributes) -> Decision:
        return self.grants.decide(user, wanted)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        return self.grants.rules_for(user, namespace)
