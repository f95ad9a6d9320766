"""Certificates of our own: an authority, and what it signs for servers. Where they are kept is somebody else's matter.

Keys come from the system's randomness and from nowhere else: nothing is decided by them, so no simulation needs them
to repeat. What time it is, is passed in.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable

BACKDATED: Final = datetime.timedelta(hours=1)
"""Clocks differ: a certificate that is made now must be good for who is a little behind."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def pair_of(certificate_pem: bytes, key_pem: bytes) -> Pair | None:
    """The pair in these texts; None if one is damaged or they do not belong together: a new one is made as easily."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        return None
    return Pair(certificate, key)


def is_good(certificate: x509.Certificate, now: datetime.datetime, left: datetime.timedelta) -> bool:
    """Whether it is good now, and for more than so long."""
    return certificate.not_valid_before_utc <= now and certificate.not_valid_after_utc - now > left


def is_for(certificate: x509.Certificate, authority: x509.Certificate, names: Iterable[str]) -> bool:
    """Whether this authority signed it, for at least these names."""
    try:
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # whatever is wrong with it, it does not serve
        return False
    return all(_alternative(name) in found for name in names)


def new_authority(now: datetime.datetime, days: float) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    until = now + datetime.timedelta(days=days)
    builder = (
        _builder(f"allhands {now:%Y-%m-%d %H:%M:%S}", None, key, now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def new_server(authority: Pair, names: Iterable[str], now: datetime.datetime, days: float) -> Pair:
    """Good for so many days, and not for longer than its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    until = min(now + datetime.timedelta(days=days), authority.certificate.not_valid_after_utc)
    builder = (
        _builder("allhands-server", authority.certificate.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(authority_id, critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: str,
    issuer: x509.Name | None,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
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
