"""The other side of the writes: the real kube-apiserver over HTTPS, asked by the cheapest client that aiohttp allows.

The client is thinner than our own `KubeObjects` and opens its connections before the clock starts, in the real server's
favour. The processor time of the server is read too: on a small machine client and server share the cores, and a reader
should know how fast the server could be with a client that costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from allhands.kube.objects import path_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

    from allhands.api.kinds import Resource
    from tests.controlplane import ControlPlane

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SERVERS = ("kube-apiserver", "etcd")


class Request(msgspec.Struct, frozen=True):
    """One write, ready to be sent."""

    method: str
    path: str
    body: bytes


class Run(msgspec.Struct, frozen=True):
    """A batch of writes: how long, what it cost, what came back."""

    seconds: float
    server_cpu_seconds: float
    answers: list[bytes]

    @property
    def rate(self) -> float:
        return len(self.answers) / self.seconds

    @property
    def server_bound(self) -> float:
        """The rate if client and network cost nothing and the server kept every core busy."""
        cores = os.cpu_count() or 1
        return cores * len(self.answers) / self.server_cpu_seconds


class RealServer:
    """A client with a given number of connections. Use as an async context manager."""

    def __init__(self, plane: ControlPlane, connections: int) -> None:
        self._plane = plane
        self._connections = connections

    async def __aenter__(self) -> Self:
        trust = ssl.create_default_context(cafile=str(self._plane.ca_file))
        headers = {"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=trust)
        self._session = aiohttp.ClientSession(self._plane.url, connector=connector, headers=headers)
        await asyncio.gather(*(self._connect() for _ in range(self._connections)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def _connect(self) -> None:
        async with self._session.get("/readyz") as answer:
            await answer.read()

    async def send(self, request: Request) -> tuple[int, bytes]:
        async with self._session.request(request.method, request.path, data=request.body) as answer:
            return answer.status, await answer.read()

    async def create(self, resource: Resource, manifest: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        """One object outside of any measurement."""
        status, raw = await self.send(Request("POST", path_to(resource, namespace), msgspec.json.encode(manifest)))
        if status != 201:
            raise RuntimeError(f"the real API server refused: {raw.decode()}")
        return msgspec.json.decode(raw)  # type: ignore[no-any-return]

    async def run(self, requests: Sequence[Request]) -> Run:
        """Sends everything over all connections; a refusal ends the benchmark."""
        answers: list[bytes] = [b""] * len(requests)
        pending = iter(enumerate(requests))
        server_before = self._server_cpu_seconds()
        began = time.perf_counter()
        await asyncio.gather(*(self._work(pending, answers) for _ in range(self._connections)))
        seconds = time.perf_counter() - began
        return Run(seconds, self._server_cpu_seconds() - server_before, answers)

    async def _work(self, pending: Iterator[tuple[int, Request]], answers: list[bytes]) -> None:
        for number, request in pending:
            status, raw = await self.send(request)
            if status >= 400:
                raise RuntimeError(f"the real API server refused: {raw.decode()}")
            answers[number] = raw

    def _server_cpu_seconds(self) -> float:
        return sum(cpu_seconds(self._plane.services[name].pid) for name in _SERVERS)


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of a process, from the kernel's accounts."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / _TICKS_PER_SECOND
