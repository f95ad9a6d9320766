"""Requests to an API server are counted by code, method and host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.kube.kubeconfig import load
from allhands.kube.objects import KubeObjects, Settings
from allhands.kube.retrying import IMPATIENT
from allhands.runtime.metrics import MetricsRegistry
from tests.embedded import EmbeddedInThread
from tests.manifests import CONFIG_MAPS, config_map

if TYPE_CHECKING:
    from pathlib import Path


async def test_requests_watches_refusals_and_failures_are_counted(tmp_path: Path) -> None:
    metrics = MetricsRegistry()
    with EmbeddedInThread(tmp_path) as cluster:
        access = load(cluster.kubeconfig)
        host = cluster.url.removeprefix("https://")
        async with KubeObjects(access, metrics) as objects:
            await objects.create(CONFIG_MAPS, config_map("one"), "default")
            await objects.list(CONFIG_MAPS)
            watch = await objects.watch(CONFIG_MAPS)
            await watch.close()
            with pytest.raises(StatusError):
                await objects.get(CONFIG_MAPS, "none", "default")
    async with KubeObjects(access, metrics, settings=Settings(patience=IMPATIENT)) as objects:
        with pytest.raises(StatusError):
            await objects.get(CONFIG_MAPS, "one", "default")

    metrics.refresh()

    def counted(code: str, method: str) -> float:
        return metrics.value("rest_client_requests_total", code=code, method=method, host=host)

    assert counted("201", "POST") == 1
    assert counted("200", "GET") == 2
    assert counted("404", "GET") == 1
    assert counted("<error>", "GET") == 1
    assert metrics.value("rest_client_request_duration_seconds", verb="GET", host=host) == 4
