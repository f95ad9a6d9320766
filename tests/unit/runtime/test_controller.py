"""The shell around a machine: one bad key stops nobody, and what nobody uses costs nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.lifecycle.instructions import Create, Instruction, Outcome
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.informer import Informer
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from tests.manifests import CONFIG_MAPS, LEASES, config_map, metadata
from tests.virtual import Cluster, cluster, on_virtual_time, refused, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.errors import StatusError
    from allhands.runtime.workqueue import WorkQueue


class Painter:
    """Looks at every config map; what it does for one is in `answers`."""

    name = "painter"

    def __init__(self, world: Cluster) -> None:
        self._maps: Informer[Any] = Informer(world.noted.port, CONFIG_MAPS, msgspec.json.decode)
        self._leases: Informer[Any] = Informer(world.noted.port, LEASES, msgspec.json.decode)
        self.informers = [self._maps, self._leases]
        self.looked: list[tuple[str, float]] = []
        self.heard_of: list[tuple[str, bool]] = []
        self.answers: dict[str, Callable[[float], Outcome]] = {}

    def wire(self, queue: WorkQueue) -> None:
        self._maps.on_change(lambda key, _old, _new: queue.add(key))

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        self.looked.append((key, asyncio.get_running_loop().time()))
        answer = self.answers.get(key)
        return answer(now_seconds) if answer is not None else Outcome()

    def heard(self, key: str, refusal: StatusError | None) -> None:
        self.heard_of.append((key, refusal is None))

    def times(self, key: str) -> list[float]:
        return [at for name, at in self.looked if name == key]


def loop_of(world: Cluster, painter: Painter, **options: Any) -> ControllerLoop:
    performer = Performer(world.noted.port, Recorder(world.objects, world.clock, "test"))
    return ControllerLoop(painter, performer, world.clock, **options)


async def add(world: Cluster, *names: str) -> None:
    for name in names:
        await world.objects.create(CONFIG_MAPS, config_map(name), "default")


def _fails(_: float) -> Outcome:
    raise KeyError("a mistake in the machine")


@on_virtual_time
async def test_a_key_that_the_machine_cannot_handle_is_tried_ever_more_seldom_and_the_others_are_looked_at() -> None:
    world = cluster()
    await add(world, "bad", "good")
    painter = Painter(world)
    painter.answers["default/bad"] = _fails
    async with running(loop_of(world, painter).run()):
        await asyncio.sleep(600)
        await add(world, "late")
        await asyncio.sleep(1)
    assert len(painter.times("default/good")) == 1
    assert len(painter.times("default/late")) == 1
    assert 10 <= len(painter.times("default/bad")) <= 35


@on_virtual_time
async def test_a_refusal_is_heard_and_tried_again_until_it_succeeds() -> None:
    world = cluster()
    await add(world, "a")
    painter = Painter(world)
    instructions: list[Instruction] = [Create(CONFIG_MAPS, "default", config_map("child"))]
    painter.answers["default/a"] = lambda _: Outcome(tuple(instructions))
    world.noted.refuse = lambda it: refused(403) if it.verb == "create" and it.at_seconds < 5 else None
    async with running(loop_of(world, painter).run()):
        await asyncio.sleep(20)
        instructions.clear()
        await asyncio.sleep(20)
    heard = [ok for key, ok in painter.heard_of if key == "default/a"]
    assert heard[-1] is True
    assert heard.count(False) >= 5
    assert heard == sorted(heard)


@on_virtual_time
async def test_a_machine_is_woken_when_it_asked_for_it_whatever_happens_to_the_clock() -> None:
    world = cluster()
    await add(world, "a")
    painter = Painter(world)
    begin = world.clock.now().timestamp()
    painter.answers["default/a"] = lambda now: Outcome(wake_at_seconds=begin + 100 if now < begin + 100 else None)
    async with running(loop_of(world, painter).run()):
        await asyncio.sleep(50)
        world.clock.jump(-30)
        await asyncio.sleep(200)
    assert [round(at) for at in painter.times("default/a")] == [0, 100, 130]


@on_virtual_time
async def test_a_lazy_controller_asks_for_nothing_but_its_own_kind_until_there_is_one() -> None:
    world = cluster()
    painter = Painter(world)
    painter.informers.reverse()  # the lease is what it is there for
    async with running(loop_of(world, painter, lazy=True).run()):
        await asyncio.sleep(1000)
        assert {it.kind for it in world.noted.requests} == {"leases"}
        await add(world, "a")
        await asyncio.sleep(10)
        assert painter.looked == []
        await world.objects.create(LEASES, {"metadata": metadata("first"), "spec": {}}, "default")
        await asyncio.sleep(1)
        assert len(painter.times("default/a")) == 1


@on_virtual_time
async def test_a_lazy_controller_whose_kind_is_there_already_begins_at_once() -> None:
    world = cluster()
    await add(world, "a")
    await world.objects.create(LEASES, {"metadata": metadata("first"), "spec": {}}, "default")
    painter = Painter(world)
    async with running(loop_of(world, painter, lazy=True).run()):
        await asyncio.sleep(1)
        assert len(painter.times("default/a")) == 1


@on_virtual_time
async def test_nothing_is_decided_before_everything_has_been_seen() -> None:
    world = cluster()
    await add(world, "a")
    world.noted.refuse = lambda it: refused(503) if it.kind == "leases" and it.at_seconds < 10 else None
    painter = Painter(world)
    async with running(loop_of(world, painter).run()):
        await asyncio.sleep(60)
    assert painter.times("default/a")[0] >= 10
