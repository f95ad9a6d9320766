"""A whole cluster in this process, with its HTTP face on loopback: API, scheduler, controllers and node agents."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import secrets
from typing import TYPE_CHECKING

import msgspec

from allhands.compose.admission import WEBHOOKS
from allhands.compose.machine import RandomIds, SystemClock
from allhands.compose.nodes import NodeSize, add_node, node_manifests
from allhands.compose.system import System
from allhands.runtime.keeper import Keeper
from allhands.runtime.metrics import MetricsRegistry
from allhands.server.app import build_app
from allhands.server.kubeconfig import write_kubeconfig
from allhands.server.process_metrics import measure_process
from allhands.server.serve import serving
from allhands.server.tls import server_tls, write_private
from allhands.store import InProcessObjects, Store
from allhands.store.admission import NO_WEBHOOKS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from allhands.compose.system import SystemOptions
    from allhands.ports import Clock, Objects
    from allhands.server.tls import ServerTls

NODES_PER_TURN = 100


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster."""

    store: Store
    objects: Objects
    url: str
    token: str
    kubeconfig: Path
    ca_file: Path


@contextlib.contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Holds the data folder: a second cluster in it would take over the first one's kubeconfig."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EWOULDBLOCK, "another cluster is running with this folder", str(path)) from None
        yield


@contextlib.asynccontextmanager
async def embedded(
    folder: Path,
    *,
    nodes: int = 0,
    size: NodeSize | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    system: SystemOptions | None = None,
) -> AsyncIterator[EmbeddedCluster]:
    """A whole cluster in this process, until the block ends. `folder` keeps its certificates, token and kubeconfig.

    Without a `system` it is the API alone: nothing schedules, runs or tidies up.
    """
    with _owned(folder):
        async with _running(folder, nodes, size or NodeSize(), host, port, system) as cluster:
            yield cluster


@contextlib.asynccontextmanager
async def _running(
    folder: Path, nodes: int, size: NodeSize, host: str, port: int, system: SystemOptions | None
) -> AsyncIterator[EmbeddedCluster]:
    clock = SystemClock()
    store = Store(clock, RandomIds(), webhooks=NO_WEBHOOKS if system is None else WEBHOOKS)
    objects = InProcessObjects(store)
    for number, manifest in enumerate(node_manifests(nodes, size, store.now())):
        await add_node(objects, manifest)
        if number % NODES_PER_TURN == 0:
            await asyncio.sleep(0)  # whoever wants to end it meanwhile can
    tls, token = _secrets(folder, host, clock)
    metrics = MetricsRegistry()
    measure_process(metrics)
    keeper = Keeper(metrics)
    keeper.declare("housekeeping")
    whole = None if system is None else System(objects, clock, system, metrics, keeper)
    app = build_app(
        objects,
        store.kinds,
        token=token,
        clock=clock,
        logs=None if whole is None else whole.logs,
        metrics=metrics.text,
        ready=keeper.checks,
    )
    tasks = [asyncio.create_task(keeper.keep("housekeeping", store.housekeeper.run), name="housekeeping")]
    if whole is not None:
        tasks.append(asyncio.create_task(whole.run(), name="system"))
    try:
        async with serving(app, host, port, tls) as address:
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, address.url, tls.authority_pem(), token)
            yield EmbeddedCluster(store, objects, address.url, token, kubeconfig, tls.authority)
    finally:
        for task in reversed(tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _secrets(folder: Path, host: str, clock: Clock) -> tuple[ServerTls, str]:
    """The certificates and the token of the data folder."""
    return server_tls(folder / "pki", clock, (host,)), _token(folder / "token")


def _token(path: Path) -> str:
    """The bearer token of the data folder, made when it is first needed or if no header could carry the one there."""
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        kept = path.read_text(encoding="ascii").strip()
        if kept and kept.isprintable() and " " not in kept:
            return kept
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token
