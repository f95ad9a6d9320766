"""A Job's PodGroup as its machine reads it. Only reading: nothing here decides.

Somebody else may have written its status: what is not of the expected type must never spoil the Job.
"""

from typing import Any, Final

import msgspec

from allhands.lifecycle.observed import Metadata

SHUT: Final = ("", "Pending")
"""The phases in which no pods may be made."""


class PodGroup(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: dict[str, Any] = {}
    status: Any = None

    @property
    def phase(self) -> str:
        phase = self.status.get("phase") if isinstance(self.status, dict) else None
        return phase if isinstance(phase, str) else ""

    @property
    def is_open(self) -> bool:
        """Whether pods may be made."""
        return self.phase not in SHUT

    @property
    def waits(self) -> tuple[str, str]:
        """Why it waits: a word and a sentence; empty if nobody says so."""
        conditions = self.status.get("conditions") if isinstance(self.status, dict) else None
        for it in conditions if isinstance(conditions, list) else ():
            if isinstance(it, dict) and it.get("type") == "Unschedulable" and it.get("status") == "True":
                return str(it.get("reason") or ""), str(it.get("message") or "")
        return "", ""


decode_group: Final = msgspec.json.Decoder(PodGroup).decode
