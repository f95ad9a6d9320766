"""A certificate that is served and can be exchanged while the server runs: new connections get the new one.

Key and certificate go to the TLS library through memory, where the system has files in memory: a container whose root
is read-only has no place to write them, and a key that was never in a folder cannot be left there.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.server.certificates import Pair


class LiveTls:
    """Serves with the pair that it was told to use last. With `clients`, the text of authorities, only who shows a
    certificate of one of these is let in."""

    def __init__(self, pair: Pair, clients: str = "") -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        if clients:
            self._context.load_verify_locations(cadata=clients)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self.pair = pair
        self.use(pair)

    def context(self) -> ssl.SSLContext:
        return self._context

    def use(self, pair: Pair) -> None:
        with _readable(pair.key_pem() + pair.certificate_pem()) as path:
            self._context.load_cert_chain(path)
        self.pair = pair


@contextlib.contextmanager
def _readable(content: bytes) -> Iterator[str]:
    """A path at which the content can be read, for as long as this is open."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
