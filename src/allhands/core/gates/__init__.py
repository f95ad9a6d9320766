"""Gate plugins, one file each: who may start at all now. A line here for each, a row in docs/plugins.md.

A gate judges by the snapshot alone; a limit also counts what starts in the same cycle.
"""

from __future__ import annotations

from typing import Final

from allhands.core.gates.beforepromised import BeforePromised
from allhands.core.gates.inorder import InOrder
from allhands.core.gates.maxrunning import MaxRunning
from allhands.core.gates.minpriority import MinPriority
from allhands.core.gates.overcommit import Overcommit

GATES: Final = {"minpriority": MinPriority, "beforepromised": BeforePromised}
"""Every gate plugin by its registered name."""

LIMITS: Final = {"maxrunning": MaxRunning, "overcommit": Overcommit, "inorder": InOrder}
"""Every limit on what runs at a time."""
