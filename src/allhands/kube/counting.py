"""Counts requests to the API server under the names that client-go has for them: by the code of the answer, the method
and the host. Streams are counted when their head has come, or when none will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yarl import URL

if TYPE_CHECKING:
    from allhands.ports import Metrics

FAILED: Final = "<error>"
"""No answer came."""


MOST_HELD: Final = 512
"""So many requests are counted together at most: there may be a thousand a second."""


class RequestCounter:
    """Those to one server, by one client that calls itself `component`. What is counted shows when somebody reads, and
    when the client is closed."""

    __slots__ = ("_codes", "_held", "_host", "_metrics", "_seconds")

    def __init__(self, metrics: Metrics, server: str, component: str) -> None:
        self._metrics = metrics
        self._host = URL(server, encoded=True).authority
        self._codes: dict[tuple[str, str], int] = {}
        """Method and code -> how often."""
        self._seconds: dict[str, list[float]] = {}
        """Method -> how long each took."""
        self._held = 0
        metrics.refresh_with(f"requests of {component} to {server}", self.show)

    def count(self, method: str, code: str, seconds: float) -> None:
        key = (method, code)
        self._codes[key] = self._codes.get(key, 0) + 1
        taken = self._seconds.get(method)
        if taken is None:
            self._seconds[method] = [seconds]
        else:
            taken.append(seconds)
        self._held += 1
        if self._held >= MOST_HELD:
            self.show()

    def show(self) -> None:
        """What was counted since the last time."""
        codes, seconds, self._codes, self._seconds, self._held = self._codes, self._seconds, {}, {}, 0
        for (method, code), times in codes.items():
            self._metrics.count("rest_client_requests_total", times, code=code, method=method, host=self._host)
        for method, taken in seconds.items():
            self._metrics.observe_all("rest_client_request_duration_seconds", taken, verb=method, host=self._host)
