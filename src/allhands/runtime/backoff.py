"""How long to wait before the next try: doubling, up to a limit. No chance in it, so that simulations repeat."""

from __future__ import annotations


class Backoff:
    def __init__(self, first_seconds: float = 0.05, most_seconds: float = 30.0) -> None:
        self._first = first_seconds
        self._most = most_seconds
        self._next = first_seconds

    def next_seconds(self) -> float:
        now, self._next = self._next, min(self._most, self._next * 2)
        return now

    def reset(self) -> None:
        self._next = self._first
