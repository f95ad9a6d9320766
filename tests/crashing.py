"""A history that is run again and again, with a crash at an ever later write, until there is no such write any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.sim.faults import CrashAt

if TYPE_CHECKING:
    from collections.abc import Callable


def crashed_at_every(step: int, run: Callable[[CrashAt], bool]) -> int:
    """`run` says whether it came to the crash, which is before and after the write took effect by turns. The number of
    the first write that was never made."""
    write = 1
    while run(CrashAt(write, takes_effect=write % 2 == 0)):
        write += step
    return write
