"""The visible list of controllers: adding one is one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.controllers.cron_job import CronJobController
from allhands.controllers.deployment import DeploymentController
from allhands.controllers.disruption_budget import DisruptionBudgetController
from allhands.controllers.job import JobController
from allhands.controllers.node import NodeController
from allhands.controllers.queue import QueueController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.resource_quota import ResourceQuotaController
from allhands.controllers.volume_binding import VolumeBindingController

if TYPE_CHECKING:
    from allhands.ports import Objects
    from allhands.runtime.controller import Controller

ALWAYS: Final = frozenset({"job", "node", "queue"})
"""The others sleep until there is an object of their kind: what nobody uses costs nothing."""


def controllers(objects: Objects, volume_folder: str) -> tuple[Controller, ...]:
    """One of each, new, on this port."""
    return (
        CronJobController(objects),
        DeploymentController(objects),
        DisruptionBudgetController(objects),
        JobController(objects),
        NodeController(objects),
        QueueController(objects),
        ReplicaSetController(objects),
        ResourceQuotaController(objects),
        VolumeBindingController(objects, volume_folder),
    )
