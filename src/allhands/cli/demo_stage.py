"""What a scene of the demo can do: submit jobs as a user would, over HTTP, and wait for what was promised.

One task watches the cluster and tells everybody what is new. A promise that is not kept in time ends the story with an
error that says which; nothing waits without an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.cli.demo_cast import ALL_REDUCE, CONFIG_MAPS, JOBS, NAMESPACE, PRIORITY_CLASSES, QUEUES, all_reduce
from allhands.cli.demo_cast import priority_classes as demo_priority_classes
from allhands.cli.demo_cast import queues as demo_queues
from allhands.cli.demo_history import History
from allhands.cli.demo_picture import painted
from allhands.cli.looking import EVENTS, GROUP_PARTS, NODES, LivePictures, look, now_seconds
from allhands.kube.log_stream import LogStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.cli.demo_cast import Role
    from allhands.cli.demo_screen import Screen
    from allhands.kube.kubeconfig import Access
    from allhands.kube.objects import KubeObjects

POLL_SECONDS: Final = 0.05
REPAINT_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 25.0
"""For one promise. Everything that is promised takes a few seconds; a busy machine may take longer."""
NOT_FOUND: Final = 404


def free_port() -> int:
    """One that nobody uses now: other demos and clusters of this machine give their pods the same addresses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class PromiseBrokenError(RuntimeError):
    """Something that the demo says will happen did not; the text says what."""


class Stage:
    """Use as an async context manager: then the cluster is set up, and watched until the end."""

    def __init__(
        self,
        client: KubeObjects,
        access: Access,
        screen: Screen,
        racks: Mapping[str, str],
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.client = client
        self._patience_seconds = patience_seconds
        self.screen = screen
        self.history = History(racks)
        self._access = access
        self._changed = asyncio.Event()
        self._began = asyncio.get_running_loop().time()
        self._watching: asyncio.Task[None] | None = None

    def at(self) -> float:
        """Seconds since the story began."""
        return asyncio.get_running_loop().time() - self._began

    # -- what a user does

    async def submit(self, *roles: Role) -> None:
        for role in roles:
            self.history.submit(role.name, self.at())
            await self.client.create(JOBS, role.manifest(), NAMESPACE)

    async def submit_all_reduce(self) -> None:
        """The example as it is in the source tree: a ConfigMap with the program, and the Job."""
        config, job = all_reduce(free_port())
        await self.client.create(CONFIG_MAPS, config, NAMESPACE)
        self.history.submit(ALL_REDUCE, self.at())
        await self.client.create(JOBS, job, NAMESPACE)

    async def last_lines(self, job: str) -> list[str]:
        """The last line that each pod of a job has written, in the order of their names."""
        picture = await look(self.client, GROUP_PARTS, NAMESPACE)
        names = sorted(it.record.pod.name for it in picture.pods if it.record.job_name == job)
        lines: list[str] = []
        async with LogStream(self._access) as stream:
            for name in names:
                written = b"".join([chunk async for chunk in stream.read(NAMESPACE, name, {"tailLines": "1"})])
                lines += written.decode(errors="replace").splitlines()[-1:]
        return lines

    # -- what is promised

    async def until(self, promise: str, is_kept: Callable[[History], bool]) -> None:
        """Waits for it; raises PromiseBrokenError if it does not come, or a job fails instead."""
        try:
            async with asyncio.timeout(self._patience_seconds):
                while not is_kept(self.history):
                    if failed := self.history.failed():
                        raise PromiseBrokenError(f"{promise}; instead, {', '.join(failed)} failed")
                    await self._news()
        except TimeoutError:
            raise PromiseBrokenError(f"{promise}, within {self._patience_seconds:g} s") from None

    async def _news(self) -> None:
        changed = asyncio.ensure_future(self._changed.wait())
        assert self._watching is not None, "used outside `async with`"
        try:
            await asyncio.wait((changed, self._watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if self._watching.done():
            self._watching.result()  # it never ends by itself: this raises what ended it
        self._changed.clear()

    # -- what everybody sees

    async def set_up(self) -> None:
        """Queues and priorities. The kind of queues is brought by the cluster itself, just after it has begun."""
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._queues_are_known()
        except TimeoutError:
            raise PromiseBrokenError(f"the cluster knows queues within {self._patience_seconds:g} s") from None
        for queue in demo_queues():
            await self.client.create(QUEUES, queue)
        for priority_class in demo_priority_classes():
            await self.client.create(PRIORITY_CLASSES, priority_class)

    async def _queues_are_known(self) -> None:
        while True:
            try:
                await self.client.get(QUEUES, "default")
            except StatusError as refusal:
                if refusal.code != NOT_FOUND:
                    raise
                await asyncio.sleep(POLL_SECONDS)
            else:
                return

    async def watch(self) -> None:
        """Until cancelled: every change is written down, told and painted."""
        async with LivePictures(self.client, (*GROUP_PARTS, NODES, EVENTS), NAMESPACE) as live:
            picture = live.first
            while True:
                at = self.at()
                for news in self.history.see(picture, at):
                    self.screen.news(at, news)
                self.screen.paint(painted(picture, self.history, now_seconds()))
                self._changed.set()
                picture = await live.next(REPAINT_SECONDS)

    async def __aenter__(self) -> Stage:
        await self.set_up()
        self._began = asyncio.get_running_loop().time()
        self._watching = asyncio.create_task(self.watch(), name="demo: watching")
        return self

    async def __aexit__(self, *reason: object) -> None:
        del reason
        assert self._watching is not None
        self._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watching
