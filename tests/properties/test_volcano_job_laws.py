"""Laws of the Volcano Job machine: whatever happens, and wherever it is cut off, it ends the same; it never has more
pods than its tasks say, never more retries than it may, and what is over stays over.

Two toy clusters live through the same history. In one every look is carried out whole; in the other looks are cut off
after any instruction, with neighbouring writes in any order, and begun anew.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.instructions import Record
from allhands.lifecycle.volcano_job import JOBS
from allhands.lifecycle.volcano_job.names import JOB_VERSION
from tests.depth import examples
from tests.volcano_job_world import OVER, VolcanoJobWorld
from tests.volcano_jobs import policy, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest

ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob")
RESTARTS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "JobUpdated", "*")


@st.composite
def policies(draw: st.DrawFn) -> list[Manifest]:
    found = []
    for _ in range(draw(st.integers(0, 3))):
        action = draw(st.sampled_from((*RESTARTS, *ACTIONS)))
        timeout = draw(st.sampled_from(("", "", "30s")))
        more = {"timeout": timeout} if timeout else {}
        if draw(st.integers(0, 3)) == 0:
            found.append(policy(action, exitCode=draw(st.sampled_from((1, 42))), **more))
        else:
            found.append(policy(action, draw(st.sampled_from(EVENTS)), **more))
    if draw(st.integers(0, 5)) == 0:
        found.append(policy("RestartPod", "PodPending", timeout="2m"))
    return found


@st.composite
def specs(draw: st.DrawFn) -> tuple[list[Manifest], dict[str, Any]]:
    tasks: list[Manifest] = []
    for number in range(draw(st.integers(1, 3))):
        more: dict[str, Any] = {"policies": draw(policies())}
        size = draw(st.integers(0, 3))
        if draw(st.booleans()):
            more["minAvailable"] = draw(st.integers(0, size))
        if size == 2 and draw(st.booleans()):
            more["partitionPolicy"] = {"totalPartitions": 1, "partitionSize": 2}
        if number and draw(st.booleans()):
            names = draw(st.lists(st.sampled_from([it["name"] for it in tasks]), min_size=1, max_size=2, unique=True))
            more["dependsOn"] = {"name": names, "iteration": draw(st.sampled_from(["any", "all"]))}
        tasks.append(task("abc"[number], size, **more))
    total = sum(it["replicas"] for it in tasks)
    spec: dict[str, Any] = {"policies": draw(policies()), "maxRetry": draw(st.integers(1, 4))}
    if draw(st.booleans()):
        spec["minAvailable"] = draw(st.integers(0, total))
    if draw(st.booleans()):
        spec["minSuccess"] = draw(st.integers(1, 3))
    return tasks, spec


ENDED = ("Succeeded", "Failed")
DEEDS = (
    *("run", "run", "run", "succeed", "succeed", "fail", "fail", "fail 42", "delete", "vanish", "end", "end", "crash"),
    *("scale", "lose", "abort", "resume", "restart", "terminate", "no group"),
)
HISTORIES = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 5), st.integers(0, 40)), max_size=14)


def act(world: VolcanoJobWorld, deed: str, number: int, pause: int) -> None:
    """One thing that happens, to the pod of that number among those that it may happen to."""
    world.now_seconds += pause
    names = world.names()
    name = names[number % len(names)] if names else ""
    match deed:
        case "end":
            world.end_going()
        case "scale" if world.job is not None:
            tasks = world.job["spec"]["tasks"]
            found = tasks[number % len(tasks)]
            if "minAvailable" not in found and "partitionPolicy" not in found:
                world.scale(found["name"], number)
        case "lose" if world.group is not None:
            world.group["status"] = {"phase": "Unknown"}
        case "no group":
            world.group = None
        case "abort" | "resume" | "restart" | "terminate":
            world.order(f"{deed.capitalize()}Job")
        case "run" if name:
            world.run(name)
        case "succeed" if name:
            world.succeed(name)
        case "fail" if name:
            world.fail(name)
        case "fail 42" if name:
            world.fail(name, code=42)
        case "delete" if name:
            world.delete(name)
        case "vanish" if name:
            world.vanish(name)
        case "crash" if name:
            world.restart(name, 4)


def picture(world: VolcanoJobWorld) -> Manifest:
    """All that matters; who is who does not."""
    pods = [
        (
            name,
            pod["status"]["phase"],
            "deletionTimestamp" in pod["metadata"],
            pod["metadata"]["annotations"][JOB_VERSION],
        )
        for name, pod in sorted(world.pods.items())
    ]
    group = None if world.group is None else (world.group["spec"], world.group.get("status"))
    return {"status": world.status, "pods": pods, "group": group, "commands": len(world.commands)}


def check(world: VolcanoJobWorld, before: str) -> None:
    assert world.job is not None
    for each in world.job["spec"]["tasks"]:
        mine = [it for it in world.pods.values() if it["metadata"]["labels"]["volcano.sh/task-spec"] == each["name"]]
        alive = [it for it in mine if "deletionTimestamp" not in it["metadata"] and it["status"]["phase"] not in ENDED]
        assert len(alive) <= each["replicas"]
    assert world.status.get("retryCount", 0) <= world.job["spec"]["maxRetry"]
    assert before not in OVER or world.phase == before
    if world.phase in OVER or world.phase == "Aborted":
        assert not world.names()
        assert world.group is None
    assert len(world.status["conditions"]) <= 10


@given(specs(), HISTORIES, st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_a_crash_anywhere_changes_nothing_in_the_end(
    spec: tuple[list[Manifest], dict[str, Any]], history: list[tuple[str, int, int]], seed: int
) -> None:
    chance = random.Random(seed)
    whole, crashing = (VolcanoJobWorld(*spec[0], **spec[1]) for _ in range(2))
    for step in (("begin", 0, 0), *history):
        for world in (whole, crashing):
            before = world.phase
            act(world, *step)
            world.settle(None if world is whole else chance)
            check(world, before)
        assert picture(crashing) == picture(whole)


@given(specs(), HISTORIES)
@settings(max_examples=examples(40))
def test_every_job_ends_if_its_pods_do(
    spec: tuple[list[Manifest], dict[str, Any]], history: list[tuple[str, int, int]]
) -> None:
    world = VolcanoJobWorld(*spec[0], **spec[1])
    for step in history:
        act(world, *step)
        world.settle()
    if not any(it["replicas"] for it in (world.job or {"spec": {"tasks": []}})["spec"]["tasks"]):
        return  # one that was scaled to nothing stays as it is
    for _ in range(40):
        if world.phase in ("Aborting", "Aborted"):
            world.order("ResumeJob")
        world.end_going()
        world.settle()
        if world.is_over:
            break
        world.run()
        world.settle()
        world.end_going()
        world.settle()
        world.succeed(*world.names("Running"))
        world.advance(400)
    assert world.is_over, world.status
    assert not world.names()


@given(specs(), HISTORIES)
@settings(max_examples=examples(40))
def test_it_says_itself_when_its_own_status_makes_more_to_do(
    spec: tuple[list[Manifest], dict[str, Any]], history: list[tuple[str, int, int]]
) -> None:
    """So the shell need not look because a status was written by itself."""
    world = VolcanoJobWorld(*spec[0], **spec[1])
    for step in (("begin", 0, 0), *history):
        act(world, *step)
        for _ in range(30):
            outcome = world.look()
            doing = [it for it in outcome.instructions if not isinstance(it, Record)]
            if not doing:
                break
            again = outcome.wake_at_seconds is not None and outcome.wake_at_seconds <= world.now_seconds
            if not again and all(it.resource == JOBS for it in doing):
                more = world.decide()
                assert not more.instructions
                assert more.wake_at_seconds == outcome.wake_at_seconds
        world.settle()
