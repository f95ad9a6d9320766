"""Laws of simulated kubelets: faults at the port, and a restart of the agent at any moment, change no pod's end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.agents.admission import Usage
from allhands.agents.behaviour import Behaviour, Uniform
from allhands.agents.seen import SpecSeen
from allhands.agents.simulated import SimulatedKubelets
from allhands.api.errors import StatusError, conflict
from allhands.model.affinity import NO_NODE_AFFINITY
from allhands.model.pod import HostPort
from allhands.model.resources import ResourceVector
from tests.depth import examples
from tests.manifests import PODS
from tests.unit.agents.virtual import World, in_virtual_time

if TYPE_CHECKING:
    from allhands.ports import Objects

PODS_IN_STORY = 12
LONG_ENOUGH_SECONDS = 4_000


class FaultyWrites:
    """The port, with writes that come late, are refused, or are done without anybody hearing of it."""

    def __init__(self, objects: Objects, seed: int, rate: float) -> None:
        self._objects = objects
        self._chance = random.Random(seed)
        self._rate = rate

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._objects, name)
        if name not in ("patch", "delete", "create", "get"):
            return verb

        async def faulty(*arguments: Any, **more: Any) -> Any:
            fate = self._chance.random() / self._rate if self._rate else 9.0
            if fate < 0.25:
                await asyncio.sleep(self._chance.random() * 5)
            elif fate < 0.5:
                raise conflict("", "pods", "any", "it was changed")
            elif fate < 0.75:
                raise StatusError(503, "ServiceUnavailable", "not now")
            answer = await verb(*arguments, **more)
            if 0.75 <= fate < 1:
                raise StatusError(504, "Timeout", "the reply was lost")
            return answer

        return faulty


def ends(seed: int, rate: float, restarts: list[int], deleted: set[int]) -> list[tuple[str, int, int]]:
    """How each pod ended: phase, exit code, restarts."""

    async def story(world: World) -> list[tuple[str, int, int]]:
        await world.add_node("n1", cpu="100", memory="100Gi")
        behaviour = Behaviour(pull=Uniform(0, 9), run=Uniform(5, 90), failure_rate=0.4)

        def agent() -> SimulatedKubelets:
            objects: Any = FaultyWrites(world.objects, seed, rate)
            return SimulatedKubelets(objects, world.clock, behaviour=behaviour, seed=7, workers=3)

        present = agent()
        world.start(present)
        for number in range(PODS_IN_STORY):
            policy = "OnFailure" if number % 3 == 0 else "Never"
            await world.add_pod(f"p{number}", restartPolicy=policy)
        for pause in restarts:
            await asyncio.sleep(pause)
            await world.stop(present)
            present = agent()
            world.start(present)
        for number in sorted(deleted):
            await world.delete_pod(f"p{number}")
        await asyncio.sleep(LONG_ENOUGH_SECONDS)
        left = await world.pod_names()
        assert not {f"p{number}" for number in deleted} & set(left), "what is deleted goes"
        found = []
        for number in range(PODS_IN_STORY):
            if number not in deleted:
                status = await world.status(f"p{number}")
                container = status["containerStatuses"][0]
                ended = container["state"]["terminated"]["exitCode"]
                found.append((status["phase"], ended, container["restartCount"]))
        return found

    return in_virtual_time(story)


@given(
    seed=st.integers(0, 10**6),
    rate=st.sampled_from([0.2, 0.6]),
    restarts=st.lists(st.integers(0, 40), max_size=3),
    deleted=st.sets(st.integers(0, PODS_IN_STORY - 1), max_size=4),
)
@settings(max_examples=examples(12))
def test_faults_and_restarts_change_no_end(seed: int, rate: float, restarts: list[int], deleted: set[int]) -> None:
    assert ends(seed, rate, restarts, deleted) == ends(seed, 0.0, [], deleted)


def test_the_same_story_leaves_the_same_objects_bit_for_bit() -> None:
    async def story(world: World) -> list[bytes]:
        await world.add_node("n1", cpu="100", memory="100Gi")
        agent = SimulatedKubelets(world.objects, world.clock, behaviour=Behaviour(run=Uniform(5, 90)), seed=3)
        world.start(agent)
        for number in range(30):
            await world.add_pod(f"p{number}")
        await asyncio.sleep(200)
        return (await world.objects.list(PODS)).items

    assert in_virtual_time(story) == in_virtual_time(story)


@given(st.lists(st.dictionaries(st.sampled_from(["cpu", "memory", "x/gpu"]), st.integers(0, 2**62)), max_size=8))
def test_usage_returns_to_nothing(requests: list[dict[str, int]]) -> None:
    usage = Usage()
    port = HostPort(port=80)
    specs = [
        SpecSeen((), (), "Never", 30, None, ResourceVector.of(amounts), {}, NO_NODE_AFFINITY, (), (port,))
        for amounts in requests
    ]
    for spec in specs:
        usage.take(spec)
    for spec in specs:
        usage.give_back(spec)
    assert usage.ports == []
    assert [usage.pods, *(usage.of(name) for name in ("cpu", "memory", "x/gpu"))] == [0, 0, 0, 0]
