"""Keeps the keys of the webhooks in one Secret that all replicas share, and tells the API server whom to trust.

Replicas do not talk to each other: whoever comes first makes the keys, and the others find them; a write that crossed
another's is given up and looked at anew. Of the configurations only what leads to us is written, and whether that is
worth asking (`attention`); the rest is their owner's. It reads and writes objects by name only, and never lists a
Secret.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.definitions import MANAGED_BY, OURS, PART_OF
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.runtime.installation.webhooks import MUTATING, NAME, VALIDATING
from allhands.runtime.metrics import Unmeasured
from allhands.server.webhooks.attention import attentive
from allhands.server.webhooks.keys import DEFAULT_TERMS, Keys, Terms, keys_of, renewed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.ports import Clock, Metrics, Objects

SECRETS: Final = Resource("", "v1", "secrets")
LOOK_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0
"""After a write of a configuration that crossed another's."""
MOST_TRIES: Final = 10
EXPIRY: Final = "allhands_webhook_certificate_expiry_timestamp_seconds"
FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
_LABELS: Final = {MANAGED_BY: OURS, PART_OF: OURS}
_LOG = logging.getLogger(__name__)


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class Keyring:
    """`names` are those that the certificate is for; `wanted` the two configurations, without whom to trust. With
    `makes_configurations` they are made and kept as wanted; without, an installation has brought them."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        *,
        namespace: str,
        names: Sequence[str],
        wanted: Sequence[Manifest],
        makes_configurations: bool = False,
        terms: Terms = DEFAULT_TERMS,
        look_seconds: float = LOOK_SECONDS,
        metrics: Metrics | None = None,
        is_any_restricted: Callable[[], bool | None] = lambda: None,
    ) -> None:
        """`is_any_restricted`: whether there is a queue that is not for everyone; None if that is not known."""
        self._objects = objects
        self._clock = clock
        self._namespace = namespace
        self._names = tuple(dict.fromkeys(names))
        self._wanted = wanted
        self._makes = makes_configurations
        self._terms = terms
        self._look_seconds = look_seconds
        self._metrics = metrics or Unmeasured()
        self._is_any_restricted = is_any_restricted
        self._news = asyncio.Event()
        self._known: tuple[Any, ...] | None = None
        """Whom the configurations trust, as far as we have seen."""

    def is_ready(self) -> bool:
        """Whether the API server knows whom to trust."""
        return self._known is not None

    async def run(self, use: Callable[[Keys], None]) -> None:
        """Looks now and then, until cancelled; `use` is told of the keys each time."""
        while True:
            self._news.clear()
            keys = await self.keys()
            use(keys)
            is_told = await self.tell(keys)
            if is_told:
                self._known = keys.trusted
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds if is_told else AGAIN_SECONDS):
                    await self._news.wait()

    def look_now(self) -> None:
        """What is to be asked about may be different."""
        self._news.set()

    async def keys(self) -> Keys:
        """Those of the Secret, made or renewed if it is time."""
        for _ in range(MOST_TRIES):
            found = await self._read()
            keys = keys_of(found.get("data") or {}) if found is not None else None
            is_known = keys is not None and self._known == keys.trusted
            wanted = renewed(keys, self._names, self._clock.now(), self._terms, is_known=is_known)
            if wanted is keys or await self._write(found, wanted):
                self._measure(wanted)
                return wanted
        raise StatusError(CONFLICT, "Conflict", f"secret {self._namespace}/{NAME}: others write it all the time")

    def _measure(self, keys: Keys) -> None:
        for certificate, pair in (("authority", keys.authority), ("server", keys.server)):
            ends = pair.certificate.not_valid_after_utc.timestamp()
            self._metrics.set(EXPIRY, ends, certificate=certificate)

    async def _read(self) -> Manifest | None:
        try:
            return (await self._objects.get(SECRETS, NAME, self._namespace)).manifest()
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            return None

    async def _write(self, found: Manifest | None, keys: Keys) -> bool:
        """False if somebody else was faster: then theirs count."""
        try:
            if found is None:
                metadata = {"name": NAME, "namespace": self._namespace, "labels": _LABELS}
                made = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
                await self._objects.create(SECRETS, {**made, "data": keys.data()}, self._namespace)
            else:
                await self._objects.update(SECRETS, NAME, {**found, "data": keys.data()}, self._namespace)
        except StatusError as refusal:
            if refusal.code != CONFLICT:
                raise
            return False
        _LOG.info("webhook keys were renewed; the certificate ends %s", keys.server.certificate.not_valid_after_utc)
        return True

    async def tell(self, keys: Keys) -> bool:
        """Whether the configurations trust all that is to be trusted; they are changed if they do not."""
        bundle = base64.b64encode(keys.bundle()).decode()
        told = [await self._tell(it, bundle) for it in self._wanted]
        return all(told)

    async def _tell(self, wanted: Manifest, bundle: str) -> bool:
        resource = MUTATING if wanted["kind"].startswith("Mutating") else VALIDATING
        complete = _trusting(wanted, wanted, bundle)
        try:
            try:
                found = (await self._objects.get(resource, NAME)).manifest()
            except StatusError as refusal:
                if refusal.code != NOT_FOUND:
                    raise
                return await self._make(resource, self._attentive(complete))
            after = _overwritten(found, complete) if self._makes else _trusting(found, wanted, bundle)
            after = self._attentive(after)
            if after != found:
                await self._objects.update(resource, NAME, after)
        except StatusError as refusal:
            if refusal.code != CONFLICT:
                raise
            return False
        return True

    def _attentive(self, configuration: Manifest) -> Manifest:
        restricted = self._is_any_restricted()
        webhooks = [attentive(it, is_any_restricted=restricted) for it in configuration.get("webhooks") or ()]
        return {**configuration, "webhooks": webhooks}

    async def _make(self, resource: Resource, complete: Manifest) -> bool:
        if not self._makes:
            _LOG.warning("%s %s is not there, so nobody asks us: `allhands install` brings it", resource.plural, NAME)
            return True
        await self._objects.create(resource, {**complete, "metadata": {"name": NAME, "labels": _LABELS}})
        return True


def _trusting(found: Manifest, wanted: Manifest, bundle: str) -> Manifest:
    """The configuration with whom to trust, in the webhooks that are ours."""
    names = {it["name"] for it in wanted["webhooks"]}
    webhooks = [
        {**it, "clientConfig": {**it["clientConfig"], "caBundle": bundle}} if it["name"] in names else it
        for it in found.get("webhooks") or ()
    ]
    return {**found, "webhooks": webhooks}


def _overwritten(found: Manifest, complete: Manifest) -> Manifest:
    """As wanted; what the server has filled in by itself stays."""
    present = {it["name"]: it for it in found.get("webhooks") or ()}
    return {**found, "webhooks": [{**present.get(it["name"], {}), **it} for it in complete["webhooks"]]}
