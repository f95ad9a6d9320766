"""What every connection to an API server has, whoever makes it: how it notices that the other side is gone, and how it
knows whom it speaks to. Nothing is connected here."""

from __future__ import annotations

import re
import socket
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, Final

from allhands.kube.kubeconfig_fields import KubeconfigError

if TYPE_CHECKING:
    from allhands.kube.access import Access

CONNECT_SECONDS: Final = 30.0
KEEP_ALIVE_SECONDS: Final = 30.0
"""An idle connection is used again for so long; API servers keep them longer."""
_KEEP_ALIVE_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)
"""Seconds of silence until the other side is asked, between questions, how many; and milliseconds for which what was
sent may stay unconfirmed."""
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def watched_socket(address: Any) -> socket.socket:
    """A connection whose other side has vanished is noticed by the kernel, also while nothing is to be said: a watch
    would otherwise wait for ever."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE_OPTIONS:
        if (option := getattr(socket, name, None)) is not None:  # not every system has them all
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def tls_context(access: Access) -> ssl.SSLContext:
    """Verifies the server unless the kubeconfig says otherwise; shows our certificate if we have one."""
    context = ssl.create_default_context(cadata=_certificates(access.ca_pem) if access.ca_pem else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate_pem:
        # The standard library loads client certificates from files only.
        with tempfile.NamedTemporaryFile() as file:
            file.write(access.client_certificate_pem + b"\n" + access.client_key_pem)
            file.flush()
            context.load_cert_chain(file.name, password=b"")  # a key with a password is refused, nobody is asked for it
    return context


def _certificates(pem: bytes) -> str:
    """Those in the text; what else stands in a bundle, such as names in any language, is left out."""
    found = _CERTIFICATE.findall(pem)
    if not found:
        raise KubeconfigError("certificate-authority: holds no certificate in PEM form")
    return b"\n".join(found).decode("ascii", errors="replace")
