"""What policies do about what happens to pods: every event, every action, time-outs, retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.lifecycle.volcano_job.names import CLOCKS
from allhands.lifecycle.volcano_job.retries import pause_seconds
from tests.volcano_job_world import VolcanoJobWorld
from tests.volcano_jobs import policy, task

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}


def running(*tasks: Any, **spec: Any) -> VolcanoJobWorld:
    world = VolcanoJobWorld(*(tasks or (task("worker", 3),)), **spec)
    world.settle()
    world.run()
    world.settle()
    assert world.phase == "Running"
    return world


def fail(world: VolcanoJobWorld) -> None:
    world.fail("train-worker-1", code=3)


def evict(world: VolcanoJobWorld) -> None:
    world.delete("train-worker-1")


def vanish(world: VolcanoJobWorld) -> None:
    world.vanish("train-worker-1")


def complete(world: VolcanoJobWorld) -> None:
    world.succeed(*(it for it in world.names() if "worker" in it))


def crash(world: VolcanoJobWorld) -> None:
    world.restart("train-worker-1", 3)


def lose(world: VolcanoJobWorld) -> None:
    assert world.group is not None
    world.group["status"] = {"phase": "Unknown"}


def update(world: VolcanoJobWorld) -> None:
    world.change_spec(minAvailable=2)


HAPPENINGS = {
    "PodFailed": fail,
    "PodEvicted": evict,
    "PodEvicted, gone": vanish,
    "TaskCompleted": complete,
    "TaskFailed": crash,
    "Unknown": lose,
    "JobUpdated": update,
}


@pytest.mark.parametrize("action", ENDS)
@pytest.mark.parametrize("event", HAPPENINGS)
@pytest.mark.parametrize("where", ["task", "job", "any"])
def test_every_event_can_end_the_job_in_every_way(event: str, action: str, where: str) -> None:
    named = "*" if where == "any" else event.partition(",")[0]
    policies = [policy(action, named)]
    other = task("other", 1)
    if where == "task" and event not in ("Unknown", "JobUpdated"):
        world = running(task("worker", 3, policies=policies), other)
    else:
        world = running(task("worker", 3), other, policies=policies)
    HAPPENINGS[event](world)
    world.settle()
    world.end_going()
    world.settle()
    assert world.phase == ENDS[action]
    assert world.group is None
    assert not world.names()
    assert world.status.get("retryCount", 0) == 0


@pytest.mark.parametrize("event", HAPPENINGS)
def test_every_event_can_restart_the_whole(event: str) -> None:
    world = running(task("worker", 3), task("other", 1), policies=[policy("RestartJob", event.partition(",")[0])])
    old = {it["metadata"]["uid"] for it in world.pods.values()}
    group = world.group["metadata"]["uid"] if world.group else ""
    HAPPENINGS[event](world)
    world.settle()
    world.end_going()
    world.settle()
    assert world.status["retryCount"] == 1
    assert world.status["version"] == 1
    assert world.phase == "Pending"
    assert len(world.pods) == 4
    assert not old & {it["metadata"]["uid"] for it in world.pods.values()}
    assert world.group is not None
    assert world.group["metadata"]["uid"] != group
    world.run()
    world.settle()
    assert world.phase == "Running"
    assert world.phases == ["Pending", "Running", "Restarting", "Pending", "Running"]


@pytest.mark.parametrize(
    ("action", "renewed"),
    [
        ("RestartPod", {"train-worker-1"}),
        ("RestartPartition", {"train-worker-0", "train-worker-1"}),
        ("RestartTask", {f"train-worker-{it}" for it in range(4)}),
    ],
)
@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "PodEvicted, gone"])
def test_a_partial_restart_renews_only_its_pods_and_keeps_the_group(event: str, action: str, renewed: set[str]) -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2}
    workers = task("worker", 4, partitionPolicy=parts, policies=[policy(action, event.partition(",")[0])])
    world = running(workers, task("other", 2))
    old = {name: it["metadata"]["uid"] for name, it in world.pods.items()}
    group = world.group
    HAPPENINGS[event](world)
    world.settle()
    world.end_going()
    world.settle()
    assert world.group is not None
    assert group is not None
    assert world.group["metadata"]["uid"] == group["metadata"]["uid"]
    assert {name for name, it in world.pods.items() if it["metadata"]["uid"] != old[name]} == renewed
    assert world.status["retryCount"] == 1
    assert world.status.get("version", 0) == 0
    world.run()
    world.settle()
    assert world.phase == "Running"
    assert world.status["running"] == 6


def test_the_task_goes_before_the_job_and_the_first_before_the_second() -> None:
    workers = task("worker", 3, policies=[policy("CompleteJob", exitCode=3), policy("AbortJob", "PodFailed")])
    world = running(workers, policies=[policy("TerminateJob", "*")])
    world.fail("train-worker-0", code=3)
    world.settle()
    assert world.phase == "Completing"
    world = running(workers, policies=[policy("TerminateJob", "*")])
    world.fail("train-worker-0", code=4)
    world.settle()
    assert world.phase == "Aborting"
    world = running(workers, policies=[policy("TerminateJob", "*")])
    world.delete("train-worker-0")
    world.settle()
    assert world.phase == "Terminating"


def test_a_failure_that_no_policy_names_is_only_counted() -> None:
    world = running(policies=[policy("AbortJob", "PodEvicted"), policy("RestartJob", exitCode=7)])
    world.fail("train-worker-0", code=3)
    world.settle()
    assert world.phase == "Running"
    assert world.status["failed"] == 1
    assert len(world.pods) == 3


def test_a_failure_is_answered_after_its_timeout() -> None:
    world = running(policies=[policy("RestartJob", "PodFailed", timeout="10m")])
    world.fail("train-worker-0")
    world.settle()
    assert world.phase == "Running"
    assert world.look().wake_at_seconds == world.now_seconds + 600
    world.advance(599)
    assert world.phase == "Running"
    world.advance(1)
    assert world.phase == "Restarting"


def test_a_pod_that_waits_for_too_long_is_answered_and_only_with_a_timeout() -> None:
    world = VolcanoJobWorld(task("worker", 2), policies=[policy("TerminateJob", "PodPending", timeout="5m")])
    world.settle()
    assert world.look().wake_at_seconds == world.now_seconds + 300
    world.advance(299)
    assert world.phase == "Pending"
    world.advance(1)
    assert world.phase == "Terminated"
    world = VolcanoJobWorld(task("worker", 2), policies=[policy("TerminateJob", "PodPending")])
    world.settle()
    world.advance(10_000)
    assert world.phase == "Pending"


def test_one_that_comes_up_in_time_is_not_answered() -> None:
    world = VolcanoJobWorld(task("worker", 1), policies=[policy("AbortJob", "PodPending", timeout="5m")])
    world.settle()
    world.advance(200)
    world.run()
    world.settle()
    world.advance(1000)
    assert world.phase == "Running"


def test_what_is_restarted_too_often_fails_and_keeps_its_pods_to_look_at() -> None:
    world = running(policies=[policy("RestartJob", "PodFailed")], maxRetry=3)
    for _ in range(2):
        world.fail("train-worker-0")
        world.settle()
        world.end_going()
        world.advance(1000)
        world.run()
        world.settle()
        assert world.phase == "Running"
    world.fail("train-worker-0", code=9)
    world.settle()
    world.end_going()
    world.settle()
    assert world.phase == "Failed"
    assert world.status["retryCount"] == 3
    assert world.reason == "RetriesAreUsedUp"
    assert "exit code 9" in world.message
    assert sorted(world.pods) == ["train-worker-0"]
    assert world.status["failed"] == 1


def test_restarts_come_after_longer_and_longer_pauses() -> None:
    assert [pause_seconds(it) for it in (1, 2, 3, 4, 100)] == [0, 10, 20, 40, 300]
    world = running(task("worker", 1), policies=[policy("RestartJob", "PodFailed")], maxRetry=5)
    for _ in range(2):
        world.fail("train-worker-0")
        world.settle()
        if world.phase == "Restarting":
            assert world.look().wake_at_seconds == world.now_seconds + 10
            assert not world.pods
            world.advance(10)
        assert world.phase == "Pending"
        world.run()
        world.settle()
    assert world.status["retryCount"] == 2


def test_pods_from_before_a_restart_are_no_news() -> None:
    world = running(policies=[policy("RestartJob", "PodFailed", "PodEvicted")])
    world.fail("train-worker-0")
    world.settle()
    for name in world.names(going=True):
        world.fail(name)
    world.settle()
    assert world.status["retryCount"] == 1
    world.end_going()
    world.settle()
    assert world.status["retryCount"] == 1
    assert world.phase == "Pending"


def test_two_pods_that_fail_together_cost_one_retry() -> None:
    world = running(policies=[policy("RestartPod", "PodFailed")])
    world.fail("train-worker-0", "train-worker-2")
    world.settle()
    assert world.status["retryCount"] == 1
    assert len(world.names()) == 3


def test_a_scaled_down_pod_is_not_evicted() -> None:
    world = running(task("worker", 3, minAvailable=1), minAvailable=1, policies=[policy("RestartJob", "PodEvicted")])
    world.scale("worker", 2)
    world.settle()
    world.end_going()
    world.settle()
    assert world.status.get("retryCount", 0) == 0
    assert world.phase == "Running"


@pytest.mark.parametrize("cut", range(7))
@pytest.mark.parametrize("event", HAPPENINGS)
def test_a_timeout_goes_on_whenever_the_controller_was_stopped(event: str, cut: int) -> None:
    """Nothing is remembered between looks here: what they begin with is on the objects."""
    policies = [policy("AbortJob", event.partition(",")[0], timeout="1m")]
    world = running(task("worker", 3), task("other", 1), policies=policies)
    HAPPENINGS[event](world)
    world.look(cut)
    world.settle()
    world.end_going()
    world.advance(20)
    world.advance(39)
    assert world.phase in ("Pending", "Running")
    world.advance(2)
    assert world.phase == "Aborting"


@pytest.mark.parametrize("happening", [evict, vanish])
def test_an_evicted_pod_with_a_timeout_is_replaced_and_answered_if_the_new_one_does_not_come_up(
    happening: Callable[[VolcanoJobWorld], None],
) -> None:
    world = running(policies=[policy("AbortJob", "PodEvicted", timeout="1m")])
    happening(world)
    world.settle()
    world.end_going()
    world.settle()
    assert world.phase == "Pending"
    assert len(world.names()) == 3
    world.run()
    world.settle()
    world.advance(100)
    assert world.phase == "Running", "the new one is up"
    happening(world)
    world.settle()
    world.end_going()
    world.advance(61)
    assert world.phase == "Aborting"


@pytest.mark.parametrize("cut", range(9))
def test_an_eviction_is_answered_once_by_a_restart_of_the_pod(cut: int) -> None:
    world = running(policies=[policy("RestartPod", "PodEvicted", timeout="1m")], maxRetry=9)
    vanish(world)
    world.settle()
    world.now_seconds += 61
    world.look(cut)
    world.settle()
    assert world.status["retryCount"] == 1
    world.advance(300)
    world.advance(300)
    assert world.status["retryCount"] == 1
    assert world.phase == "Pending"
    assert len(world.names("Pending")) == 1


def test_changes_within_the_time_of_a_first_one_are_answered_with_it() -> None:
    world = running(task("worker", 3, minAvailable=1), policies=[policy("RestartJob", "JobUpdated", timeout="1m")])
    update(world)
    world.settle()
    world.advance(50)
    world.change_spec(minAvailable=1)
    world.advance(11)
    world.end_going()
    world.settle()
    assert world.status["retryCount"] == 1
    world.run()
    world.settle()
    world.advance(200)
    assert world.status["retryCount"] == 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"Unknown": "x"}', '{"PodEvicted/worker/1": 1e400}', '{"a": null}'])
def test_notes_that_somebody_has_spoilt_are_no_notes(text: str) -> None:
    world = running(policies=[policy("AbortJob", "Unknown", timeout="1m")])
    assert world.group is not None
    world.group["metadata"]["annotations"][CLOCKS] = text
    lose(world)
    world.settle()
    world.advance(59)
    assert world.phase == "Running"
    world.advance(2)
    assert world.phase == "Aborting"


def test_partial_restarts_do_nothing_about_what_is_about_no_task() -> None:
    world = running(policies=[policy("RestartTask", "Unknown", "JobUpdated")])
    lose(world)
    world.settle()
    update(world)
    world.settle()
    assert world.phase == "Running"
    assert world.status.get("retryCount", 0) == 0
