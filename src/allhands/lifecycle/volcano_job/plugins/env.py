"""Tells every container which pod of its task it is in: `VC_TASK_INDEX`, and `VK_TASK_INDEX` by its old name.

As in Volcano. It takes no flags; there they are passed over in silence, here they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.lifecycle.volcano_job.plugins.additions import add_variables, variables
from allhands.lifecycle.volcano_job.plugins.plain import PlainPlugin

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument


class Env(PlainPlugin, frozen=True):
    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:  # noqa: ARG002
        add_variables(pod, variables(VK_TASK_INDEX=str(index), VC_TASK_INDEX=str(index)))
