"""What a work queue counts, under the names that client-go's queues have. Times are those of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sized

    from allhands.ports import Metrics


class QueueMeasures:
    def __init__(self, metrics: Metrics, name: str, queue: Sized) -> None:
        self._metrics = metrics
        self._name = name
        self._added_at: dict[str, float] = {}
        self._taken_at: dict[str, float] = {}
        metrics.refresh_with(f"workqueue {name}", lambda: metrics.set("workqueue_depth", len(queue), name=name))

    def added(self, key: str) -> None:
        self._added_at[key] = asyncio.get_running_loop().time()
        self._metrics.count("workqueue_adds_total", name=self._name)

    def taken(self, key: str) -> None:
        now = self._taken_at[key] = asyncio.get_running_loop().time()
        waited = now - self._added_at.pop(key, now)
        self._metrics.observe("workqueue_queue_duration_seconds", waited, name=self._name)

    def done(self, key: str) -> None:
        now = asyncio.get_running_loop().time()
        took = now - self._taken_at.pop(key, now)
        self._metrics.observe("workqueue_work_duration_seconds", took, name=self._name)

    def retried(self) -> None:
        self._metrics.count("workqueue_retries_total", name=self._name)
