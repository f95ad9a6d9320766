"""Guard plugins, one file each: who must not be evicted for another. A line here for each, a row in docs/plugins.md.

A victim needs the consent of every guard of the policy. A guard protects; it never chooses victims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.guards.conformance import Conformance
from allhands.core.guards.disruptionbudget import DisruptionBudgets
from allhands.core.guards.minruntime import MinimumRunTime
from allhands.core.guards.preemptible import Preemptible

if TYPE_CHECKING:
    from allhands.core.extension import VictimGuard

GUARDS: Final = {
    "conformance": Conformance,
    "disruptionbudget": DisruptionBudgets,
    "minruntime": MinimumRunTime,
    "preemptible": Preemptible,
}
"""Every guard plugin by its registered name."""

DEFAULT_GUARDS: Final[tuple[VictimGuard, ...]] = (
    Conformance(),
    Preemptible(),
    MinimumRunTime(),
    DisruptionBudgets(),
)
"""Who is asked where a configuration says nothing."""
