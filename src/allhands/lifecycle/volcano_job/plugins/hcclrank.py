"""The annotation `hccl/rankIndex`, by which Ascend's collective library numbers the pods.

As in Volcano: the user's own annotation stands, then the RANK of its containers, whoever gave it; else masters first,
then workers. It comes after the plugin that gives RANK; upstream runs plugins in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from allhands.lifecycle.volcano_job.plugins.additions import annotate
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin
from allhands.lifecycle.volcano_job.plugins.ranks import ranks_of

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument

ANNOTATION: Final = "hccl/rankIndex"


class Hcclrank(PlainPlugin, frozen=True, kw_only=True, rename="kebab"):
    master: Annotated[str, Meta(description="The task whose pods are the first.")] = "master"
    worker: Annotated[str, Meta(description="The task whose pods follow.")] = "worker"

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        rank = _given(pod)
        if not rank:
            ranks = ranks_of(job, self.master, self.worker)
            number = ranks.of(task.name, index) if ranks is not None else None
            rank = "" if number is None else str(number)
        if rank:
            annotate(pod, ANNOTATION, rank)


def _given(pod: Manifest) -> str:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == "RANK":
                return str(variable.get("value") or "")
    return ""
