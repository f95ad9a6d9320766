"""A range of loopback addresses for each agent: two of them on one machine must not give the same address to two pods.

A range is claimed by a name that the kernel keeps for this network namespace, and lets go of when the agent ends,
however it ends. Nothing is left behind in files.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

RANGES: Final = 64
FIRST: Final = 64
"""From 127.64 on: those below are everybody's."""
EVERYBODYS: Final = "127.0.0.0/8"
CLAIM: Final = "allhands-loopback"


@contextlib.contextmanager
def claimed_range(wish: str, claim_name: str = CLAIM) -> Iterator[str]:
    """A network that is ours as long as the block lasts; the same for the same wish, if it is free. Only who claims by
    the same name is kept apart."""
    if sys.platform != "linux":
        yield EVERYBODYS  # there all pods are at one address
        return
    first = zlib.crc32(wish.encode()) % RANGES
    for step in range(RANGES):
        number = (first + step) % RANGES
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as claim:
            try:
                claim.bind(f"\0{claim_name}-{number}")
            except OSError as problem:
                if problem.errno != errno.EADDRINUSE:
                    raise
                continue
            yield f"127.{FIRST + number}.0.0/16"
            return
    raise OSError(errno.EADDRNOTAVAIL, f"all {RANGES} ranges of loopback addresses are taken by other agents")
