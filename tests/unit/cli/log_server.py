"""A small API server for `allhands logs`: one Job with two pods, whose containers write what a test says."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import yaml
from aiohttp import web

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 20
Output = list[bytes] | int
"""Chunks, or the code of a refusal."""


def pod(name: str, phase: str = "Succeeded", containers: tuple[str, ...] = ("main",)) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "5",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": it} for it in containers]},
        "status": {"phase": phase},
    }


class LogServer:
    """Runs in a thread with an event loop of its own."""

    def __init__(self, folder: Path, outputs: dict[str, Output], containers: tuple[str, ...] = ("main",)) -> None:
        self._folder = folder
        self._outputs = outputs
        self._pods = [pod(name, containers=containers) for name in sorted(outputs)]
        self.asked: list[dict[str, str]] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def kubeconfig(self) -> Path:
        return self._folder / "config"

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/default/pods/{name}/log", self._log)
        app.router.add_get("/api/v1/namespaces/default/pods", self._list_pods)
        app.router.add_get("/apis/batch/v1/namespaces/default/jobs", self._list_jobs)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        document = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _listed(self, request: web.Request, items: list[dict[str, Any]]) -> web.StreamResponse:
        if request.query.get("watch"):
            answer = web.StreamResponse()
            await answer.prepare(request)
            await self._stop.wait()
            return answer
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": items})

    async def _list_pods(self, request: web.Request) -> web.StreamResponse:
        return await self._listed(request, self._pods)

    async def _list_jobs(self, request: web.Request) -> web.StreamResponse:
        done = {"conditions": [{"type": "Complete", "status": "True"}]}
        metadata = {"name": "train", "namespace": "default", "uid": "j", "resourceVersion": "5"}
        return await self._listed(request, [{"metadata": metadata, "spec": {}, "status": done}])

    async def _log(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        output = self._outputs[request.match_info["name"]]
        if isinstance(output, int):
            status = {
                "kind": "Status",
                "code": output,
                "reason": "BadRequest",
                "message": "container is waiting to start",
            }
            return web.Response(status=output, text=json.dumps(status))
        answer = web.StreamResponse()
        await answer.prepare(request)
        for chunk in output:
            await answer.write(chunk)
            await asyncio.sleep(0)
        return answer

    def __enter__(self) -> LogServer:
        self._thread.start()
        assert self._ready.wait(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
