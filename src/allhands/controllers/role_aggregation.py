"""The shell of ClusterRoles that gather others: any change of any role may be one of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.controllers.watching import decoder
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.role_aggregation import CLUSTER_ROLES, ClusterRole, reconcile
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

_GATHERING: Final = "gathering"


class RoleAggregationController:
    name: Final = "role-aggregation"

    def __init__(self, objects: Objects) -> None:
        self._roles: Informer[ClusterRole] = Informer(
            objects, CLUSTER_ROLES, decoder(ClusterRole), indexes={_GATHERING: lambda it: ("",) if it.gathers else ()}
        )

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._roles,)

    def wire(self, queue: WorkQueue) -> None:
        def see(key: str, _old: ClusterRole | None, _new: ClusterRole | None) -> None:
            for gathering in {key, *self._roles.keys_by(_GATHERING, "")}:
                queue.add(gathering)

        self._roles.on_change(see)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        del now_seconds
        role = self._roles.get(key)
        return NOTHING_TO_DO if role is None else reconcile(role, self._roles.all())
