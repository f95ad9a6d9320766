"""What a work queue counts is what client-go's queues count."""

from __future__ import annotations

import asyncio

from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.workqueue import WorkQueue
from tests.virtual import on_virtual_time


@on_virtual_time
async def test_adds_retries_depth_and_times_are_counted_by_name() -> None:
    metrics = MetricsRegistry()
    queue = WorkQueue("job", metrics)
    for key in ("a", "b", "a"):
        queue.add(key)
    metrics.refresh()
    assert metrics.value("workqueue_depth", name="job") == 2
    assert metrics.value("workqueue_adds_total", name="job") == 2, "one that waits already is not added again"
    await asyncio.sleep(3)
    key = await queue.take()
    await asyncio.sleep(2)
    queue.retry(key)
    queue.done(key)
    text = metrics.text()
    assert 'workqueue_queue_duration_seconds_sum{name="job"} 3' in text
    assert 'workqueue_work_duration_seconds_sum{name="job"} 2' in text
    assert metrics.value("workqueue_retries_total", name="job") == 1
    assert metrics.value("workqueue_depth", name="job") == 1
    await asyncio.sleep(1)
    metrics.refresh()
    assert metrics.value("workqueue_depth", name="job") == 2, "its pause is over"
