"""The visible list of controllers: adding one is one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.controllers.cron_job import CronJobController, VolcanoCronJobController
from allhands.controllers.daemon_set import DaemonSetController
from allhands.controllers.deployment import DeploymentController
from allhands.controllers.disruption_budget import DisruptionBudgetController
from allhands.controllers.hyper_node import HyperNodeController
from allhands.controllers.job import JobController
from allhands.controllers.job_flow import JobFlowController
from allhands.controllers.job_template import JobTemplateController
from allhands.controllers.node import NodeController
from allhands.controllers.numatopology import NumatopologyController
from allhands.controllers.queue import QueueController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.role_aggregation import RoleAggregationController
from allhands.controllers.stateful_set import StatefulSetController
from allhands.controllers.volcano_job import VolcanoJobController
from allhands.controllers.volume_binding import VolumeBindingController
from allhands.controllers.workload_group import WorkloadGroupController

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.lifecycle.volcano_job.extension import KeyPair
    from allhands.ports import Objects
    from allhands.runtime.controller import Controller
    from allhands.runtime.probing import Probes

ALWAYS: Final = frozenset({"job", "node", "queue"})
"""The others sleep until there is an object of their kind: what nobody uses costs nothing."""


def controllers(
    objects: Objects,
    volume_folder: str,
    new_keys: Callable[[], KeyPair] | None = None,
    probes: Probes | None = None,
) -> tuple[Controller, ...]:
    """One of each, new, on this port. `new_keys`: makes keys for Jobs whose pods log in to each other; `probes`: asks
    pods whether they are up; without it those that run are."""
    return (
        CronJobController(objects),
        DaemonSetController(objects),
        DeploymentController(objects),
        DisruptionBudgetController(objects),
        HyperNodeController(objects),
        JobController(objects),
        JobFlowController(objects, probes=probes),
        JobTemplateController(objects),
        NodeController(objects),
        NumatopologyController(objects),
        QueueController(objects),
        ReplicaSetController(objects),
        RoleAggregationController(objects),
        StatefulSetController(objects),
        VolcanoCronJobController(objects),
        VolcanoJobController(objects, new_keys=new_keys),
        VolumeBindingController(objects, volume_folder),
        WorkloadGroupController(objects),
    )
