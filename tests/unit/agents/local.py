"""A store and a process agent on the real loop, and ways to wait for what pods become, without sleeping."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allhands.agents.local_node import LocalNode
from allhands.agents.process import ProcessAgent
from allhands.agents.workplace import Workplace
from allhands.compose.machine import RandomIds, SystemClock
from allhands.ports import DeleteOptions, Query
from allhands.runtime.recorder import Recorder
from allhands.store import InProcessObjects, Store
from tests.manifests import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from allhands.agents.logs import LogOptions

Manifest = dict[str, Any]
PATIENCE_SECONDS = 30
NODE = "here"


class Local:
    """What a test sees."""

    def __init__(self, folder: Path, **workplace: Any) -> None:
        self.store = Store(SystemClock(), RandomIds())
        self.objects = InProcessObjects(self.store)
        self.folder = folder
        fast: Manifest = {"retry_seconds": 0.05, "first_back_off_seconds": 0.05, "shutdown_grace_seconds": 0.2}
        self.workplace = Workplace(folder=folder, **{**fast, **workplace})
        self.start()

    def start(self) -> None:
        node = LocalNode(name=NODE, capacity={"cpu": "8", "memory": "8Gi"})
        recorder = Recorder(self.objects, SystemClock(), "process-agent", per_second=1000)
        self.agent = ProcessAgent(self.objects, SystemClock(), node, self.workplace, recorder=recorder)
        self.task = asyncio.create_task(self._run(recorder))

    async def _run(self, recorder: Recorder) -> None:
        telling = asyncio.create_task(recorder.run())
        try:
            await self.agent.run()
        finally:
            telling.cancel()

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def crash(self) -> None:
        """The agent is gone without a word, its processes are not."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def add(self, name: str, *command: str, **more: Any) -> None:
        container = {"name": "main", "image": "none", "command": list(command), **more.pop("container", {})}
        spec = {"restartPolicy": "Never", "nodeName": NODE, "containers": [container], **more.pop("spec", {})}
        metadata = {"name": name, **more}
        await self.objects.create(PODS, {"metadata": metadata, "spec": spec}, "default")

    async def pod(self, name: str) -> Manifest:
        return (await self.objects.get(PODS, name, "default")).manifest()

    async def when(
        self, name: str, is_so: Callable[[Manifest], bool], patience_seconds: float = PATIENCE_SECONDS
    ) -> Manifest:
        """The pod, as soon as it is so."""
        watch = await self.objects.watch(PODS, Query(namespace="default", fields=f"metadata.name={name}"))
        last: Manifest = {}
        try:
            async with asyncio.timeout(patience_seconds):
                async for event in watch:
                    last = event.manifest()
                    if event.type != "DELETED" and is_so(last):
                        return last
        except TimeoutError:
            raise AssertionError(f"{name} did not become so: {last.get('status')}") from None
        finally:
            await watch.close()
        raise AssertionError("the watch ended")

    async def ended(self, name: str, patience_seconds: float = PATIENCE_SECONDS) -> Manifest:
        """The pod's status once it is over."""
        pod = await self.when(name, lambda it: it["status"].get("phase") in ("Succeeded", "Failed"), patience_seconds)
        status: Manifest = pod["status"]
        return status

    async def running(self, name: str) -> Manifest:
        pod = await self.when(name, lambda it: it["status"].get("phase") == "Running")
        status: Manifest = pod["status"]
        return status

    async def gone(self, name: str) -> None:
        query = Query(namespace="default", fields=f"metadata.name={name}")
        watch = await self.objects.watch(PODS, query)
        if not (await self.objects.list(PODS, query)).items:
            return
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for event in watch:
                if event.type == "DELETED":
                    break
        await watch.close()

    async def delete(self, name: str, grace_seconds: int | None = None) -> None:
        await self.objects.delete(PODS, name, "default", DeleteOptions(grace_seconds=grace_seconds))

    async def log(self, name: str, options: LogOptions | None = None) -> str:
        more = () if options is None else (options,)
        reading = await self.agent.logs("default", name, *more)
        return b"".join([piece async for piece in reading]).decode()

    def processes(self) -> list[int]:
        """The processes of this agent's pods that are alive."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and f"ALLHANDS_POD_ROOT={self.folder}".encode() in (
                    (entry / "environ").read_bytes()
                ):
                    found.append(int(entry.name))
        return found


@contextlib.asynccontextmanager
async def local(folder: Path, **workplace: Any) -> AsyncIterator[Local]:
    """Afterwards, no process of its pods is left."""
    here = Local(folder, **workplace)
    try:
        yield here
    finally:
        await here.stop()
        left = here.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert left == [], "a process was left behind"
