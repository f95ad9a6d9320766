"""What a container writes, read from the API server as it comes: chunks of bytes, for as long as there are any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.kube.connections import UNLIMITED, Connector, tls_context
from allhands.kube.objects import REQUEST_SECONDS, path_to, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from allhands.kube.kubeconfig import Access

PODS = Resource("", "v1", "pods")


class LogStream:
    """Use as an async context manager; each stream holds a connection."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> LogStream:
        connector = Connector(tls_context(self._access), UNLIMITED)
        self._session = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(self, *reason: object) -> None:
        del reason
        if self._session is not None:
            await self._session.close()

    def _headers(self) -> dict[str, str]:
        token = self._access.token
        if self._access.token_file:
            token = Path(self._access.token_file).read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def read(self, namespace: str, pod: str, options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Ends with the container's output, or when the connection does. `options` are those of the API."""
        assert self._session is not None, "used outside `async with`"
        url = self._access.server + path_to(PODS, namespace, pod, "log")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS)
        try:
            async with self._session.get(url, params=options, headers=self._headers(), timeout=timeout) as answer:
                if answer.status >= 400:
                    raise refusal(answer.status, await answer.read())
                async for chunk in answer.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StatusError(503, "ServiceUnavailable", f"{self._access.server} cannot be reached: {error}") from error
