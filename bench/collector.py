"""The garbage collector's settings, which decide much of what writing costs: Python's own, and those of a server.

A growing heap of long-lived objects is scanned again and again by the default settings. *Tuned* is what a long-running
process does: everything that exists at start is frozen, and collections are rarer.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Literal, get_args

from allhands.compose.machine import COLLECTOR_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Iterator

Setting = Literal["default", "tuned"]
SETTINGS: tuple[Setting, ...] = get_args(Setting)
DEFAULT_THRESHOLDS = gc.get_threshold()


def described() -> str:
    tuned = f"gc.freeze() and gc.set_threshold{COLLECTOR_THRESHOLDS}"
    return f"GC default = gc.set_threshold{DEFAULT_THRESHOLDS}; tuned = {tuned}"


@contextlib.contextmanager
def collecting(setting: Setting) -> Iterator[None]:
    """A clean heap and the named setting inside the block, what was before after it."""
    before = gc.get_threshold()
    gc.collect()
    if setting == "tuned":
        gc.freeze()
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
    else:
        gc.set_threshold(*DEFAULT_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        gc.collect()
