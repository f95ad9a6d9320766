"""What a Job says about its tasks: their names, how many pods each has and needs, and who waits for whom.

Answers about the spec alone: where its fields leave something out, they say what that means. It looks at no pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.api.volcano.job import Iteration

if TYPE_CHECKING:
    from allhands.api.volcano.job import JobSpec, TaskSpec


class Task(msgspec.Struct, frozen=True):
    """One task. `minimum`: so many of its pods start together. `after`: the tasks that it waits for."""

    name: str
    spec: TaskSpec
    replicas: int
    minimum: int
    after: tuple[str, ...] = ()
    after_any: bool = False

    @property
    def partition_size(self) -> int:
        """0 if it has no partitions."""
        policy = self.spec.partition_policy
        return 0 if policy is None else policy.partition_size

    def partition_of(self, index: int) -> int:
        return index // self.partition_size if self.partition_size else 0


class Tasks:
    """All tasks of a Job, in their order."""

    def __init__(self, spec: JobSpec) -> None:
        self.all = tuple(_task(number, it) for number, it in enumerate(spec.tasks or ()))
        self.by_name = {it.name: it for it in self.all}
        self.replicas = sum(it.replicas for it in self.all)
        self.minimums = sum(it.minimum for it in self.all)
        """What the tasks need, all together."""
        self.minimum = min(spec.min_available or self.minimums, self.replicas)
        """What the Job needs."""

    @property
    def first(self) -> tuple[Task, ...]:
        """Those that wait for no other."""
        return tuple(it for it in self.all if not it.after)

    @property
    def later(self) -> tuple[Task, ...]:
        return tuple(it for it in self.all if it.after)

    @property
    def first_minimum(self) -> int:
        """How many pods must start together before anything else can."""
        return min(self.minimum, sum(it.minimum for it in self.first)) if self.later else self.minimum


def _task(number: int, spec: TaskSpec) -> Task:
    depends = spec.depends_on
    after = () if depends is None else depends.name or ()
    return Task(
        spec.name or f"default{number}",
        spec,
        spec.replicas,
        min(_minimum(spec), spec.replicas),
        after,
        # As in Volcano, one name alone is waited for whatever is said.
        after_any=len(after) > 1 and depends is not None and depends.iteration is Iteration.ANY,
    )


def _minimum(spec: TaskSpec) -> int:
    if spec.min_available is not None:
        return spec.min_available
    policy = spec.partition_policy
    if policy is not None and policy.min_partitions and policy.partition_size:
        return policy.min_partitions * policy.partition_size
    return spec.replicas
