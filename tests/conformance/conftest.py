"""The two servers that are compared: the real one and the embedded one."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from allhands.compose import EmbeddedCluster, embedded
from tests.conformance.client import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.controlplane import ControlPlane

START_SECONDS = 20


class EmbeddedInThread:
    """An embedded cluster with an event loop of its own, beside tests that are not asynchronous."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="embedded cluster", daemon=True)
        self.cluster: EmbeddedCluster | None = None

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with embedded(self._folder) as self.cluster:
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> EmbeddedCluster:
        self._thread.start()
        assert self._ready.wait(START_SECONDS), "the embedded cluster did not start"
        assert self.cluster is not None
        return self.cluster

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive(), "the embedded cluster did not stop"


@pytest.fixture(scope="session")
def real(control_plane: ControlPlane) -> Server:
    return Server("real", control_plane.url, control_plane.token, str(control_plane.ca_file))


@pytest.fixture(scope="session")
def embedded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedInThread(tmp_path_factory.mktemp("embedded")) as cluster:
        yield cluster


@pytest.fixture(scope="session", name="embedded")
def embedded_server(embedded_cluster: EmbeddedCluster) -> Server:
    return Server("embedded", embedded_cluster.url, embedded_cluster.token, str(embedded_cluster.ca_file))
