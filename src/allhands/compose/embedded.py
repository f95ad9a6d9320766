"""A whole cluster in this process, with its HTTP face on loopback: API, scheduler, controllers and node agents."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from allhands.agents.agent import is_simulated
from allhands.agents.logs import LogsOfNodes
from allhands.compose.access_settings import AS_IT_WAS, AccessSettings, AccessWish, settled
from allhands.compose.admission import WEBHOOKS
from allhands.compose.api_service import show_api_service
from allhands.compose.embedded_data import owned, stored
from allhands.compose.embedded_nodes import silence_unserved
from allhands.compose.machine import RandomIds, SystemClock
from allhands.compose.nodes import NODES, NodeSize, add_node, node_manifests
from allhands.compose.rights import SubmitterRights, install_roles
from allhands.compose.system import System
from allhands.lifecycle.volume_binding import PROVISIONER
from allhands.lifecycle.volume_kinds import CLASSES
from allhands.runtime.keeper import Keeper
from allhands.runtime.metrics import MetricsRegistry
from allhands.server.access.account_tokens import AccountTokens, signing_key
from allhands.server.access.audit import Audit, AuditFile
from allhands.server.access.gate import Gate
from allhands.server.access.people import TokensOfPeople, people_file
from allhands.server.app import build_app
from allhands.server.kubeconfig import write_kubeconfig
from allhands.server.process_metrics import measure_process
from allhands.server.serve import serving
from allhands.server.tls import server_tls, write_private
from allhands.store.admission import NO_WEBHOOKS
from allhands.store.roles import StoredRoles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.document import Manifest
    from allhands.compose.embedded_data import Stored
    from allhands.compose.system import SystemOptions
    from allhands.ports import Clock, Objects
    from allhands.server.tls import ServerTls
    from allhands.store import Store

NODES_PER_TURN = 100
FIRST_NODES = 3
DURABLE_FLIGHT = 64
_NODE_NAME = re.compile(r"node-0*([1-9][0-9]*)")
FIRST_STORAGE_CLASS: Manifest = {
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""What claims that name no class get. Made in a new cluster only: who deletes it does not want it."""


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster."""

    store: Store
    objects: Objects
    url: str
    token: str
    kubeconfig: Path
    ca_file: Path
    found: int = 0
    """How many objects were kept from before."""
    unserved: tuple[str, ...] = ()
    """Nodes from before that nothing in this process serves: nothing is bound to them."""
    access: AccessSettings = AccessSettings()

    def simulated_nodes(self) -> int:
        """How many nodes it has that only pretend to run their pods."""
        nodes = self.store.collection(self.store.kind(NODES))
        return sum(is_simulated(record.key[1], record.labels) for record in nodes)


@contextlib.asynccontextmanager
async def embedded(
    folder: Path,
    *,
    nodes: int | None = 0,
    size: NodeSize | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    system: SystemOptions | None = None,
    durable: bool = False,
    access: AccessWish = AS_IT_WAS,
    keeps_quotas: bool | None = None,
) -> AsyncIterator[EmbeddedCluster]:
    """A whole cluster in this process, until the block ends. `folder` keeps its certificates, token and kubeconfig,
    and with `durable` everything else. `nodes` is how many simulated ones it has at least; None is a few, unless there
    are nodes from before. `access` is whether users' rights are looked at and where requests are logged; the folder
    remembers it.

    Without a `system` it is the API alone: nothing schedules, runs or counts what quotas limit, unless `keeps_quotas`
    says so.
    """
    clock = SystemClock()
    webhooks = NO_WEBHOOKS if system is None else WEBHOOKS
    keeps_quotas = system is not None if keeps_quotas is None else keeps_quotas
    with owned(folder, ephemeral=not durable):
        settings = settled(folder, access)
        async with (
            stored(folder, clock, RandomIds(), webhooks, durable=durable, keeps_quotas=keeps_quotas) as kept,
            _running(kept, folder, clock, nodes, size or NodeSize(), host, port, system, settings) as cluster,
        ):
            yield cluster


@contextlib.asynccontextmanager
async def _running(
    kept: Stored,
    folder: Path,
    clock: Clock,
    nodes: int | None,
    size: NodeSize,
    host: str,
    port: int,
    system: SystemOptions | None,
    settings: AccessSettings,
) -> AsyncIterator[EmbeddedCluster]:
    store, objects = kept.store, kept.objects
    unserved = () if system is None else await silence_unserved(store, kept.at_once, clock, system)
    if system is not None and not kept.found:
        await kept.at_once.create(CLASSES, FIRST_STORAGE_CLASS)
    await _add_nodes(kept, nodes, size)
    if settings.rbac:
        await install_roles(kept.at_once)
        await kept.settled()
    if system is not None and kept.committer is not None:
        system = _sharing_commits(system)
    tls, token = _secrets(folder, host, clock)
    metrics = MetricsRegistry()
    measure_process(metrics)
    keeper = Keeper(metrics)
    keeper.declare("housekeeping")
    whole = None if system is None else System(objects, clock, system, metrics, keeper)
    audit_file = _audit_file(settings, metrics)
    app = build_app(
        objects,
        store.kinds,
        token=token,
        clock=clock,
        logs=LogsOfNodes(objects, {}) if whole is None else whole.logs,
        usages=None if whole is None else whole.usages,
        metrics=metrics.text,
        ready={**keeper.checks, "disk": kept.is_well},
        gate=_gate(folder, token, store, objects, clock, settings),
        audit=None if audit_file is None else Audit(audit_file, clock),
    )
    tasks = [asyncio.create_task(keeper.keep("housekeeping", store.housekeeper.run), name="housekeeping")]
    if whole is not None:
        tasks.append(asyncio.create_task(whole.run(), name="system"))
    try:
        async with serving(app, host, port, tls) as address:
            await show_api_service(kept, address.port)
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, address.url, tls.authority_pem(), token)
            yield EmbeddedCluster(
                store, objects, address.url, token, kubeconfig, tls.authority, kept.found, unserved, settings
            )
    finally:
        for task in reversed(tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if audit_file is not None:
            audit_file.close()


def _gate(folder: Path, token: str, store: Store, objects: Objects, clock: Clock, settings: AccessSettings) -> Gate:
    """Who is let in, and whose rights are looked at."""
    accounts = AccountTokens(signing_key(folder / "pki" / "accounts.key"), objects, clock)
    people = TokensOfPeople(people_file(folder))
    if not settings.rbac:
        return Gate(token, people, accounts)
    roles = StoredRoles(store)
    store.check_submitter = SubmitterRights(store, roles)
    return Gate(token, people, accounts, roles)


def _audit_file(settings: AccessSettings, metrics: MetricsRegistry) -> AuditFile | None:
    if not settings.audit:
        return None
    file = AuditFile(Path(settings.audit))
    told = 0

    def tell() -> None:
        nonlocal told
        lost = file.lost_count
        metrics.count("allhands_audit_events_lost_total", lost - told)
        told = lost

    metrics.refresh_with("audit", tell)
    return file


async def _add_nodes(kept: Stored, count: int | None, size: NodeSize) -> None:
    """So that there are at least so many; nodes from before stay as they are."""
    store = kept.store
    present = [record.key[1] for record in store.collection(store.kind(NODES))]
    numbers = {int(match[1]) for name in present if (match := _NODE_NAME.fullmatch(name))}
    if count is None:
        count = 0 if present else FIRST_NODES
    for number, manifest in enumerate(node_manifests(count, size, store.now()), 1):
        if number not in numbers:
            await add_node(kept.at_once, manifest)
        if number % NODES_PER_TURN == 0:
            await asyncio.sleep(0)  # whoever wants to end it meanwhile can
    await kept.settled()


def _sharing_commits(system: SystemOptions) -> SystemOptions:
    """Every write waits for the disk: many at a time wait no longer than one."""
    scheduler = msgspec.structs.replace(system.scheduler, flight=max(system.scheduler.flight, DURABLE_FLIGHT))
    return msgspec.structs.replace(system, scheduler=scheduler, flight=max(system.flight, DURABLE_FLIGHT))


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
