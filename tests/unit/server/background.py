"""The whole server in a thread of its own, over a store, for clients that are other programs."""

from __future__ import annotations

import asyncio
import datetime
import threading
from typing import TYPE_CHECKING, Self

from allhands.server.app import build_app
from allhands.server.kubeconfig import write_kubeconfig
from allhands.server.listening import Address
from allhands.server.serve import serving
from allhands.server.tls import ServerTls, server_tls
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds
from tests.unit.server.asgi_client import TOKEN

if TYPE_CHECKING:
    from pathlib import Path


class WallClock:
    """Other programs look at the real time."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class Background:
    """`with Background(folder) as server:` gives a running server with a kubeconfig."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.tls: ServerTls = server_tls(folder / "tls", WallClock())
        self.address = Address("", 0, secure=True)
        self.failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"
        if self.failure is not None:
            raise self.failure
        return self

    def __exit__(self, *_error: object) -> None:
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not end"
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        clock = WallClock()
        store = Store(clock, CountingIds())
        app = build_app(InProcessObjects(store), store.kinds, token=TOKEN, clock=clock)
        keeper = asyncio.create_task(store.housekeeper.run())
        async with serving(app, "127.0.0.1", 0, self.tls) as self.address:
            write_kubeconfig(self.kubeconfig, self.address.url, self.tls.authority_pem(), TOKEN)
            self._ready.set()
            await self._over.wait()
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
