"""How much of the server one client may take. Every bound of the HTTP face is a field here."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of a real API server where it has one."""

    body_bytes: int = 3 * 1024 * 1024
    body_seconds: float = 30.0
    """A client that takes longer to send its body is refused."""
    header_bytes: int = 64 * 1024
    header_seconds: float = 30.0
    """A connection that has not sent a whole request head by then is closed."""
    keep_alive_seconds: int = 75
    requests_in_flight: int = 600
    """Requests that are answered at the same time, watches not counted."""
    watches: int = 4_000
    """A watch over TLS costs about 0.3 MiB, nearly all of it buffers of the connection."""
    watch_seconds: float = 30 * 60.0
    """How long a watch lives that did not ask for a time of its own."""
    write_seconds: float = 30.0
    """A client that does not read its answer or its watch for this long is cut off."""
    watch_batch_bytes: int = 64 * 1024
    """Events that are there already are written together, up to about this size."""
    bookmark_seconds: float = 60.0
    rows_per_turn: int = 250
    """After this many rows of a table other requests get their turn."""
    shutdown_seconds: float = 5.0
    """How long requests in flight may take when the server ends."""


DEFAULT_LIMITS = Limits()
