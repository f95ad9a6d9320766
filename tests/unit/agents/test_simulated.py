"""Simulated kubelets on virtual time: a pod's life from being bound to being gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allhands.agents.behaviour import KWOK_TEST, Behaviour, Fixed, Uniform
from allhands.agents.heartbeat import HeartbeatPolicy
from allhands.agents.simulated import SimulatedKubelets
from tests.manifests import LEASES, NODES, PODS
from tests.unit.agents.virtual import World, in_virtual_time

Manifest = dict[str, Any]


async def begin(world: World, **more: Any) -> SimulatedKubelets:
    await world.add_node("n1")
    agent = SimulatedKubelets(world.objects, world.clock, **more)
    world.start(agent)
    return agent


def condition(status: Manifest, kind: str) -> Manifest:
    found: Manifest = next(it for it in status["conditions"] if it["type"] == kind)
    return found


def container(status: Manifest) -> Manifest:
    found: Manifest = status["containerStatuses"][0]
    return found


def test_a_pod_pulls_starts_runs_and_succeeds() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"pull-seconds": "5", "start-delay-seconds": "2", "run-seconds": "30"})
        await asyncio.sleep(1)
        status = await world.status("a")
        assert status["phase"] == "Pending"
        assert status["startTime"] == "2026-01-01T00:00:00Z"
        assert container(status)["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert condition(status, "Ready")["reason"] == "ContainersNotReady"
        await asyncio.sleep(7)
        status = await world.status("a")
        assert status["phase"] == "Running"
        assert container(status)["ready"]
        assert container(status)["state"] == {"running": {"startedAt": "2026-01-01T00:00:07Z"}}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
            assert condition(status, kind)["status"] == "True"
        assert status["podIP"]
        assert status["hostIP"]
        await asyncio.sleep(30)
        status = await world.status("a")
        assert status["phase"] == "Succeeded"
        ended = container(status)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
        assert ended["finishedAt"] == "2026-01-01T00:00:37Z"
        assert condition(status, "Ready")["reason"] == "PodCompleted"

    in_virtual_time(story)


def test_nodes_that_look_once_a_second_notice_ends_together() -> None:
    async def story(world: World) -> None:
        await begin(world, behaviour=Behaviour(notice_seconds=1))
        for name, seconds in (("a", "1.2"), ("b", "1.7")):
            await world.add_pod(name, said={"run-seconds": seconds})
        await asyncio.sleep(1.9)
        assert [await world.phase(name) for name in "ab"] == ["Running", "Running"]
        await asyncio.sleep(0.2)
        assert [await world.phase(name) for name in "ab"] == ["Succeeded", "Succeeded"]

    in_virtual_time(story)


def test_pods_have_addresses_of_their_own() -> None:
    async def story(world: World) -> None:
        await begin(world)
        for number in range(5):
            await world.add_pod(f"p{number}")
        await asyncio.sleep(1)
        assert len({(await world.status(f"p{number}"))["podIP"] for number in range(5)}) == 5

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [({"exit-code": "3"}, 3, "Error"), ({"out-of-memory": "true"}, 137, "OOMKilled")],
    ids=["an exit code", "out of memory"],
)
def test_a_pod_ends_as_its_annotations_say(said: dict[str, str], code: int, reason: str) -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"run-seconds": "1", **said})
        await asyncio.sleep(2)
        status = await world.status("a")
        ended = container(status)["state"]["terminated"]
        assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Failed", code, reason)

    in_virtual_time(story)


def test_an_image_that_never_pulls_says_so_and_disturbs_nobody() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("bad", said={"pull-fails": "true"})
        await world.add_pod("good")
        await asyncio.sleep(1000)
        status = await world.status("bad")
        waiting = container(status)["state"]["waiting"]
        assert (status["phase"], waiting["reason"]) == ("Pending", "ImagePullBackOff")
        assert "busybox" in waiting["message"]
        assert await world.phase("good") == "Succeeded"
        await world.delete_pod("bad")
        await asyncio.sleep(1)
        assert await world.pod_names() == ["good"]

    in_virtual_time(story)


@pytest.mark.parametrize(
    "said",
    [
        {"run-seconds": "soon"},
        {"run-seconds": "-1"},
        {"run-seconds": "nan"},
        {"pull-seconds": "1e300"},
        {"exit-code": "256"},
        {"exit-code": "-1"},
        {"ignores-sigterm": "maybe"},
    ],
    ids=str,
)
def test_an_annotation_without_sense_fails_the_pod_and_is_named(said: dict[str, str]) -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said=said)
        await asyncio.sleep(1)
        status = await world.status("a")
        assert (status["phase"], status["reason"]) == ("Failed", "InvalidSimulationAnnotation")
        assert f"metadata.annotations[sim.allhands.dev/{next(iter(said))}]" in status["message"]

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("node", "spec", "reason"),
    [
        ({"cpu": "2"}, {}, "OutOfcpu"),
        ({"memory": "2Gi"}, {}, "OutOfmemory"),
        ({"pods": "2"}, {}, "OutOfpods"),
    ],
    ids=["cpu", "memory", "pods"],
)
def test_what_does_not_fit_is_refused_as_a_kubelet_refuses_it(node: Manifest, spec: Manifest, reason: str) -> None:
    async def story(world: World) -> None:
        await world.add_node("n1", **node)
        world.start(SimulatedKubelets(world.objects, world.clock))
        for name in ("a", "b", "c"):
            await world.add_pod(name, **spec)
        await asyncio.sleep(1)
        assert [await world.phase(name) for name in ("a", "b", "c")] == ["Running", "Running", "Failed"]
        status = await world.status("c")
        assert status["reason"] == reason
        assert status["message"].startswith("Pod was rejected: node n1 has not enough")
        await asyncio.sleep(60)
        await world.add_pod("d")
        await asyncio.sleep(1)
        assert await world.phase("d") == "Running", "what is over holds nothing"

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity"), ({}, "TaintToleration")],
    ids=["labels it lacks", "a taint not tolerated"],
)
def test_a_pod_that_must_not_be_there_is_refused(spec: Manifest, reason: str) -> None:
    async def story(world: World) -> None:
        taints = [{"key": "broken", "effect": "NoExecute"}] if reason == "TaintToleration" else None
        await world.add_node("n1", taints=taints)
        world.start(SimulatedKubelets(world.objects, world.clock))
        await world.add_pod("a", **spec)
        await asyncio.sleep(1)
        assert (await world.status("a"))["reason"] == reason

    in_virtual_time(story)


def test_a_port_of_the_node_belongs_to_one_pod() -> None:
    async def story(world: World) -> None:
        await begin(world)
        for name, port in (("a", 8080), ("b", 8080), ("c", 9090)):
            ports = [{"containerPort": port, "hostPort": port}]
            await world.add_pod(name, containers=[{"name": "main", "image": "busybox", "ports": ports}])
        await asyncio.sleep(1)
        assert [await world.phase(name) for name in ("a", "b", "c")] == ["Running", "Failed", "Running"]
        status = await world.status("b")
        assert (status["reason"], "8080/TCP" in status["message"]) == ("NodePorts", True)

    in_virtual_time(story)


def test_failures_are_restarted_with_growing_pauses() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"run-seconds": "1", "exit-code": "1"}, restartPolicy="OnFailure")
        await asyncio.sleep(2.5)
        status = await world.status("a")
        assert status["phase"] == "Running"
        assert container(status)["restartCount"] == 1, "the first restart comes at once"
        assert container(status)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container(status)["lastState"]["terminated"]["exitCode"] == 1
        await asyncio.sleep(10)
        assert container(await world.status("a"))["restartCount"] == 2, "the second after ten seconds"
        await asyncio.sleep(19)
        assert container(await world.status("a"))["restartCount"] == 2
        await asyncio.sleep(2)
        assert container(await world.status("a"))["restartCount"] == 3, "the third after twenty"

    in_virtual_time(story)


def test_pods_that_are_always_restarted_run_until_they_are_deleted() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("service", restartPolicy="Always")
        await asyncio.sleep(100_000)
        assert await world.phase("service") == "Running"

    in_virtual_time(story)


def test_deletion_gives_time_and_then_the_pod_is_gone() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"stop-seconds": "4", "run-seconds": "1000"})
        await asyncio.sleep(1)
        await world.delete_pod("a")
        await asyncio.sleep(3)
        assert await world.phase("a") == "Running"
        await asyncio.sleep(2)
        assert await world.pod_names() == []

    in_virtual_time(story)


def test_a_pod_that_ignores_sigterm_is_killed_when_its_grace_is_over() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("deaf", said={"ignores-sigterm": "true", "run-seconds": "1000"})
        await asyncio.sleep(1)
        await world.objects.patch(PODS, "deaf", "merge", {"metadata": {"finalizers": ["test/keep"]}}, "default")
        await world.delete_pod("deaf", grace_seconds=20)
        await asyncio.sleep(19)
        assert await world.phase("deaf") == "Running"
        await asyncio.sleep(2)
        status = await world.status("deaf")
        assert (status["phase"], container(status)["state"]["terminated"]["exitCode"]) == ("Failed", 137)
        await world.objects.patch(PODS, "deaf", "merge", {"metadata": {"finalizers": None}}, "default")
        assert await world.pod_names() == []

    in_virtual_time(story)


def test_init_containers_run_one_after_the_other_and_sidecars_stay() -> None:
    async def story(world: World) -> None:
        await begin(world)
        inits = [
            {"name": "proxy", "image": "proxy", "restartPolicy": "Always"},
            {"name": "first", "image": "init"},
            {"name": "second", "image": "init"},
        ]
        await world.add_pod("a", said={"init-seconds": "5", "run-seconds": "10"}, initContainers=inits)
        await asyncio.sleep(6)
        status = await world.status("a")
        states = [next(iter(it["state"])) for it in status["initContainerStatuses"]]
        assert (status["phase"], states) == ("Pending", ["running", "terminated", "running"])
        assert condition(status, "Initialized")["status"] == "False"
        assert condition(status, "Initialized")["message"].endswith("[second]")
        await asyncio.sleep(5)
        status = await world.status("a")
        assert (status["phase"], condition(status, "Initialized")["status"]) == ("Running", "True")
        await asyncio.sleep(10)
        status = await world.status("a")
        assert status["phase"] == "Succeeded"
        assert all("terminated" in it["state"] for it in status["initContainerStatuses"])

    in_virtual_time(story)


def test_a_pod_past_its_deadline_fails() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"run-seconds": "1000"}, activeDeadlineSeconds=30)
        await asyncio.sleep(31)
        status = await world.status("a")
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")

    in_virtual_time(story)


def test_a_deadline_counts_from_the_pods_start_whatever_happens_to_its_containers_and_the_agent() -> None:
    async def story(world: World) -> None:
        first = await begin(world)
        said = {"run-seconds": "40", "exit-code": "1"}
        await world.add_pod("a", said=said, restartPolicy="OnFailure", activeDeadlineSeconds=100)
        await asyncio.sleep(70)
        assert container(await world.status("a"))["restartCount"] == 1
        await world.stop(first)
        world.start(SimulatedKubelets(world.objects, world.clock))
        await asyncio.sleep(28)
        assert await world.phase("a") == "Running"
        await asyncio.sleep(3)
        assert (await world.status("a"))["reason"] == "DeadlineExceeded"

    in_virtual_time(story)


def test_a_dead_node_says_nothing_and_loses_what_it_ran() -> None:
    async def story(world: World) -> None:
        agent = await begin(world)
        await world.add_pod("never")
        await world.add_pod("retry", restartPolicy="OnFailure")
        await world.add_pod("deleted")
        await asyncio.sleep(10)
        agent.kill("n1")
        await world.delete_pod("deleted")
        await asyncio.sleep(500)
        assert [await world.phase(name) for name in ("never", "retry", "deleted")] == ["Running"] * 3
        await world.add_pod("late")
        agent.revive("n1")
        await asyncio.sleep(1)
        lost = await world.status("never")
        assert (lost["phase"], container(lost)["state"]["terminated"]["reason"]) == ("Failed", "ContainerStatusUnknown")
        again = await world.status("retry")
        assert (again["phase"], container(again)["restartCount"]) == ("Running", 1)
        assert await world.phase("late") == "Running"
        assert "deleted" not in await world.pod_names()
        with pytest.raises(ValueError, match="no simulated node 'n9'"):
            agent.kill("n9")

    in_virtual_time(story)


def test_what_a_dead_node_ran_is_lost_even_if_the_agent_is_another_one_by_then() -> None:
    async def story(world: World) -> None:
        dead: dict[str, None] = {}
        first = await begin(world, dead=dead)
        await world.add_pod("a", said={"run-seconds": "100"})
        await asyncio.sleep(10)
        first.kill("n1")
        await world.stop(first)
        second = SimulatedKubelets(world.objects, world.clock, dead=dead)
        world.start(second)
        await asyncio.sleep(50)
        assert await world.phase("a") == "Running"
        second.revive("n1")
        await asyncio.sleep(1)
        status = await world.status("a")
        assert (status["phase"], container(status)["state"]["terminated"]["reason"]) == (
            "Failed",
            "ContainerStatusUnknown",
        )

    in_virtual_time(story)


def test_an_agent_that_is_started_again_goes_on_where_the_last_one_was() -> None:
    async def story(world: World) -> None:
        first = await begin(world)
        await world.add_pod("a", said={"run-seconds": "100"})
        await world.add_pod("late", said={"run-seconds": "20"})
        await asyncio.sleep(10)
        before = await world.status("a")
        await world.stop(first)
        await asyncio.sleep(50)
        second = SimulatedKubelets(world.objects, world.clock)
        world.start(second)
        await world.add_pod("b")
        await asyncio.sleep(39)
        assert (await world.status("a"))["podIP"] == before["podIP"] != (await world.status("b"))["podIP"]
        assert [await world.phase("a"), await world.phase("late")] == ["Running", "Succeeded"]
        await asyncio.sleep(2)
        assert await world.phase("a") == "Succeeded"

    in_virtual_time(story)


def test_a_status_that_somebody_else_changed_is_set_right() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a")
        await asyncio.sleep(1)
        await world.objects.patch(PODS, "a", "merge", {"status": {"phase": "Pending"}}, "default", subresource="status")
        await asyncio.sleep(1)
        assert await world.phase("a") == "Running"

    in_virtual_time(story)


def test_conditions_of_others_are_kept() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"run-seconds": "10"})
        await asyncio.sleep(1)
        conditions = [*(await world.status("a"))["conditions"], {"type": "DisruptionTarget", "status": "True"}]
        patch = {"status": {"conditions": conditions}}
        await world.objects.patch(PODS, "a", "merge", patch, "default", subresource="status")
        await asyncio.sleep(20)
        status = await world.status("a")
        assert status["phase"] == "Succeeded"
        assert condition(status, "DisruptionTarget")["status"] == "True"

    in_virtual_time(story)


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    async def story(world: World) -> None:
        await begin(world)
        await world.add_pod("a", said={"run-seconds": "1000"})
        await asyncio.sleep(5)
        await world.delete_pod("a", grace_seconds=0)
        await world.add_pod("a", said={"run-seconds": "10"})
        await asyncio.sleep(5)
        assert (await world.status("a"))["startTime"] == "2026-01-01T00:00:05Z"
        await asyncio.sleep(6)
        assert await world.phase("a") == "Succeeded"

    in_virtual_time(story)


def test_pods_of_other_agents_are_left_alone() -> None:
    async def story(world: World) -> None:
        await world.add_node("real", labels={"allhands.dev/agent": "process"})
        world.start(SimulatedKubelets(world.objects, world.clock))
        await world.add_pod("a", node="real")
        await world.add_pod("lost", node="nowhere")
        await asyncio.sleep(100)
        assert [await world.phase("a"), await world.phase("lost")] == ["Pending", "Pending"]

    in_virtual_time(story)


def test_a_node_that_comes_after_its_pods_takes_them_in() -> None:
    async def story(world: World) -> None:
        world.start(SimulatedKubelets(world.objects, world.clock))
        await world.add_pod("a", node="late")
        await asyncio.sleep(5)
        await world.add_node("late")
        await asyncio.sleep(1)
        assert await world.phase("a") == "Running"

    in_virtual_time(story)


def test_leases_are_renewed_and_a_dead_node_is_not() -> None:
    async def story(world: World) -> None:
        agent = await begin(world)
        await world.add_node("n2")
        await asyncio.sleep(100)
        agent.kill("n2")
        await asyncio.sleep(100)
        leases = [(await world.objects.get(LEASES, name, "kube-node-lease")).manifest() for name in ("n1", "n2")]
        assert [lease["spec"]["renewTime"] > "2026-01-01T00:03:00" for lease in leases] == [True, False]
        assert leases[0]["spec"]["leaseDurationSeconds"] == 40
        assert leases[0]["metadata"]["ownerReferences"][0]["kind"] == "Node"
        await world.objects.patch(
            NODES,
            "n2",
            "strategic",
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            subresource="status",
        )
        await asyncio.sleep(100)
        assert not await is_ready(world, "n2")
        agent.revive("n2")
        await asyncio.sleep(1)
        assert await is_ready(world, "n2")

    async def is_ready(world: World, name: str) -> bool:
        status = (await world.objects.get(NODES, name)).manifest()["status"]
        return str(condition(status, "Ready")["status"]) == "True"

    in_virtual_time(story)


def test_thousands_of_nodes_beat_more_slowly_and_are_trusted_for_longer() -> None:
    policy = HeartbeatPolicy()
    assert policy.interval_seconds(100) == 10
    assert policy.interval_seconds(10_000) == 500


def test_the_same_seed_gives_the_same_run_times_whatever_else_happens() -> None:
    def finished(seed: int, extra: int) -> list[str]:
        async def story(world: World) -> list[str]:
            await begin(world, behaviour=Behaviour(run=Uniform(10, 500)), seed=seed)
            for number in range(5):
                await world.add_pod(f"p{number}")
            for number in range(extra):
                await world.add_pod(f"x{number}", said={"run-seconds": "3"})
                await asyncio.sleep(1)
            await asyncio.sleep(600)
            statuses = [await world.status(f"p{number}") for number in range(5)]
            return [container(status)["state"]["terminated"]["finishedAt"] for status in statuses]

        return in_virtual_time(story)

    assert finished(1, 0) == finished(1, 0) == finished(1, 3)
    assert finished(1, 0) != finished(2, 0)


def test_the_run_times_of_the_kwok_test_lie_between_three_and_four_and_a_half_minutes() -> None:
    async def story(world: World) -> None:
        await world.add_node("n1", cpu="1000", memory="1000Gi", pods="1000")
        world.start(SimulatedKubelets(world.objects, world.clock, behaviour=KWOK_TEST))
        for number in range(200):
            await world.add_pod(f"p{number}")
        await asyncio.sleep(179)
        phases = [await world.phase(f"p{number}") for number in range(200)]
        assert phases == ["Running"] * 200
        await asyncio.sleep(46)
        done = [await world.phase(f"p{number}") for number in range(200)].count("Succeeded")
        assert 70 < done < 130
        await asyncio.sleep(46)
        assert [await world.phase(f"p{number}") for number in range(200)] == ["Succeeded"] * 200

    in_virtual_time(story)


def test_a_share_of_the_pods_fails_if_that_is_asked_for() -> None:
    async def story(world: World) -> None:
        await world.add_node("n1", cpu="1000", memory="1000Gi", pods="1000")
        behaviour = Behaviour(run=Fixed(10), failure_rate=0.3, failure_exit_code=42, out_of_memory_rate=0.2)
        world.start(SimulatedKubelets(world.objects, world.clock, behaviour=behaviour, seed=4))
        for number in range(300):
            await world.add_pod(f"p{number}")
        await asyncio.sleep(20)
        ends = [container(await world.status(f"p{number}"))["state"]["terminated"] for number in range(300)]
        codes = [ended["exitCode"] for ended in ends]
        assert 60 < codes.count(42) < 120
        assert 35 < codes.count(137) < 85
        assert {ended["reason"] for ended in ends if ended["exitCode"] == 137} == {"OOMKilled"}

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Fixed(-1), "seconds: -1"),
        (lambda: Uniform(5, 2), "least_seconds: 5 is more than most_seconds, 2"),
        (lambda: Uniform(0, float("nan")), "most_seconds: nan"),
        (lambda: Behaviour(failure_rate=1.5), "failure_rate: 1.5"),
        (lambda: Behaviour(failure_exit_code=0), "failure_exit_code: 0"),
    ],
)
def test_behaviour_without_sense_is_refused(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make()
