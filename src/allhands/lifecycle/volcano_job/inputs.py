"""What the machine of a Volcano Job is told at each look: what is there beside the Job, and what it cannot make itself.

Values only; the shell gathers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from allhands.lifecycle.command import CommandDocument
    from allhands.lifecycle.volcano_job.extension import JobPlugin, KeyPair
    from allhands.lifecycle.volcano_job.pod import TaskPod
    from allhands.lifecycle.volcano_job.pod_group import PodGroup


class Observed(NamedTuple):
    """What is there beside the Job. `evicted`: names of pods that were seen to be taken away by somebody else.
    `refused`: what the server said to the last attempt, if it said no. `is_settled`: whether what is not seen is sure
    not to be there; just after a start it may only be late."""

    pods: Sequence[TaskPod] = ()
    group: PodGroup | None = None
    commands: Sequence[CommandDocument] = ()
    evicted: Collection[str] = ()
    refused: str = ""
    is_settled: bool = True


class Equipment(NamedTuple):
    """What the machine cannot make itself. `scheduler`: who places pods of Jobs that do not say so."""

    plugins: tuple[JobPlugin, ...] = ()
    new_keys: Callable[[], KeyPair] | None = None
    scheduler: str = ""
