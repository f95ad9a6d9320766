"""What texts were read as, so that equal ones are not read again. Bounded by count and by bytes; what was not asked for
longest goes first, half of all at a time. It holds results of pure functions only: with or without it all is the same.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

MOST_MET: Final = 1 << 15
T = TypeVar("T")


class TextMemory(Generic[T]):
    """What is remembered of a text is about as large as the text, so only texts are counted."""

    __slots__ = ("_bytes", "_late", "_late_bytes", "_met", "_met_late", "_most", "_most_bytes", "_recent")

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most // 2
        self._most_bytes = most_bytes // 2
        self._recent: dict[bytes, T] = {}
        self._late: dict[bytes, T] = {}
        self._bytes = self._late_bytes = 0
        self._met: set[int] = set()
        self._met_late: set[int] = set()
        """Texts that were asked about once, by their hash: a mistake only means that one is remembered sooner."""

    def __len__(self) -> int:
        return len(self._recent) + len(self._late)

    @property
    def held_bytes(self) -> int:
        """At most, since of the late ones some may have become recent again."""
        return self._bytes + self._late_bytes

    def get(self, text: bytes) -> T | None:
        found = self._recent.get(text)
        if found is None and (found := self._late.pop(text, None)) is not None:
            self.put(text, found)
        return found

    def is_new(self, text: bytes) -> bool:
        """Whether it is asked about for the first time. Most of what comes once never comes again, and is not worth
        remembering: where all texts are different, that would cost more than it ever saves."""
        mark = hash(text)
        if mark in self._met or mark in self._met_late:
            return False
        if len(self._met) >= MOST_MET:
            self._met, self._met_late = set(), self._met
        self._met.add(mark)
        return True

    def put(self, text: bytes, value: T) -> None:
        size = len(text)
        if size > self._most_bytes or not self._most:
            return
        if text in self._recent:
            self._recent[text] = value
            return
        if len(self._recent) >= self._most or self._bytes + size > self._most_bytes:
            self._late, self._late_bytes = self._recent, self._bytes
            self._recent, self._bytes = {}, 0
        self._recent[text] = value
        self._bytes += size
