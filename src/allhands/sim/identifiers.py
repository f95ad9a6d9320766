"""Identifiers of a simulation: the same seed gives the same names, in the same order."""

from __future__ import annotations

import random

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class SeededIds:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"ids {seed}")  # noqa: S311 (a name, not a secret)

    def uid(self) -> str:
        text = f"{self._random.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def suffix(self) -> str:
        return "".join(self._random.choices(_ALPHABET, k=5))
