"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

YEAR = datetime.timedelta(days=365)


class Authority:
    """Signs certificates with names of any kind."""

    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        certificate = _builder(self._name, self._name, self._key.public_key()).add_extension(constraint, critical=True)
        self.pem = certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def sign(self, common_name: str, *names: str) -> tuple[bytes, bytes]:
        """Certificate and key; `names` are host names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), self._name, key.public_key())
        if names:
            alternative = x509.SubjectAlternativeName([_alternative(name) for name in names])
            builder = builder.add_extension(alternative, critical=False)
        return (
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - YEAR)
        .not_valid_after(now + YEAR)
    )


def server_tls(authority: Authority, *names: str, clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, *authority.sign("server", *names))
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.pem.decode())
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + key)
        file.flush()
        context.load_cert_chain(file.name)
