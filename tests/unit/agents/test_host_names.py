"""Hosts of a Volcano Job have addresses instead of names on process nodes, wherever a pod's text names them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.host_names import NO_NAMES, HostNames
from allhands.agents.peers import Peers
from allhands.api.errors import StatusError
from tests.frameworks import start
from tests.manifests import PODS
from tests.plugin_jobs import job_manifest, task
from tests.unit.agents.local import local

if TYPE_CHECKING:
    from pathlib import Path

NAMES = HostNames({"job-a-0.job": "127.0.0.9", "job-a-1.job": "127.0.0.8"}, "ns")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("job-a-0.job", "127.0.0.9"),
        ("job-a-0.job:22,job-a-1.job:22", "127.0.0.9:22,127.0.0.8:22"),
        ('{"worker":["job-a-1.job:1"]}', '{"worker":["127.0.0.8:1"]}'),
        ("--address=job-a-0.job.ns.svc.cluster.local:80", "--address=127.0.0.9:80"),
        ("job-a-0.job.ns.svc job-a-0.job.ns", "127.0.0.9 127.0.0.9"),
        (
            "my-job-a-0.job job-a-0.job2 job-a-0.job.other job-a-0",
            "my-job-a-0.job job-a-0.job2 job-a-0.job.other job-a-0",
        ),
        ("tcp://root@job-a-0.job/x.", "tcp://root@127.0.0.9/x."),
        ("", ""),
    ],
)
def test_a_whole_name_is_replaced_and_nothing_else(text: str, found: str) -> None:
    assert NAMES.replaced(text) == found
    assert NAMES.replaced_bytes(text.encode()) == found.encode()


def test_what_is_no_text_stays_as_it_is() -> None:
    assert NAMES.replaced_bytes(b"\xff job-a-0.job") == b"\xff job-a-0.job"
    assert NO_NAMES.replaced("job-a-0.job") == "job-a-0.job"


async def test_pods_of_a_job_read_each_others_addresses_in_variables_commands_and_files(tmp_path: Path) -> None:
    script = "echo $VC_WORKER_HOSTS; echo job-boss-0.job; cat $ALLHANDS_POD_ROOT/etc/volcano/worker.host; echo"
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    both: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    manifest = job_manifest({"svc": []}, task("boss", **both), task("worker", 2, **both))
    async with local(tmp_path) as here:
        await start(here, manifest)
        pods = ("job-boss-0", "job-worker-0", "job-worker-1")
        statuses = await asyncio.gather(*(here.ended(name) for name in pods))
        boss, *workers = (status["podIP"] for status in statuses)
        assert len({boss, *workers}) == 3
        for name in pods:
            assert (await here.log(name)).split() == [",".join(workers), boss, *workers]


async def test_a_pod_that_takes_anothers_place_has_its_address_and_the_last_gives_all_back(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await start(here, job_manifest({"svc": []}, task("a", 2)))
        stored = [(await here.objects.get(PODS, f"job-a-{index}", "default")).manifest() for index in (0, 1)]
        peers = Peers(here.objects, "127.9.0.0/29")
        first = [await peers.place(pod) for pod in stored]
        again = {**stored[1], "metadata": {**stored[1]["metadata"], "uid": "another"}}
        peers.leave(stored[1]["metadata"]["uid"])
        assert (await peers.place(again)).address == first[1].address != first[0].address
        peers.leave("another")
        peers.leave(stored[0]["metadata"]["uid"])
        names = [f"{number}" for number in range(6)]
        alone = [{"metadata": {"uid": name}, "spec": {}} for name in names]
        assert len({(await peers.place(pod)).address for pod in alone}) == 6, "all six are free again"


async def test_more_hosts_than_there_are_addresses_is_told_and_takes_none(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await start(here, job_manifest({"svc": []}, task("a", 7)))
        stored = (await here.objects.get(PODS, "job-a-0", "default")).manifest()
        peers = Peers(here.objects, "127.9.0.0/29")
        with pytest.raises(StatusError, match="7 loopback addresses are not free on this node"):
            await peers.place(stored)
        assert (await peers.place({"metadata": {"uid": "alone"}, "spec": {}})).address == "127.9.0.1"
