"""Since when something is so that no object says the time of, for the time-outs of policies: kept on the PodGroup.

So a time-out goes on wherever a controller was stopped, and ends with the group when the whole is restarted. Only what
a policy with a time-out asks for is noted; what cannot be read is no note. It never asks what time it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.lifecycle.instructions import Patch
from allhands.lifecycle.volcano_job.names import CLOCKS, JOB_VERSION, POD_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.lifecycle.volcano_job.pod_group import PodGroup

MOST_CLOCKS: Final = 1000
"""An annotation has its limits. Who comes after these begins anew with every look until there is room."""


class Clocks:
    """Those of one look. What is not asked for in it is not so any more."""

    def __init__(self, noted: Mapping[str, float] | None = None) -> None:
        self._noted = dict(noted or {})
        self._still: dict[str, float] = {}

    def __contains__(self, what: str) -> bool:
        return what in self._noted

    def below(self, what: str) -> Iterator[str]:
        """What is noted as a part of something: what follows its name."""
        beginning = f"{what}/"
        for name in self._noted:
            if name.startswith(beginning):
                yield name.removeprefix(beginning)

    def since(self, what: str, otherwise_seconds: float) -> float:
        """Since when it is so: as noted, or else as said, which is noted from now on."""
        found = self._noted.get(what, round(otherwise_seconds, 3))
        if what in self._noted or len(self._still) < MOST_CLOCKS:
            self._still[what] = found
        return found

    def forget(self, what: str) -> None:
        self._still.pop(what, None)

    def patch(self, group: PodGroup) -> Patch | None:
        """What the group has to be told; None if it says all."""
        if self._still == self._noted:
            return None
        text = msgspec.json.encode(dict(sorted(self._still.items()))).decode() if self._still else None
        patch = {"metadata": {"uid": group.metadata.uid, "annotations": {CLOCKS: text}}}
        return Patch(POD_GROUPS, group.metadata.namespace, group.metadata.name, patch)


def clocks_of(group: PodGroup | None, version: int) -> Clocks:
    """As noted. A group from before a restart says nothing about what is now."""
    if group is None or (group.metadata.annotation(JOB_VERSION) or str(version)) != str(version):
        return Clocks()
    try:
        noted = msgspec.json.decode(group.metadata.annotation(CLOCKS) or "{}", type=dict[str, float])
    except msgspec.DecodeError:
        return Clocks()
    return Clocks({what: since for what, since in noted.items() if math.isfinite(since)})
