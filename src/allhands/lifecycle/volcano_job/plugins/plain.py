"""What every plugin begins from: one that does nothing. Its fields, in those who have any, are its flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job.documents import JobDocument
    from allhands.lifecycle.volcano_job.extension import Companion, KeyPair


class PlainPlugin(msgspec.Struct, frozen=True, kw_only=True):
    def needs(self) -> tuple[str, ...]:
        """Plugins without which it is of no use; the Job gets them, too."""
        return ()

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:  # noqa: ARG002 (of those that look)
        return []

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:  # noqa: ARG002
        return ()

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        pass
