"""A certificate authority and a server certificate of our own, for a server on the loopback interface.

Keys are written for their owner only and never leave the folder. What is still good for a while is used again, so that
a kubeconfig stays valid over restarts.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from allhands.ports import Clock

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_AUTHORITY_DAYS: Final = 3650
_SERVER_DAYS: Final = 365
_RENEW_BEFORE: Final = datetime.timedelta(days=30)
_BACKDATED: Final = datetime.timedelta(hours=1)


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


class _Pair(msgspec.Struct, frozen=True):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


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
    if authority is None or not _still_good(authority.certificate, now):
        authority = _new_authority(now)
        _save(authority, tls.authority, folder / "ca.key")
    wanted = tuple(dict.fromkeys((*LOOPBACK_NAMES, *names)))
    server = _load(tls.certificate, tls.key)
    if server is None or not _serves(server.certificate, authority, wanted, now):
        _save(_new_server(authority, wanted, now), tls.certificate, tls.key)
    return tls


def _load(certificate_path: Path, key_path: Path) -> _Pair | None:
    """The pair in these files; None if it is absent or damaged, since a new one is made as easily."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (OSError, ValueError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        return None
    return _Pair(certificate, key)


def _save(pair: _Pair, certificate_path: Path, key_path: Path) -> None:
    key = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(key_path, key)
    write_private(certificate_path, pair.certificate.public_bytes(serialization.Encoding.PEM))


def _still_good(certificate: x509.Certificate, now: datetime.datetime) -> bool:
    return certificate.not_valid_before_utc <= now and certificate.not_valid_after_utc - now > _RENEW_BEFORE


def _serves(certificate: x509.Certificate, authority: _Pair, names: tuple[str, ...], now: datetime.datetime) -> bool:
    try:
        certificate.verify_directly_issued_by(authority.certificate)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # whatever is wrong with it, it does not serve
        return False
    return _still_good(certificate, now) and all(_alternative(name) in found for name in names)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: str, issuer: x509.Name | None, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _new_authority(now: datetime.datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(f"allhands {now:%Y-%m-%d %H:%M:%S}", None, key, now, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _Pair(builder.sign(key, hashes.SHA256()), key)


def _new_server(authority: _Pair, names: tuple[str, ...], now: datetime.datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder("allhands-server", authority.certificate.subject, key, now, _SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(authority_id, critical=False)
    )
    return _Pair(builder.sign(authority.key, hashes.SHA256()), key)
