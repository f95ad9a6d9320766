"""What all local pods of one agent share: where their files are, what they inherit, and who watches their memory."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.log_files import DEFAULT_LOG_BYTES
from allhands.agents.processes import resident_bytes_by_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MEMORY_CHECK_SECONDS: Final = 0.5
_INHERITED: Final = ("PATH", "LANG", "LC_ALL", "TZ")


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` belongs to the agent alone: what is left in it from earlier is removed."""

    folder: Path
    log_bytes: int = DEFAULT_LOG_BYTES
    """The most that the log of one run of one container takes."""
    host_paths: tuple[Path, ...] = ()
    """What hostPath volumes may show."""
    volume_folders: tuple[Path, ...] = ()
    """Below which the volumes are that claims are bound to."""
    retry_seconds: float = 5.0
    """How often to look again for what a container needs and is not there."""
    first_back_off_seconds: float = 10.0
    most_back_off_seconds: float = 300.0
    shutdown_grace_seconds: float = 2.0
    """What processes get at most when the agent itself ends."""

    def inherited(self) -> dict[str, str]:
        """All that processes get of the agent's own environment; never its secrets."""
        found = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        # `python` is the one that runs this: its packages are known to be there.
        found["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", os.defpath)])
        return found


class MemoryWatch:
    """Kills what holds more memory than its limit, as a kernel would a container."""

    def __init__(self, sizes: Callable[[], Mapping[int, int]] = resident_bytes_by_session) -> None:
        self._sizes = sizes
        self._watched: dict[int, tuple[int, Callable[[], None]]] = {}
        self._news = asyncio.Event()

    def watch(self, session: int, limit_bytes: int, exceeded: Callable[[], None]) -> None:
        self._watched[session] = (limit_bytes, exceeded)
        self._news.set()

    def forget(self, session: int) -> None:
        self._watched.pop(session, None)

    async def run(self) -> None:
        while True:
            while not self._watched:
                self._news.clear()
                await self._news.wait()
            self.look()
            await asyncio.sleep(MEMORY_CHECK_SECONDS)

    def look(self) -> None:
        sizes = self._sizes()
        for session, (limit_bytes, exceeded) in list(self._watched.items()):
            if sizes.get(session, 0) > limit_bytes:
                self.forget(session)
                exceeded()
