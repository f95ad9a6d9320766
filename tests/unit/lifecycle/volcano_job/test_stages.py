"""Tasks that wait for others, together with gangs."""

from __future__ import annotations

from typing import Any

from tests.volcano_job_world import VolcanoJobWorld
from tests.volcano_jobs import policy, task


def after(*names: str, any: bool = False) -> Any:
    return {"dependsOn": {"name": list(names), **({"iteration": "any"} if any else {})}}


def test_the_group_asks_first_only_for_those_that_wait_for_nobody() -> None:
    world = VolcanoJobWorld(task("master", 1), task("worker", 4, **after("master")), minAvailable=5)
    world.settle()
    assert world.group is not None
    spec = world.group["spec"]
    assert spec["minMember"] == 1
    assert spec["minTaskMember"] == {"master": 1}
    assert spec["minResources"] == {"cpu": "5"}, "the queue is asked for room for all of it"
    (part,) = spec["subGroupPolicy"]
    assert (part["name"], part["subGroupSize"], part["minSubGroups"]) == ("worker", 4, 0)
    assert world.names() == ["train-master-0"]
    assert (world.reason, world.message) == ("WaitsForTask", "Task worker waits for master.")
    world.run()
    world.settle()
    assert len(world.names()) == 5
    world.run()
    world.settle()
    assert world.phase == "Running"


def test_one_of_several_is_enough_if_it_is_said_so() -> None:
    tasks = (task("a", 1), task("b", 1), task("c", 1, **after("a", "b", any=True)), task("d", 1, **after("a", "b")))
    world = VolcanoJobWorld(*tasks)
    world.settle()
    assert world.names() == ["train-a-0", "train-b-0"]
    world.run("train-b-0")
    world.settle()
    assert world.names() == ["train-a-0", "train-b-0", "train-c-0"]
    world.succeed("train-a-0")
    world.settle()
    assert world.names() == ["train-b-0", "train-c-0", "train-d-0"]


def test_a_task_is_up_when_its_minimum_is_ready() -> None:
    world = VolcanoJobWorld(task("first", 3, minAvailable=2), task("second", 1, **after("first")))
    world.settle()
    world.run("train-first-0")
    world.settle()
    assert "train-second-0" not in world.pods
    world.run("train-first-1")
    world.pods["train-first-1"]["status"]["containerStatuses"][0]["ready"] = False
    world.settle()
    assert "train-second-0" not in world.pods
    world.pods["train-first-1"]["status"]["containerStatuses"][0]["ready"] = True
    world.settle()
    assert "train-second-0" in world.pods


def test_volcano_2897_a_task_whose_predecessor_was_preempted_waits_and_blocks_nobody() -> None:
    """There a worker that waits for a task which is made later holds the controller for ever."""
    world = VolcanoJobWorld(task("worker", 2, **after("master")), task("master", 1))
    world.settle()
    world.run()
    world.settle()
    world.run()
    world.settle()
    world.vanish("train-master-0")
    world.vanish("train-worker-0")
    world.settle()
    assert "train-master-0" in world.pods
    assert "train-worker-0" not in world.pods
    world.run("train-master-0")
    world.settle()
    assert "train-worker-0" in world.pods
    world.run()
    world.settle()
    assert world.phase == "Running"


def test_a_task_that_waits_for_one_that_has_failed_ends_the_job() -> None:
    world = VolcanoJobWorld(task("first", 2), task("second", 1, **after("first")))
    world.settle()
    world.run()
    world.settle()
    assert "train-second-0" in world.pods
    world = VolcanoJobWorld(task("first", 2), task("second", 1, **after("first")))
    world.settle()
    world.fail("train-first-0")
    world.succeed("train-first-1")
    world.settle()
    assert world.phase == "Failed"
    assert world.reason == "CannotGoOn"
    assert world.message == "Task second waits for first, too many of whose pods have failed."


def test_a_failure_that_a_policy_answers_does_not_end_it() -> None:
    first = task("first", 1, policies=[policy("RestartTask", "PodFailed")])
    world = VolcanoJobWorld(first, task("second", 1, **after("first")))
    world.settle()
    world.fail("train-first-0")
    world.settle()
    assert world.phase == "Pending"
    assert world.names() == ["train-first-0"]


def test_tasks_that_wait_for_each_other_or_for_nobody_there_end_the_job_with_a_reason() -> None:
    for tasks in (
        (task("a", 1, **after("b")), task("b", 1, **after("a")), task("c", 1)),
        (task("a", 1, **after("missing")), task("c", 1)),
    ):
        world = VolcanoJobWorld(*tasks)
        world.settle()
        assert world.phase == "Failed"
        assert world.message.startswith("Task a waits for")


def test_an_elastic_job_keeps_its_minimum_over_the_stages() -> None:
    world = VolcanoJobWorld(task("a", 4), task("b", 4, **after("a")), minAvailable=6)
    world.settle()
    assert world.group is not None
    assert world.group["spec"]["minMember"] == 4
    assert world.group["spec"]["subGroupPolicy"][0]["subGroupSize"] == 2
