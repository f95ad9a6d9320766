"""The only file that knows everyone: it puts the parts together and hands out something that runs.

`embedded` is a whole cluster in this process, with its HTTP face on loopback. Real and simulated compositions follow
the same pattern: ports are filled here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import fcntl
import gc
import os
import random
import secrets
from typing import TYPE_CHECKING

import msgspec

from allhands.api.kinds import Resource
from allhands.api.schema.definitions import SCHEMA_VERSION
from allhands.server.app import build_app
from allhands.server.kubeconfig import write_kubeconfig
from allhands.server.serve import serving
from allhands.server.tls import server_tls, write_private
from allhands.store import InProcessObjects, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.ports import Clock, Objects
    from allhands.server.tls import ServerTls

NODES = Resource("", "v1", "nodes")
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no digits that look like them: generated names must not spell words."""
PODS_PER_NODE = 110
NODES_PER_TURN = 100
_NODE_INFO = {
    "kubeletVersion": f"{SCHEMA_VERSION}-allhands",
    "operatingSystem": "linux",
    "architecture": "amd64",
    "osImage": "embedded",
    "containerRuntimeVersion": "none",
}


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class RandomIds:
    """Identifiers from the system's randomness, whatever anybody does to the shared generator."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 (a name, not a secret)

    def uid(self) -> str:
        text = os.urandom(16).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def suffix(self) -> str:
        return "".join(self._random.choices(NAME_ALPHABET, k=5))


class NodeSize(msgspec.Struct, frozen=True):
    """What each node of an embedded cluster offers."""

    cpu: str = "8"
    memory: str = "32Gi"
    gpus: int = 0


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster."""

    store: Store
    objects: Objects
    url: str
    token: str
    kubeconfig: Path
    ca_file: Path


def spare_the_collector() -> None:
    """Tells the garbage collector that what is loaded stays, and to look at the rest less often. A cluster is a large
    heap of values that live long; with the defaults, most of the time of a large one goes into walking them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


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
    folder: Path, *, nodes: int = 0, size: NodeSize | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[EmbeddedCluster]:
    """A whole cluster in this process, until the block ends. `folder` keeps its certificates, token and kubeconfig."""
    with _owned(folder):
        async with _running(folder, nodes, size or NodeSize(), host, port) as cluster:
            yield cluster


@contextlib.asynccontextmanager
async def _running(folder: Path, nodes: int, size: NodeSize, host: str, port: int) -> AsyncIterator[EmbeddedCluster]:
    clock = SystemClock()
    store = Store(clock, RandomIds())
    objects = InProcessObjects(store)
    for number, manifest in enumerate(node_manifests(nodes, size, store.now())):
        await add_node(objects, manifest)
        if number % NODES_PER_TURN == 0:
            await asyncio.sleep(0)  # whoever wants to end it meanwhile can
    tls, token = _secrets(folder, host, clock)
    app = build_app(objects, store.kinds, token=token, clock=clock)
    housekeeping = asyncio.create_task(store.housekeeper.run(), name="housekeeping")
    try:
        async with serving(app, host, port, tls) as address:
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, address.url, tls.authority_pem(), token)
            yield EmbeddedCluster(store, objects, address.url, token, kubeconfig, tls.authority)
    finally:
        housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await housekeeping


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


async def add_node(objects: Objects, manifest: Manifest) -> None:
    """Creates a node as its kubelet would: admission taints it as not ready, then it reports that it is."""
    name = manifest["metadata"]["name"]
    await objects.create(NODES, manifest)
    await objects.patch(NODES, name, "merge", {"spec": {"taints": None}})
    await objects.patch(NODES, name, "merge", {"status": manifest["status"]}, subresource="status")


def node_manifests(count: int, size: NodeSize, now: str) -> Iterator[Manifest]:
    """Nodes that are ready and empty, named so that they sort by number."""
    resources: dict[str, str] = {"cpu": size.cpu, "memory": size.memory, "pods": str(PODS_PER_NODE)}
    if size.gpus:
        resources["nvidia.com/gpu"] = str(size.gpus)
    digits = len(str(count))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the embedded node is ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    for number in range(1, count + 1):
        name = f"node-{number:0{digits}d}"
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "conditions": [ready],
                "addresses": [{"type": "Hostname", "address": name}],
                "nodeInfo": _NODE_INFO,
            },
        }
