"""The webhooks beside a real cluster, as a process of their own. Every replica answers; none of them leads.

It begins to listen when it has a certificate, and tells the API server whom to trust when it listens. It never holds
more of the cluster than the few kinds that rules ask about.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from allhands.compose.admission import errors_of_plugins
from allhands.compose.process import Process
from allhands.runtime.installation.permissions import Right
from allhands.runtime.installation.rights import WEBHOOKS
from allhands.runtime.installation.webhooks import (
    NAME,
    accounts_of,
    by_service,
    by_url,
    configurations,
    service_names,
)
from allhands.server.live_tls import LiveTls
from allhands.server.serve import serving
from allhands.server.webhooks.app import LIMITS, WebhookApp
from allhands.server.webhooks.judging import Judge
from allhands.server.webhooks.keyring import LOOK_SECONDS, Keyring
from allhands.server.webhooks.keys import DEFAULT_TERMS, Terms
from allhands.server.webhooks.others import KnownObjects
from allhands.server.webhooks.submitters import REVIEWS, Submitters

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.compose.process import ProcessOptions
    from allhands.kube.access import Access
    from allhands.ports import Objects
    from allhands.server.listening import Address

ESSENTIAL: Final = (Right(REVIEWS.group, REVIEWS.plural, "create"),)
"""Without it nobody's rights can be asked for, and everybody would be refused."""
COPIES, KEYS = "webhook-copies", "webhook-keys"
_LOG = logging.getLogger(__name__)


class WebhookOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`url`: where API servers reach us, if not by the service of an installation; then the configurations are made and
    kept as well. `clients`: authorities whose certificates a caller must have, as text; without, anybody may ask."""

    host: str = "127.0.0.1"
    port: int = 0
    url: str = ""
    clients: str = ""
    terms: Terms = DEFAULT_TERMS
    look_seconds: float = LOOK_SECONDS


async def run_webhooks(
    access: Access,
    options: ProcessOptions,
    webhooks: WebhookOptions,
    listening: Callable[[Address], None] = lambda _address: None,
) -> None:
    """Until cancelled."""
    process = Process(access, options, NAME)
    process.is_working = True  # there is no lease to wait for: until it listens it is not ready
    known: KnownObjects | None = None
    ring: Keyring | None = None
    process.keeper.declare(COPIES, lambda: known is not None and known.is_ready())
    process.keeper.declare(KEYS, lambda: ring is not None and ring.is_ready())
    async with process.opened(ESSENTIAL, [it for it in WEBHOOKS if not it.names]) as objects:
        known = KnownObjects(objects)
        ring = keyring(objects, process, options, webhooks, known)
        tls = LiveTls((await ring.keys()).server, webhooks.clients)
        app = WebhookApp(judge(objects, known, options), metrics=process.metrics)
        keep = process.keeper.keep
        async with serving(app, webhooks.host, webhooks.port, tls, limits=LIMITS, beyond_loopback=True) as address:
            _LOG.info("webhooks on %s, at %s", access.server, address.url)
            listening(address)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep(COPIES, known.run))
                tasks.create_task(_look_when_copied(ring, known))
                tasks.create_task(keep(KEYS, lambda: ring.run(lambda keys: tls.use(keys.server))))


async def _look_when_copied(ring: Keyring, known: KnownObjects) -> None:
    """Only then it is known that no queue is restricted."""
    known.on_restriction(ring.look_now)
    await known.until_ready()
    ring.look_now()


def judge(objects: Objects, known: KnownObjects, options: ProcessOptions) -> Judge:
    submitters = Submitters(objects, accounts_of(options.lease_namespace))
    return Judge(known, submitters, scheduler_name=options.scheduler_names[0], plugin_errors=errors_of_plugins)


def keyring(
    objects: Objects, process: Process, options: ProcessOptions, webhooks: WebhookOptions, known: KnownObjects
) -> Keyring:
    namespace = options.lease_namespace
    names = list(service_names(namespace))
    if webhooks.url:
        names.append(urlsplit(webhooks.url).hostname or "localhost")
    return Keyring(
        objects,
        process.clock,
        namespace=namespace,
        names=names,
        wanted=configurations(namespace, by_url(webhooks.url) if webhooks.url else by_service(namespace)),
        makes_configurations=bool(webhooks.url),
        terms=webhooks.terms,
        look_seconds=webhooks.look_seconds,
        metrics=process.metrics,
        is_any_restricted=known.is_any_restricted,
    )
