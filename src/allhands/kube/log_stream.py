"""What a container writes, read from the API server as it comes: chunks of bytes, for as long as there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.kinds import Resource
from allhands.kube.paths import asked, path_to
from allhands.kube.transport import DEFAULTS, Settings, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from allhands.kube.access import Access

PODS: Final = Resource("", "v1", "pods")


class LogStream:
    """Use as an async context manager; each stream holds a connection."""

    def __init__(self, access: Access, settings: Settings = DEFAULTS) -> None:
        self._transport = Transport(access, settings)

    async def __aenter__(self) -> LogStream:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self._transport.__aexit__(*reason)

    async def read(self, namespace: str, pod: str, options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Ends with the container's output, or when the connection does. `options` are those of the API."""
        what, path = asked("get", PODS, namespace, pod, "log"), path_to(PODS, namespace, pod, "log")
        body = await self._transport.stream(what, path, options, lasts_seconds=None, is_json=False)
        try:
            while chunk := await body.readany():
                yield chunk
        finally:
            body.close()
