"""A scripted server, in the clear and by TLS, and a client of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.certificates import server_tls
from tests.unit.kube.scripted_client import AUTHORITY, IN_TIME, opened
from tests.unit.kube.scripted_server import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.kube.objects import KubeObjects


@pytest.fixture
async def in_time() -> AsyncIterator[None]:
    async with asyncio.timeout(IN_TIME):
        yield


@pytest.fixture(params=["http", "https"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedServer]:
    tls = server_tls(AUTHORITY, "127.0.0.1") if request.param == "https" else None
    async with ScriptedServer(tls=tls) as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[KubeObjects]:
    async with opened(server.url) as client:
        yield client
