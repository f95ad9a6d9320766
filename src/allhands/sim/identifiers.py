"""Identifiers of a simulation: the same seed gives the same names, in the same order."""

from __future__ import annotations

import random

from allhands.model.identifiers import NAME_ALPHABET, SUFFIX_LENGTH, uid_text


class SeededIds:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"ids {seed}")  # noqa: S311 (a name, not a secret)

    def uid(self) -> str:
        return uid_text(self._random.getrandbits(128))

    def suffix(self) -> str:
        return "".join(self._random.choices(NAME_ALPHABET, k=SUFFIX_LENGTH))
