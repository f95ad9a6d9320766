"""Jobs of MPI, TensorFlow, PyTorch and Ray: what their programs read to find each other, and that the Job ends when the
one that matters has ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.compat.volcano.stage import SECRETS, SERVICES
from tests.compat.volcano.story import Stories
from tests.manifests import CONFIG_MAPS, PODS

if TYPE_CHECKING:
    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.stage import Stage
    from tests.compat.volcano.story import Story

pytestmark = pytest.mark.timeout(900)
STORIES = Stories()


@STORIES
async def mpi_by_its_plugin(stage: Stage) -> None:
    async with stage.keeping(SECRETS, SERVICES, CONFIG_MAPS, PODS) as kept:
        await stage.apply_file("mpi-plugin")
        await stage.ends("mpi")
        told = await stage.environment(await kept.get(PODS, "mpi-mpimaster-0"), kept)
        assert told["MPI_HOST"] == "mpi-mpiworker-0.mpi,mpi-mpiworker-1.mpi"
        for name in ("mpi-mpimaster-0", "mpi-mpiworker-1"):
            (container,) = (await kept.get(PODS, name))["spec"]["containers"]
            assert [(it["name"], it["containerPort"]) for it in container["ports"]] == [("mpijob-port", 22)]
            assert any(it["mountPath"].startswith("/root/.ssh") for it in container["volumeMounts"])
        await kept.get(SECRETS, "mpi-ssh")
        await kept.get(SERVICES, "mpi")


@STORIES
async def mpi_by_hand(stage: Stage) -> None:
    async with stage.keeping(CONFIG_MAPS) as kept:
        await stage.apply_file("mpi-by-hand")
        await stage.ends("mpi")
        hosts = (await kept.get(CONFIG_MAPS, "mpi-svc"))["data"]
        assert hosts["mpiworker.host"].split() == ["mpi-mpiworker-0.mpi", "mpi-mpiworker-1.mpi"]


@STORIES
async def tensorflow_by_its_plugin(stage: Stage) -> None:
    async with stage.keeping(CONFIG_MAPS, PODS) as kept:
        await stage.apply_file("tensorflow-plugin")
        await stage.ends("mnist")
        told = json.loads((await stage.environment(await kept.get(PODS, "mnist-worker-1"), kept))["TF_CONFIG"])
        assert told["cluster"] == {
            "ps": ["mnist-ps-0.mnist:2222"],
            "worker": ["mnist-worker-0.mnist:2222", "mnist-worker-1.mnist:2222"],
        }
        assert told["task"] == {"type": "worker", "index": 1}


@STORIES
async def tensorflow_by_hand(stage: Stage) -> None:
    async with stage.keeping(CONFIG_MAPS, PODS) as kept:
        await stage.apply_file("tensorflow-by-hand")
        await stage.ends("benchmark")
        told = await stage.environment(await kept.get(PODS, "benchmark-worker-1"), kept)
        assert told["VK_TASK_INDEX"] == "1"
        assert told["VC_PS_HOSTS"] == "benchmark-ps-0.benchmark"


@STORIES
async def pytorch_by_its_plugin(stage: Stage) -> None:
    async with stage.keeping(CONFIG_MAPS, PODS) as kept:
        await stage.apply_file("pytorch")
        await stage.ends("torch")
        for rank, name in enumerate(("torch-master-0", "torch-worker-0", "torch-worker-1")):
            told = await stage.environment(await kept.get(PODS, name), kept)
            assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("torch-master-0.torch", "23456")
            assert (told["WORLD_SIZE"], told["RANK"]) == ("3", str(rank))


@STORIES
async def ray_by_its_plugin(stage: Stage) -> None:
    async with stage.keeping(SERVICES, PODS) as kept:
        await stage.apply_file("ray")
        await stage.ends("ray")
        begun = " ".join((await kept.get(PODS, "ray-head-0"))["spec"]["containers"][0]["command"])
        assert "ray start --head" in begun
        assert "--port=6379" in begun
        joined = " ".join((await kept.get(PODS, "ray-worker-1"))["spec"]["containers"][0]["command"])
        assert "ray start" in joined
        assert "--address=ray-head-0.ray:6379" in joined
        ports = (await kept.get(SERVICES, "ray-head-svc"))["spec"]["ports"]
        assert {it["name"]: it["port"] for it in ports} == {"gcs": 6379, "dashboard": 8265, "client-server": 10001}


@pytest.mark.parametrize("story", STORIES, ids=lambda it: it.name)
def test_programs_of_a_framework_find_each_other(cluster: Cluster, story: Story) -> None:
    cluster.end_of(story.name)
