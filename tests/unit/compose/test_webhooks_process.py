"""The webhooks as a process: what plugins say, and how it becomes ready beside a cluster that has no installation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from allhands.compose.admission import errors_of_plugins
from allhands.compose.process import ProcessOptions
from allhands.compose.webhooks import WebhookOptions, run_webhooks
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from tests.embedded import EmbeddedInThread
from tests.webhook_cluster import SECRETS, job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from allhands.server.listening import Address


def test_what_the_plugins_of_a_job_have_against_it_is_told_with_its_path() -> None:
    assert errors_of_plugins(job(plugins={"env": [], "svc": []})) == []
    (error,) = errors_of_plugins(job(plugins={"svc": ["--nonsense=1"]}))
    assert error.path.startswith("spec.plugins[svc]")
    assert errors_of_plugins({"spec": {"tasks": "many"}}) == [], "its schema says so"


async def test_beside_a_cluster_without_an_installation_it_has_keys_and_says_that_nobody_asks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedInThread(tmp_path) as cluster:
        access = kubeconfig.load(cluster.kubeconfig)
        listening: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
        options = ProcessOptions(lease_namespace="default")
        working = asyncio.create_task(run_webhooks(access, options, WebhookOptions(), listening.set_result))
        try:
            async with asyncio.timeout(60), KubeObjects(access) as objects:
                address = await listening
                assert address.secure
                assert (await objects.get(SECRETS, "allhands-webhooks", "default")).manifest()["data"].keys() >= {
                    "tls.crt",
                    "tls.key",
                    "ca.crt",
                }
                await until(lambda: "nobody asks us" in caplog.text)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come to be")
