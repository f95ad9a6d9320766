"""Runs a program that yields credentials, by `client.authentication.k8s.io` v1 and v1beta1.

It is given a time limit and little room to write; what goes wrong is told with its last words and with the hint that
the kubeconfig has for those who lack it. Its output is never logged: it is a secret.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime  # noqa: TC003 (msgspec reads the annotations)
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError

if TYPE_CHECKING:
    from allhands.kube.access import Access, ExecPlugin

LIMIT_SECONDS: Final = 60.0
INTERACTIVE_LIMIT_SECONDS: Final = 600.0
"""A person may have to log in."""
MOST_BYTES: Final = 1024 * 1024
LAST_WORDS: Final = 2_000
INFO_VARIABLE: Final = "KUBERNETES_EXEC_INFO"


class Credential(msgspec.Struct, frozen=True):
    """What a plugin yielded."""

    token: str = ""
    certificate_pem: bytes = b""
    key_pem: bytes = b""
    expires_at: datetime.datetime | None = None

    def __repr__(self) -> str:
        return f"Credential(expires_at={self.expires_at})"


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime.datetime | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class _TooMuchError(Exception):
    """Somebody writes without end."""


def no_credentials(message: str) -> StatusError:
    """Nobody was asked anything: there is nothing to show to the server."""
    return StatusError(503, "CredentialsUnavailable", message)


async def ask_plugin(access: Access, plugin: ExecPlugin, limit_seconds: float | None = None) -> Credential:
    """Runs the program once. What it yields is for the caller to keep until it expires."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    is_interactive = has_terminal and plugin.interactive_mode != "Never"
    if plugin.interactive_mode == "Always" and not has_terminal:
        raise no_credentials(
            f"exec plugin {plugin.command}: needs a terminal (interactiveMode: Always), and there is none"
        )
    program = shutil.which(plugin.command)
    if program is None:
        raise no_credentials(_with_hint(plugin, "is not installed, or may not be executed"))
    limit = limit_seconds or (INTERACTIVE_LIMIT_SECONDS if is_interactive else LIMIT_SECONDS)
    environment = os.environ | dict(plugin.environment) | {INFO_VARIABLE: _info(access, plugin, is_interactive)}
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *plugin.args,
            env=environment,
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
            # A group of its own, so that what it starts ends with it; on a terminal it must stay in ours.
            start_new_session=not is_interactive,
        )
    except OSError as error:
        raise no_credentials(_with_hint(plugin, f"cannot be run: {error.strerror or error}")) from None
    try:
        async with asyncio.timeout(limit):
            answer, words = await asyncio.gather(_read(process.stdout), _last_words(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise no_credentials(_with_hint(plugin, f"has not answered within {limit:g} seconds")) from None
    except _TooMuchError:
        raise no_credentials(_with_hint(plugin, f"wrote more than {MOST_BYTES:,} bytes")) from None
    finally:
        await _end(process, is_group=not is_interactive)
    if code:
        raise no_credentials(_with_hint(plugin, f"failed with exit code {code}{': ' + words if words else ''}"))
    return _understood(plugin, answer)


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    parts: list[bytes] = []
    while stream is not None and (part := await stream.read(65536)):
        parts.append(part)
        if sum(map(len, parts)) > MOST_BYTES:
            raise _TooMuchError
    return b"".join(parts)


async def _last_words(stream: asyncio.StreamReader | None) -> str:
    kept = b""
    while stream is not None and (part := await stream.read(65536)):
        kept = (kept + part)[-LAST_WORDS:]
    return " ".join(kept.decode(errors="replace").split())


async def _end(process: asyncio.subprocess.Process, *, is_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if is_group:
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
    # asyncio waits for the ends of the pipes too: nobody reads them now, and a child that got away may hold them.
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()


def _understood(plugin: ExecPlugin, answer: bytes) -> Credential:
    try:
        read = msgspec.json.decode(answer, type=_Answer)
    except msgspec.MsgspecError as error:
        raise no_credentials(_with_hint(plugin, f"did not write an ExecCredential: {error}")) from None
    if read.kind != "ExecCredential" or read.api_version != plugin.api_version:
        wrote = f"{read.kind or 'no kind'} of {read.api_version or 'no version'}"
        raise no_credentials(
            _with_hint(plugin, f"wrote {wrote}; the kubeconfig expects ExecCredential of {plugin.api_version}")
        )
    status = read.status or _Status()
    certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
    if bool(certificate) != bool(key):
        raise no_credentials(_with_hint(plugin, "wrote a certificate without its key, or a key without a certificate"))
    if not status.token and not certificate:
        raise no_credentials(_with_hint(plugin, "wrote neither a token nor a certificate"))
    expires_at = status.expiration_timestamp
    if expires_at is not None and expires_at.tzinfo is None:
        raise no_credentials(_with_hint(plugin, "wrote an expirationTimestamp without a time zone"))
    return Credential(status.token, certificate, key, expires_at)


def _info(access: Access, plugin: ExecPlugin, is_interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": is_interactive}
    if plugin.provide_cluster_info:
        cluster = {
            "server": access.server,
            "tls-server-name": access.tls_server_name,
            "insecure-skip-tls-verify": access.insecure,
            "certificate-authority-data": base64.b64encode(access.ca_pem).decode(),
            "proxy-url": access.proxy_url,
            "disable-compression": access.disable_compression,
            "config": msgspec.json.decode(plugin.cluster_config) if plugin.cluster_config else None,
        }
        spec["cluster"] = {name: value for name, value in cluster.items() if value or name == "config"}
    return msgspec.json.encode({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


def _with_hint(plugin: ExecPlugin, what: str) -> str:
    hint = " ".join(plugin.install_hint.split())
    return f"exec plugin {plugin.command}: {what}{'. ' + hint if hint else ''}"
