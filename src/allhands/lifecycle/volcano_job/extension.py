"""What a job plugin may be: it adds to the pods of a Job what they need to find each other, and says what else must be
there before the first pod.

A plugin is pure. It never deletes, never overrides what a user wrote in the template (the user's own variable, mount or
command stands), and gets what it cannot make itself, such as keys, passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.kinds import Resource
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument


class KeyPair(NamedTuple):
    """An ed25519 pair in OpenSSH's own text."""

    private: str
    public: str


class Companion(NamedTuple):
    """An object beside the pods, owned by the Job. `keeps_up`: what it says follows the Job when it is scaled; the
    others are made once and left alone."""

    resource: Resource
    manifest: Manifest
    keeps_up: bool = False


class JobPlugin(Protocol):
    """One for each Job that names it, made from the flags that the Job gives it."""

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        """Why it cannot serve this Job: unknown flags, a task that it needs. `path` is that of its flags."""
        ...

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:
        """What must be there before the first pod. `new_keys` is asked only by who needs it."""
        ...

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        """Completes, in place, the manifest of the pod that is number `index` of the task."""
        ...
