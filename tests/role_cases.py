"""Roles that gather others, as a controller that the laws are tried on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from allhands.controllers.role_aggregation import RoleAggregationController
from allhands.lifecycle.role_aggregation import CLUSTER_ROLES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.controller_world import World


def _gathering(name: str, label: str, **labels: str) -> dict[str, Any]:
    selector = {"matchLabels": {label: "true"}}
    return {
        "metadata": {"name": name, "labels": labels},
        "aggregationRule": {"clusterRoleSelectors": [selector]},
    }


def _role(name: str, resource: str, **labels: str) -> dict[str, Any]:
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


class RoleAggregationCase:
    name = "role-aggregation"
    resources = (CLUSTER_ROLES,)
    horizon_seconds = 0.0
    kubelet = False

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [RoleAggregationController(objects)]

    def watch(self, world: World) -> None:
        """A role that gathers never has a right that no plain role has."""

        def law(world: World) -> None:
            roles = world.all(CLUSTER_ROLES)
            plain = {it["rules"][0]["resources"][0] for it in roles if "aggregationRule" not in it and it.get("rules")}
            self._ever |= plain
            for role in roles:
                assert {rule["resources"][0] for rule in role.get("rules") or ()} <= self._ever

        self._ever: set[str] = set()
        world.watchers.append(law)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)

        async def begin(world: World) -> None:
            await world.create(CLUSTER_ROLES, _gathering("edit", "to-edit"))
            await world.create(CLUSTER_ROLES, _gathering("view", "to-view", **{"to-edit": "true"}))
            await world.create(CLUSTER_ROLES, _role("pods", "pods", **{"to-view": "true"}))
            await world.create(CLUSTER_ROLES, _role("other", "secrets", **{"to-nobody": "true"}))

        async def join(world: World) -> None:
            label = chance.choice(("to-view", "to-edit"))
            await world.create(CLUSTER_ROLES, _role("jobs", "jobs", **{label: "true"}))

        async def meddle(world: World) -> None:
            await world.patch(CLUSTER_ROLES, "edit", {"rules": []})

        async def leave(world: World) -> None:
            await world.objects.delete(CLUSTER_ROLES, "pods")

        moves = [join, meddle, leave]
        chance.shuffle(moves)
        return [begin, *moves]
