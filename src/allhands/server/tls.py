"""A certificate authority and a server certificate of our own, for a server on the loopback interface.

Keys are written for their owner only and never leave the folder. What is still good for a while is used again, so that
a kubeconfig stays valid over restarts.
"""

from __future__ import annotations

import datetime
import os
import ssl
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.server.certificates import Pair, is_for, is_good, new_authority, new_server, pair_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from allhands.ports import Clock

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_AUTHORITY_DAYS: Final = 3650
_SERVER_DAYS: Final = 365
_RENEW_BEFORE: Final = datetime.timedelta(days=30)


class ServerTls(msgspec.Struct, frozen=True):
    """Where the server's certificate and key are, and the authority that clients are to trust."""

    certificate: Path
    key: Path
    authority: Path

    def authority_pem(self) -> bytes:
        return self.authority.read_bytes()

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context


def write_private(path: Path, content: bytes) -> None:
    """Writes the file whole or not at all, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def server_tls(folder: Path, clock: Clock, names: Iterable[str] = ()) -> ServerTls:
    """The certificates in `folder`, made or renewed if need be. `names` are served beside the loopback ones."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = clock.now()
    tls = ServerTls(folder / "server.crt", folder / "server.key", folder / "ca.crt")
    authority = _load(tls.authority, folder / "ca.key")
    if authority is None or not is_good(authority.certificate, now, _RENEW_BEFORE):
        authority = new_authority(now, _AUTHORITY_DAYS)
        _save(authority, tls.authority, folder / "ca.key")
    wanted = tuple(dict.fromkeys((*LOOPBACK_NAMES, *names)))
    server = _load(tls.certificate, tls.key)
    if server is None or not _serves(server, authority, wanted, now):
        _save(new_server(authority, wanted, now, _SERVER_DAYS), tls.certificate, tls.key)
    return tls


def _load(certificate_path: Path, key_path: Path) -> Pair | None:
    """The pair in these files; None if it is absent or damaged, since a new one is made as easily."""
    try:
        return pair_of(certificate_path.read_bytes(), key_path.read_bytes())
    except OSError:
        return None


def _save(pair: Pair, certificate_path: Path, key_path: Path) -> None:
    write_private(key_path, pair.key_pem())
    write_private(certificate_path, pair.certificate_pem())


def _serves(server: Pair, authority: Pair, names: tuple[str, ...], now: datetime.datetime) -> bool:
    is_ours = is_for(server.certificate, authority.certificate, names)
    return is_ours and is_good(server.certificate, now, _RENEW_BEFORE)
