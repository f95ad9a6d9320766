"""What a process on a real machine fills the ports with: its clock and its randomness."""

from __future__ import annotations

import datetime
import gc
import os
import random

from allhands.model.identifiers import NAME_ALPHABET, SUFFIX_LENGTH, uid_text

COLLECTOR_THRESHOLDS = (50_000, 20, 100)


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class RandomIds:
    """Identifiers from the system's randomness, whatever anybody does to the shared generator."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 (a name, not a secret)

    def uid(self) -> str:
        return uid_text(int.from_bytes(os.urandom(16), "big"))

    def suffix(self) -> str:
        return "".join(self._random.choices(NAME_ALPHABET, k=SUFFIX_LENGTH))


def spare_the_collector() -> None:
    """Tells the garbage collector that what is loaded stays, and to look at the rest less often. A cluster is a large
    heap of values that live long; with the defaults, most of the time of a large one goes into walking them."""
    collect_seldom()
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """While a large heap is being loaded: nearly all of it stays."""
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
