"""The shell of Numatopologies: each is told once that it is not used. Where the kind has no status nothing is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.controllers.watching import decoder
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.numatopology import NumatopologyDocument, reconcile
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

NOT_FOUND: Final = 404


class NumatopologyController:
    name: Final = "numatopology"

    def __init__(self, objects: Objects) -> None:
        self._topologies: Informer[NumatopologyDocument] = Informer(
            objects, NUMATOPOLOGY.resource, decoder(NumatopologyDocument), optional=True
        )
        self._has_no_status = False

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._topologies,)

    def wire(self, queue: WorkQueue) -> None:
        self._topologies.on_change(lambda key, _old, _new: queue.add(key))

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """Volcano's own definition has no status: it is not asked for again and again."""
        if refusal is not None and refusal.code == NOT_FOUND and key in self._topologies:
            self._has_no_status = True

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        topology = self._topologies.get(key)
        return NOTHING_TO_DO if topology is None or self._has_no_status else reconcile(topology, now_seconds)
