"""Who we are, right now: what is shown to the server with each request, kept fresh.

Files are looked at again once a minute, a plugin's answer is used until it expires, and after a 401 both are asked at
once. A source that fails keeps what it yielded last; the first time, it is an error that says what is missing.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from multidict import CIMultiDict

from allhands.api.errors import StatusError
from allhands.kube.connections import tls_context
from allhands.kube.exec_plugin import Credential, ask_plugin, no_credentials
from allhands.kube.kubeconfig_fields import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.kube.access import Access

LOOK_AGAIN_SECONDS: Final = 60.0
PLUGIN_PAUSE_SECONDS: Final = 10.0
"""A plugin that failed, or whose answer had expired, is not run again for every request."""
RENEW_EARLY_SECONDS: Final = 10.0
"""A request is under way for a while; its credentials should live that long."""
_LOG = logging.getLogger(__name__)


class Identity(msgspec.Struct, frozen=True):
    """What is shown with a request. Two of them are different if they are not the same object."""

    headers: CIMultiDict[str]
    tls: ssl.SSLContext | None
    """None where the server is spoken to without TLS."""


class Credentials:
    """`now` is the wall clock, which plugins' expiry is told in."""

    def __init__(
        self,
        access: Access,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        look_again_seconds: float = LOOK_AGAIN_SECONDS,
        plugin_pause_seconds: float = PLUGIN_PAUSE_SECONDS,
    ) -> None:
        self._access = access
        """With what the files held last."""
        self._now = now
        self._look_again_seconds = look_again_seconds
        self._plugin_pause_seconds = plugin_pause_seconds
        self._identity: Identity | None = None
        self._fresh_until = 0.0
        self._renewal: asyncio.Task[None] | None = None
        self._credential: Credential | None = None
        self._plugin_asked_at = -float("inf")
        self._plugin_rests_until = -float("inf")
        self._plugin_failure: StatusError | None = None

    @property
    def _asks_plugin(self) -> bool:
        """Who is given a token or a password needs no plugin: so it is with kubectl."""
        access = self._access
        return access.exec_plugin is not None and not (access.token or access.token_file or access.username)

    async def prepare(self) -> None:
        """Says at once what cannot be read; a plugin is only run when somebody asks for something."""
        if not self._asks_plugin:
            await self.identity()

    def fresh(self) -> Identity | None:
        """What can be shown without looking for anything new; else ask for `identity`."""
        return self._identity if asyncio.get_running_loop().time() < self._fresh_until else None

    async def identity(self) -> Identity:
        """Raises a `StatusError` if there is none to be had."""
        if self.fresh() is None:
            await self._renew_once(is_refused=False)
        assert self._identity is not None
        return self._identity

    async def after_refusal(self, shown: Identity) -> Identity | None:
        """The server did not accept what was shown: other credentials, if there are any."""
        if self._identity is shown:
            with contextlib.suppress(StatusError):
                await self._renew_once(is_refused=True)
        return None if self._identity is shown else self._identity

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait((self._renewal,))

    async def _renew_once(self, *, is_refused: bool) -> None:
        """One renewal for all who wait for it; whoever is cancelled meanwhile does not end it for the others."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(is_refused=is_refused), name="renewing credentials")
        await asyncio.shield(self._renewal)

    async def _renew(self, *, is_refused: bool) -> None:
        loop = asyncio.get_running_loop()
        before = self._access, self._credential
        self._access = self._read_files()
        fresh_until = loop.time() + self._look_again_seconds if _has_files(self._access) else float("inf")
        if self._asks_plugin:
            await self._ask_plugin(is_refused=is_refused)
            fresh_until = min(fresh_until, self._plugin_rests_until)
        if self._identity is None or before != (self._access, self._credential):
            try:
                self._identity = self._made()
            except (ssl.SSLError, KubeconfigError, StatusError) as error:
                if self._identity is None:
                    raise
                # Of a certificate and its key one may be new and the other not yet.
                _LOG.warning("the renewed credentials cannot be used yet: %s", error)
                self._access, self._credential = before
        self._fresh_until = fresh_until

    # -- files

    def _read_files(self) -> Access:
        access = self._access
        token = self._text(access.token_file, access.token)
        if access.token_file and not token:
            raise no_credentials(f"{access.token_file}: holds no token, or cannot be read")
        return msgspec.structs.replace(
            access,
            token=token,
            ca_pem=_content(access.ca_file, access.ca_pem),
            client_certificate_pem=_content(access.client_certificate_file, access.client_certificate_pem),
            client_key_pem=_content(access.client_key_file, access.client_key_pem),
        )

    @staticmethod
    def _text(file: str, last: str) -> str:
        return _content(file, last.encode()).decode(errors="replace").strip()

    # -- plugin

    async def _ask_plugin(self, *, is_refused: bool) -> None:
        plugin, loop = self._access.exec_plugin, asyncio.get_running_loop()
        assert plugin is not None
        is_due = loop.time() >= self._plugin_rests_until
        is_rested = loop.time() >= self._plugin_asked_at + self._plugin_pause_seconds
        if not is_due and not (is_refused and is_rested):
            if self._plugin_failure is not None and not self._still_holds():
                raise self._plugin_failure
            return
        self._plugin_asked_at = loop.time()
        try:
            self._credential = await ask_plugin(self._access, plugin)
        except StatusError as failure:
            self._plugin_failure = failure
            self._plugin_rests_until = loop.time() + self._plugin_pause_seconds
            if not self._still_holds():
                raise
            _LOG.warning("%s; what it yielded last is used on", failure.message)
            return
        self._plugin_failure = None
        self._plugin_rests_until = loop.time() + self._lasts_seconds(self._credential)

    def _still_holds(self) -> bool:
        credential = self._credential
        return credential is not None and (credential.expires_at is None or credential.expires_at > self._now())

    def _lasts_seconds(self, credential: Credential) -> float:
        if credential.expires_at is None:
            return float("inf")  # until it is refused
        left = (credential.expires_at - self._now()).total_seconds()
        return left - min(RENEW_EARLY_SECONDS, left / 10) if left > 0 else self._plugin_pause_seconds

    # -- what is shown

    def _made(self) -> Identity:
        access, credential = self._access, self._credential
        headers: CIMultiDict[str] = CIMultiDict(access.impersonation)
        token = access.token
        if credential is not None and self._asks_plugin:
            token = credential.token
            if credential.certificate_pem:
                access = msgspec.structs.replace(
                    access, client_certificate_pem=credential.certificate_pem, client_key_pem=credential.key_pem
                )
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif access.username:
            secret = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
            headers["Authorization"] = f"Basic {secret}"
        for name, value in headers.items():
            if not value.isprintable():
                raise no_credentials(f"what is to be shown as {name} holds a line break or another control character")
        return Identity(headers, tls_context(access) if access.server.startswith("https:") else None)


def _has_files(access: Access) -> bool:
    return bool(access.token_file or access.ca_file or access.client_certificate_file or access.client_key_file)


def _content(file: str, last: bytes) -> bytes:
    """What the file holds now; if it cannot be read or is empty, being rewritten, what it held last."""
    if not file:
        return last
    try:
        return Path(file).read_bytes() or last
    except OSError as error:
        _LOG.warning("%s cannot be read: %s; what it held last is used on", file, error.strerror)
        return last
