"""The keys of the webhooks: an authority, the certificate that it signed, and all authorities that are to be trusted.

When which of them is made anew, as a function of what there is and the time. An authority is made long before the one
before it ends, and signs nothing until everybody has had time to learn that it is to be trusted; the one before is
trusted until it ends, but its key is gone. So there is no moment at which a served certificate is not trusted.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from allhands.server.certificates import BACKDATED, Pair, is_for, is_good, new_authority, new_server, pair_of

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTHORITY, AUTHORITY_KEY = "authority.crt", "authority.key"
SERVER, SERVER_KEY = "tls.crt", "tls.key"
TRUSTED: Final = "ca.crt"
MOST_TRUSTED: Final = 8


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How long things hold. Each is made anew when only a third of its time is left."""

    authority_days: float = 365.0
    server_days: float = 90.0
    learning_seconds: float = 3600.0
    """How old an authority must be to sign while what the one before signed is still good."""


DEFAULT_TERMS: Final = Terms()


class Keys(msgspec.Struct, frozen=True):
    """What all replicas share. `trusted` are the certificates of authorities, the newest first."""

    authority: Pair
    server: Pair
    trusted: tuple[x509.Certificate, ...]
    since: datetime.datetime
    """When the authority was made."""

    def bundle(self) -> bytes:
        """What clients are to trust, as text."""
        return b"".join(it.public_bytes(serialization.Encoding.PEM) for it in self.trusted)

    def data(self) -> dict[str, str]:
        """As a Secret holds it."""
        parts = {
            AUTHORITY: self.authority.certificate_pem(),
            AUTHORITY_KEY: self.authority.key_pem(),
            SERVER: self.server.certificate_pem(),
            SERVER_KEY: self.server.key_pem(),
            TRUSTED: self.bundle(),
        }
        return {name: base64.b64encode(value).decode() for name, value in parts.items()}


def keys_of(data: Mapping[str, str]) -> Keys | None:
    """The keys in a Secret; None if they are not whole: then new ones are made."""
    try:
        parts = {name: base64.b64decode(data[name], validate=True) for name in data}
        authority = pair_of(parts[AUTHORITY], parts[AUTHORITY_KEY])
        server = pair_of(parts[SERVER], parts[SERVER_KEY])
        trusted = tuple(x509.load_pem_x509_certificates(parts[TRUSTED]))
    except (KeyError, ValueError, TypeError, binascii.Error):
        return None
    if authority is None or server is None or authority.certificate not in trusted:
        return None
    return Keys(authority, server, trusted, _made(authority.certificate))


def renewed(keys: Keys | None, names: tuple[str, ...], now: datetime.datetime, terms: Terms, *, is_known: bool) -> Keys:
    """The keys as they should be; the same object if nothing is to be done. `is_known`: whether the configurations of
    the API server name everything that is to be trusted."""
    if keys is None or not is_good(keys.authority.certificate, now, datetime.timedelta(0)):
        return _anew(keys, names, now, terms)
    if not is_good(keys.authority.certificate, now, _third(terms.authority_days)):
        authority = new_authority(now, terms.authority_days)
        keys = Keys(authority, keys.server, _still_trusted(authority, keys, now), now)
    server = keys.server.certificate
    is_fine = is_for(server, keys.authority.certificate, names) and is_good(server, now, _third(terms.server_days))
    is_learned = is_known and (now - keys.since).total_seconds() >= terms.learning_seconds
    has_signed = is_for(server, keys.authority.certificate, ())
    if not is_fine and (is_learned or has_signed or not _still_serves(keys, names, now)):
        signed = new_server(keys.authority, names, now, terms.server_days)
        keys = Keys(keys.authority, signed, keys.trusted, keys.since)
    return keys


def _anew(keys: Keys | None, names: tuple[str, ...], now: datetime.datetime, terms: Terms) -> Keys:
    authority = new_authority(now, terms.authority_days)
    server = new_server(authority, names, now, terms.server_days)
    return Keys(authority, server, _still_trusted(authority, keys, now), now)


def _still_trusted(authority: Pair, keys: Keys | None, now: datetime.datetime) -> tuple[x509.Certificate, ...]:
    earlier = () if keys is None else keys.trusted
    good = [it for it in earlier if it.not_valid_after_utc > now]
    return (authority.certificate, *good)[:MOST_TRUSTED]


def _still_serves(keys: Keys, names: tuple[str, ...], now: datetime.datetime) -> bool:
    """Whether clients take the certificate: then there is time to wait until they know the new authority."""
    server = keys.server.certificate
    is_signed = any(is_for(server, it, names) and it.not_valid_after_utc > now for it in keys.trusted)
    return is_signed and is_good(server, now, datetime.timedelta(0))


def _third(days: float) -> datetime.timedelta:
    return datetime.timedelta(days=days / 3)


def _made(certificate: x509.Certificate) -> datetime.datetime:
    return certificate.not_valid_before_utc + BACKDATED
