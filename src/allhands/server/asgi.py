"""The types of ASGI, as far as the face speaks it. The protocol is a convention between dicts; it needs no library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ABORT: Final = "allhands.abort"
"""The ASGI extension by which our server lets the application cut a connection."""
