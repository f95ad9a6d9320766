"""Volcano's other kinds on an embedded cluster whose pods are processes: a flow that asks a real server over HTTP, a
CronJob that has missed its times, HyperNodes and Numatopologies."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.local_node import LocalNode
from allhands.api.errors import StatusError
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.compose.embedded import embedded
from allhands.compose.system import SystemOptions
from allhands.ports import Query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from allhands.api.definitions import Definition
    from allhands.compose.embedded import EmbeddedCluster

WITHIN_SECONDS = 150
pytestmark = pytest.mark.timeout(300)
PORT = 18080
SERVER = f"""
import http.server, os

class Once(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = self.path == "/up" and self.headers["X-Who"] == "flow"
        self.send_response(200 if good else 404)
        self.end_headers()
        self.server.is_done = good

with http.server.HTTPServer((os.environ["ALLHANDS_POD_IP"], {PORT}), Once) as server:
    server.is_done = False
    while not server.is_done:
        server.handle_request()
"""


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[EmbeddedCluster]:
    here = LocalNode(name="here", capacity={"cpu": "4", "memory": "4Gi"})
    system = SystemOptions(process_node=here, process_folder=folder / "pods")
    async with embedded(folder / "data", nodes=0, system=system) as cluster, asyncio.timeout(WITHIN_SECONDS):
        yield cluster


def job_spec(*command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "local", "command": list(command)}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"tasks": [{"name": "work", "replicas": 1, "template": template}]}


async def make(cluster: EmbeddedCluster, kind: Definition, name: str, spec: dict[str, Any]) -> None:
    namespace = "default" if kind.namespaced else ""
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    while True:
        try:
            await cluster.objects.create(kind.resource, manifest, namespace)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            await asyncio.sleep(0.05)  # the kind is not served yet
        else:
            return


async def reaches(
    cluster: EmbeddedCluster, kind: Definition, name: str, good: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The object, as soon as its status is as wanted."""
    query = Query(namespace="default" if kind.namespaced else "", fields=f"metadata.name={name}")
    watch = await cluster.objects.watch(kind.resource, query)
    try:
        async for event in watch:
            manifest = event.manifest()
            if event.type in ("ADDED", "MODIFIED") and good(manifest.get("status") or {}):
                return manifest
    finally:
        await watch.close()
    raise AssertionError(f"the watch of {name} ended")


async def test_a_step_begins_when_a_real_server_answers_and_the_flow_succeeds(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await make(cluster, JOB_TEMPLATE, "serve", job_spec(sys.executable, "-c", SERVER))
        await make(cluster, JOB_TEMPLATE, "ask", job_spec("true"))
        asked = {"taskName": "work", "path": "/up", "port": PORT, "httpHeader": {"name": "X-Who", "value": "flow"}}
        steps = [
            {"name": "serve"},
            {"name": "ask", "dependsOn": {"targets": ["serve"], "probe": {"httpGetList": [asked]}}},
        ]
        await make(cluster, JOB_FLOW, "f", {"flows": steps})
        done = await reaches(cluster, JOB_FLOW, "f", lambda it: it.get("state", {}).get("phase") == "Succeed")
        assert sorted(done["status"]["completedJobs"]) == ["f-ask", "f-serve"]
        assert set(done["status"]["conditions"]) == {"f-ask", "f-serve"}


async def test_a_cron_job_that_missed_its_times_makes_its_last_job_once(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await make(cluster, CRON_JOB, "tick", {"schedule": "0 * * * *", "jobTemplate": {"spec": job_spec("true")}})
        missed = {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}
        await cluster.objects.patch(CRON_JOB.resource, "tick", "merge", missed, "default", subresource="status")
        await reaches(cluster, CRON_JOB, "tick", lambda it: "lastSuccessfulTime" in it and not it.get("active"))
        jobs = (await cluster.objects.list(JOB.resource, Query(namespace="default"))).items
        assert 1 <= len(jobs) <= 2  # two if the hour has just struck


async def test_what_is_said_of_nodes_is_answered_in_conditions(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        members = [{"type": "Node", "selector": {"exactMatch": {"name": "here"}}}]
        await make(cluster, HYPER_NODE, "leaf", {"tier": 1, "members": members})
        await make(cluster, NUMATOPOLOGY, "here", {"policies": {"TopologyManagerPolicy": "none"}})
        leaf = await reaches(cluster, HYPER_NODE, "leaf", lambda it: it.get("nodeCount") == 1)
        assert [(it["type"], it["status"]) for it in leaf["status"]["conditions"]] == [("Accepted", "True")]
        here = await reaches(cluster, NUMATOPOLOGY, "here", bool)
        assert [(it["type"], it["status"]) for it in here["status"]["conditions"]] == [("Used", "False")]
