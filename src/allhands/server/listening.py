"""Where a server listens: the socket, and what is allowed. A port that is taken or not ours is told before anything of
the server is loaded, which takes a while.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

import msgspec

BACKLOG: Final = 1024


class Address(msgspec.Struct, frozen=True):
    """Where the server listens."""

    host: str
    port: int
    secure: bool

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listener(host: str, port: int, *, beyond_loopback: bool = False) -> socket.socket:
    """A socket that is bound to a loopback address, or if allowed to any; port 0 takes a free one."""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        wanted = "an address of this machine" if beyond_loopback else "a loopback address"
        raise ValueError(f"the server listens on {wanted}, not on {host!r}") from None
    if not parsed.is_loopback and not beyond_loopback:
        raise ValueError(f"the server listens on a loopback address, not on {host!r}")
    family = socket.AF_INET6 if parsed.version == 6 else socket.AF_INET
    # asyncio turns off Nagle's delay only where the protocol is named; without that each answer waits for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
