"""What is filled in where the author of a Volcano Job has said nothing: the same that Volcano fills in.

Pure, in place, and safe to do again. It runs when a Job is created, before the rules; machines may run it over what an
older server has stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.definitions import OURS
from allhands.api.volcano.job import DEFAULT_MAX_RETRY
from allhands.api.volcano.plugin_names import NEEDS
from allhands.api.volcano.queue import DEFAULT

if TYPE_CHECKING:
    from allhands.api.document import Manifest

DEFAULT_TASK: Final = "default"
_HOST_DNS: Final = "ClusterFirstWithHostNet"


def complete_job(job: Manifest, scheduler_name: str = OURS) -> None:
    """Fills in a whole Job. `scheduler_name` is that of who serves here."""
    complete_spec(job.setdefault("spec", {}), scheduler_name)


def complete_spec(spec: Manifest, scheduler_name: str = OURS) -> None:
    """Fills in the spec of a Job, also where it is a template of Jobs."""
    spec["queue"] = spec.get("queue") or DEFAULT
    spec["schedulerName"] = spec.get("schedulerName") or scheduler_name
    spec["maxRetry"] = spec.get("maxRetry") or DEFAULT_MAX_RETRY
    tasks = spec.get("tasks") or []
    for index, task in enumerate(tasks):
        _complete_task(task, index)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(task["minAvailable"] for task in tasks)
    plugins = spec.get("plugins")
    if plugins:
        for needed in [it for name in plugins for it in NEEDS.get(name, ())]:
            plugins.setdefault(needed, [])


def _complete_task(task: Manifest, index: int) -> None:
    task["name"] = task.get("name") or f"{DEFAULT_TASK}{index}"
    task["maxRetry"] = task.get("maxRetry") or DEFAULT_MAX_RETRY
    spec = (task.get("template") or {}).get("spec") or {}
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = _HOST_DNS
    if task.get("minAvailable") is None:
        partitions = task.get("partitionPolicy") or {}
        whole = (partitions.get("minPartitions") or 0) * (partitions.get("partitionSize") or 0)
        replicas = task.get("replicas") or 0
        # Never more than there are: what is wrong is then told of what somebody wrote, not of what was filled in.
        task["minAvailable"] = min(whole, replicas) or replicas
