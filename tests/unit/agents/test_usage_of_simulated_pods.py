"""What pods on simulated nodes are taken to use: what they request, while they run."""

from __future__ import annotations

import asyncio
from typing import Any

from allhands.agents.simulated import SimulatedKubelets
from tests.manifests import PODS
from tests.unit.agents.virtual import World, in_virtual_time

GIB = 2**30


def container(name: str, **requests: str) -> dict[str, Any]:
    return {"name": name, "image": "none", "resources": {"requests": requests}}


async def begin(world: World) -> SimulatedKubelets:
    agent = SimulatedKubelets(world.objects, world.clock)
    for name in ("n1", "n2"):
        await world.add_node(name)
    world.start(agent)
    return agent


async def add(world: World, name: str, node: str = "n1", seconds: int = 30, **spec: Any) -> None:
    containers = [container("main", cpu="250m", memory="1Gi"), container("beside", cpu="2")]
    annotations = {"sim.allhands.dev/start-delay-seconds": "2", "sim.allhands.dev/run-seconds": str(seconds)}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": containers, **spec},
    }
    await world.objects.create(PODS, body, "default")


def test_a_pod_uses_its_requests_while_it_runs_and_only_then() -> None:
    async def story(world: World) -> None:
        agent = await begin(world)
        await add(world, "a")
        await asyncio.sleep(1)
        assert await agent.of_pods(["default/a"]) == {}
        await asyncio.sleep(5)
        used = (await agent.of_pods(["default/a", "default/b"]))["default/a"]
        assert {name: (it.cpu_nanos, it.memory_bytes) for name, it in used.containers.items()} == {
            "main": (250_000_000, GIB),
            "beside": (2_000_000_000, 0),
        }
        assert used.measured_at == world.clock.now()
        await asyncio.sleep(40)
        assert await agent.of_pods(["default/a"]) == {}

    in_virtual_time(story)


def test_sidecars_run_beside_and_init_containers_before() -> None:
    async def story(world: World) -> None:
        agent = await begin(world)
        sidecar = container("sidecar", memory="2Gi") | {"restartPolicy": "Always"}
        await add(world, "a", initContainers=[sidecar, container("init", cpu="4")])
        await asyncio.sleep(6)
        used = (await agent.of_pods(["default/a"]))["default/a"]
        assert sorted(used.containers) == ["beside", "main", "sidecar"]

    in_virtual_time(story)


def test_a_node_uses_what_its_pods_use_and_a_dead_one_says_nothing() -> None:
    async def story(world: World) -> None:
        agent = await begin(world)
        for name in ("a", "b"):
            await add(world, name)
        await asyncio.sleep(6)
        nodes = await agent.of_nodes(["n1", "n2", "n3"])
        assert {name: it.usage.cpu_nanos for name, it in nodes.items()} == {"n1": 4_500_000_000, "n2": 0}
        assert nodes["n1"].usage.memory_bytes == 2 * GIB
        agent.kill("n1")
        assert list(await agent.of_nodes(["n1", "n2"])) == ["n2"]
        assert await agent.of_pods(["default/a"]) == {}

    in_virtual_time(story)
