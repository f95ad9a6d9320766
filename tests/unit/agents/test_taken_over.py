"""Pods that an agent before this one ran: counts go on, what was over stays over, and what was lost is told plainly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.agents.agent import AGENT_LABEL, PROCESS
from allhands.agents.logs import LogOptions, LogsOfNodes
from allhands.agents.simulated import SimulatedKubelets
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from tests.manifests import CONFIG_MAPS, NODES, config_map
from tests.unit.agents.local import Local, local
from tests.unit.agents.virtual import World, in_virtual_time

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = Resource("", "v1", "events")
Manifest = dict[str, Any]


def first(pod: Manifest, kind: str = "containerStatuses") -> Manifest:
    found: Manifest = (pod["status"].get(kind) or [{}])[0]
    return found


def backs_off(pod: Manifest, kind: str = "containerStatuses") -> bool:
    return bool(first(pod, kind).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")


def seen(pod: Manifest, counts: list[int], kind: str = "containerStatuses") -> int:
    """How often it was restarted, which is noted."""
    counts.append(first(pod, kind)["restartCount"])
    return counts[-1]


async def events_of(here: Local, reason: str) -> list[str]:
    """The messages of these events, once there is one."""
    async with asyncio.timeout(30):
        while True:
            page = await here.objects.list(EVENTS)
            found = [event for event in map(msgspec.json.decode, page.items) if event["reason"] == reason]
            if found:
                return [event["message"] for event in found]
            await asyncio.sleep(0.01)


async def test_restarts_are_counted_on_and_the_back_off_goes_on_growing(tmp_path: Path) -> None:
    async with local(tmp_path, first_back_off_seconds=0.5, most_back_off_seconds=1000.0) as here:
        await here.add("bad", "sh", "-c", "exit 3", spec={"restartPolicy": "OnFailure"})
        await here.when("bad", lambda it: backs_off(it) and first(it)["restartCount"] == 2)
        await here.crash()
        counts = [first(await here.pod("bad"))["restartCount"]]
        assert counts[0] >= 2
        here.start()
        pod = await here.when("bad", lambda it: seen(it, counts) > counts[0] and backs_off(it))
        count = first(pod)["restartCount"]
        assert counts == sorted(counts), "restarts were counted anew"
        told = first(pod)["state"]["waiting"]["message"]
        assert f"back-off {0.5 * 2 ** (count - 1):g}s" in told
        assert first(pod)["lastState"]["terminated"]["exitCode"] == 3


async def test_restarts_of_init_containers_are_counted_on(tmp_path: Path) -> None:
    init = [{"name": "init", "image": "none", "command": ["sh", "-c", "exit 3"]}]
    kind = "initContainerStatuses"
    async with local(tmp_path, first_back_off_seconds=0.2) as here:
        await here.add("bad", "true", spec={"restartPolicy": "OnFailure", "initContainers": init})
        await here.when("bad", lambda it: backs_off(it, kind) and first(it, kind)["restartCount"] == 2)
        await here.crash()
        counts = [first(await here.pod("bad"), kind)["restartCount"]]
        here.start()
        await here.when("bad", lambda it: seen(it, counts, kind) > counts[0] and backs_off(it, kind))
        assert counts == sorted(counts), "restarts were counted anew"


async def test_a_container_that_was_done_is_not_run_again(tmp_path: Path) -> None:
    mark = tmp_path / "runs"
    done = {"name": "done", "image": "none", "command": ["sh", "-c", f"echo run >> {mark}"]}
    long = {"name": "long", "image": "none", "command": ["sleep", "1000"]}
    async with local(tmp_path / "work") as here:
        for name, policy in (("retry", "OnFailure"), ("never", "Never")):
            await here.add(name, spec={"restartPolicy": policy, "containers": [done, long]})
            await here.when(name, lambda it: "terminated" in first(it).get("state", {}))
            await here.when(name, lambda it: "running" in it["status"]["containerStatuses"][1]["state"])
        await here.crash()
        here.start()
        pod = await here.when("retry", lambda it: it["status"]["containerStatuses"][1]["restartCount"] == 1)
        assert first(pod)["state"]["terminated"]["exitCode"] == 0
        assert first(pod)["restartCount"] == 0
        status = await here.ended("never")
        codes = [it["state"]["terminated"]["exitCode"] for it in status["containerStatuses"]]
        assert (status["phase"], codes) == ("Failed", [0, 137])
        assert mark.read_text() == "run\nrun\n"


async def test_what_was_lost_is_told_by_state_event_and_logs(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("never", "sleep", "1000")
        await here.running("never")
        await here.crash()
        here.start()
        status = await here.ended("never")
        told = status["containerStatuses"][0]["state"]["terminated"]["message"]
        assert told == "it ran when allhands was stopped or killed, and ended with it"
        (event,) = await events_of(here, "ContainerStatusUnknown")
        assert event == "container main ran when allhands was stopped or killed, and ended with it: the pod has failed"
        with pytest.raises(StatusError, match="its log ended with the process") as refusal:
            await here.log("never")
        assert "waiting to start" not in refusal.value.message


async def test_logs_of_the_run_that_was_lost_are_said_to_be_gone_when_it_runs_again(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("retry", "sh", "-c", "echo hello; sleep 1000", spec={"restartPolicy": "OnFailure"})
        await here.running("retry")
        await here.crash()
        here.start()
        await here.when("retry", lambda it: first(it)["restartCount"] == 1 and "running" in first(it)["state"])
        (event,) = await events_of(here, "ContainerStatusUnknown")
        assert event.endswith("it is started again")
        with pytest.raises(StatusError, match="its log ended with the process"):
            await here.log("retry", LogOptions(previous=True))


async def test_logs_on_a_node_that_nobody_serves_are_not_called_simulated(tmp_path: Path) -> None:
    async with local(tmp_path) as here:
        await here.add("a", "true")
        await here.ended("a")
        await here.objects.patch(NODES, "here", "merge", {"metadata": {"labels": {AGENT_LABEL: PROCESS}}})
        with pytest.raises(StatusError, match="node here is not served now"):
            await LogsOfNodes(here.objects, {}).logs("default", "a")


def test_a_simulated_pod_in_back_off_goes_on_waiting_under_the_next_agent() -> None:
    async def story(world: World) -> None:
        await world.add_node("n1")
        before = SimulatedKubelets(world.objects, world.clock)
        world.start(before)
        said = {"run-seconds": "1", "exit-code": "3"}
        await world.add_pod("bad", said=said, restartPolicy="OnFailure")
        for _ in range(1000):
            pod = await world.pod("bad")
            if first(pod).get("restartCount") == 3 and backs_off(pod):
                break
            await asyncio.sleep(0.5)
        await world.stop(before)
        await asyncio.sleep(5)
        world.start(SimulatedKubelets(world.objects, world.clock))
        await asyncio.sleep(30)
        assert backs_off(await world.pod("bad"))
        assert first(await world.pod("bad"))["restartCount"] == 3
        await asyncio.sleep(10)
        pod = await world.pod("bad")
        assert first(pod)["restartCount"] == 4
        await asyncio.sleep(70)
        assert first(await world.pod("bad"))["restartCount"] == 4
        assert backs_off(await world.pod("bad"))

    in_virtual_time(story)


async def test_volumes_that_are_late_make_no_container_forget_what_it_was(tmp_path: Path) -> None:
    done = {"name": "done", "image": "none", "command": ["true"]}
    long = {"name": "long", "image": "none", "command": ["sleep", "1000"]}
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    async with local(tmp_path) as here:
        await here.objects.create(CONFIG_MAPS, config_map("settings", a="1"), "default")
        await here.add("retry", spec={"restartPolicy": "OnFailure", "containers": [done, long], "volumes": volumes})
        await here.when("retry", lambda it: "terminated" in first(it).get("state", {}))
        await here.when("retry", lambda it: "running" in it["status"]["containerStatuses"][1]["state"])
        await here.crash()
        await here.objects.delete(CONFIG_MAPS, "settings", "default")
        here.start()
        await events_of(here, "FailedMount")
        await here.objects.create(CONFIG_MAPS, config_map("settings", a="1"), "default")
        pod = await here.when(
            "retry",
            lambda it: (
                it["status"]["containerStatuses"][1]["restartCount"] == 1
                and "running" in it["status"]["containerStatuses"][1]["state"]
            ),
        )
        assert first(pod)["state"]["terminated"]["exitCode"] == 0
        assert first(pod)["restartCount"] == 0
