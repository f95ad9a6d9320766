"""What the containers of a simulated pod are taken to use: what they request, for as long as they run.

Nothing runs, so nothing can be measured. Requests are what the scheduler reckons with, so a node shows as much in use
as is given away on it; a container that requests nothing uses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.agents.pod_status import Running
from allhands.agents.stages import PodRun, Stage
from allhands.agents.usage import InUse
from allhands.model.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from allhands.agents.seen import ContainerSeen


def running_usage(run: PodRun) -> dict[str, InUse]:
    """By name of the container, of those that run."""
    if run.stage not in (Stage.INITIALISING, Stage.STARTING, Stage.RUNNING, Stage.BACKING_OFF, Stage.STOPPING):
        return {}
    report = run.report("", 0)
    reports = [*report.containers, *report.init_containers]
    running = {it.name for it in reports if isinstance(it.state, Running)}
    containers = (*run.spec.containers, *run.spec.init_containers)
    return {it.name: _requested(it) for it in containers if it.name in running}


def _requested(container: ContainerSeen) -> InUse:
    requests = container.resources.requests or {}
    return InUse(_amount(requests.get("cpu")).nanos, _amount(requests.get("memory")).value())


def _amount(text: str | None) -> Quantity:
    try:
        return Quantity.parse(text or "0")
    except QuantityError:
        return Quantity(0)
