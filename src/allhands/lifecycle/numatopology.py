"""What becomes of a Numatopology: it is kept and shown, and a condition says that nothing is placed by it yet.

Written once; nothing else of it is anybody's business here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.lifecycle.changes import judged_conditions, time_text
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch
from allhands.lifecycle.observed import Metadata

UNUSED: Final = {
    "type": "Used",
    "status": "False",
    "reason": "NotSupported",
    "message": "It is kept and shown. Pods are placed without looking at it.",
}


class NumatopologyDocument(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    status: Any = None


def reconcile(topology: NumatopologyDocument, now_seconds: float) -> Outcome:
    """Agents write it anew all the time: of which generation it was said does not matter."""
    written = topology.status.get("conditions") if isinstance(topology.status, dict) else None
    conditions = judged_conditions(written, UNUSED, 0, time_text(now_seconds))
    if topology.metadata.is_going or conditions is None:
        return NOTHING_TO_DO
    patch = {"status": {"conditions": conditions}}
    return Outcome((Patch(NUMATOPOLOGY.resource, "", topology.metadata.name, patch, subresource="status"),))
