"""What a process on a real machine fills the ports with: its clock and its randomness."""

from __future__ import annotations

import datetime
import gc
import os
import random

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no digits that look like them: generated names must not spell words."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class RandomIds:
    """Identifiers from the system's randomness, whatever anybody does to the shared generator."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 (a name, not a secret)

    def uid(self) -> str:
        text = os.urandom(16).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def suffix(self) -> str:
        return "".join(self._random.choices(NAME_ALPHABET, k=5))


def spare_the_collector() -> None:
    """Tells the garbage collector that what is loaded stays, and to look at the rest less often. A cluster is a large
    heap of values that live long; with the defaults, most of the time of a large one goes into walking them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
