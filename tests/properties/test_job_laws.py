"""Laws of the Job machine: whatever happens, and wherever it is cut off, it ends the same and counts each pod once.

Two toy clusters live through the same history. In one every look is carried out whole; in the other looks are cut off
after any instruction, with neighbouring writes in any order, and begun anew.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.instructions import Record
from allhands.lifecycle.job import JOBS, reconcile
from allhands.lifecycle.job.pod import FINALIZER, INDEX, INDEX_FAILURES
from tests.depth import examples
from tests.job_world import JobWorld, shuffled

if TYPE_CHECKING:
    from allhands.api.document import Manifest

FAILURE_POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}
FAIL_INDEX = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [43]}}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"parallelism": draw(st.integers(0, 4)), "backoffLimit": draw(st.integers(0, 4))}
    indexed = draw(st.booleans())
    if indexed or draw(st.booleans()):
        spec["completions"] = draw(st.integers(0, 6))
    if indexed:
        spec["completionMode"] = "Indexed"
        if draw(st.booleans()):
            spec["backoffLimitPerIndex"] = draw(st.integers(0, 2))
            spec["backoffLimit"] = 2**31 - 1
            if draw(st.booleans()):
                spec["maxFailedIndexes"] = draw(st.integers(0, spec["completions"]))
        if draw(st.booleans()):
            spec["successPolicy"] = {"rules": [{"succeededCount": draw(st.integers(1, 6))}]}
    if draw(st.booleans()):
        rules = [*FAILURE_POLICY["rules"], *([FAIL_INDEX] if "backoffLimitPerIndex" in spec else [])]
        spec["podFailurePolicy"] = {"rules": rules}
    if draw(st.booleans()):
        spec["podReplacementPolicy"] = "Failed"
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = draw(st.sampled_from([30, 300]))
    return spec


ACTIONS = ("run", "succeed", "succeed", "fail", "fail 42", "fail 43", "disrupt", "delete", "end", "suspend", "scale")
HISTORIES = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5), st.integers(0, 40)), max_size=14)


def act(world: JobWorld, action: str, number: int, pause: int) -> None:
    """One thing that happens, to the pod of that number among those that it may happen to."""
    world.now_seconds += pause
    going = action == "end"
    names = world.names(going=going)
    if action == "suspend":
        assert world.job is not None
        world.change_spec(suspend=not world.job["spec"]["suspend"])
    elif action == "scale":
        world.change_spec(parallelism=number)
    elif names:
        name = names[number % len(names)]
        match action:
            case "run":
                world.run(name)
            case "succeed":
                world.succeed(name)
            case "fail":
                world.fail(name)
            case "fail 42":
                world.fail(name, code=42)
            case "fail 43":
                world.fail(name, code=43)
            case "disrupt":
                world.fail(name, condition="DisruptionTarget")
            case "delete":
                world.delete(name)
            case "end":
                world.terminate(name)


def settle_with_crashes(world: JobWorld, chance: random.Random) -> None:
    for left in itertools.count(30, -1):
        outcome = reconcile(world.document, world.observed, world.now_seconds)
        doing = [it for it in outcome.instructions if not isinstance(it, Record)]
        if not doing:
            return
        assert left > -200, "it never comes to rest"
        cut = chance.randint(0, len(doing)) if left > 0 else len(doing)
        for instruction in shuffled(doing, chance)[:cut]:
            world.carry_out(instruction)


def picture(world: JobWorld) -> Manifest:
    """All that matters; which of several names a pod has does not."""
    pods = sorted(
        (
            pod["metadata"].get("annotations", {}).get(INDEX, ""),
            pod["status"]["phase"],
            "deletionTimestamp" in pod["metadata"],
            FINALIZER in pod["metadata"].get("finalizers", ()),
            pod["metadata"].get("annotations", {}).get(INDEX_FAILURES, ""),
        )
        for pod in world.pods.values()
    )
    conditions = [{**it, "message": ""} for it in world.status.get("conditions", ())]
    return {"status": {**world.status, "conditions": conditions}, "pods": pods}


def check_counts(world: JobWorld) -> None:
    """Each pod that was let go is in the status once; those with an index count by index if they succeeded."""
    fates = list(world.let_go.values())
    spec, status = world.document.spec, world.status
    if spec.completion_mode != "Indexed":
        assert status.get("succeeded", 0) == fates.count("succeeded")
    # Of those that went when the Job had succeeded, some may have failed before it did.
    assert status.get("failed", 0) <= fates.count("failed") + fates.count("in vain")
    if spec.pod_failure_policy is None:
        assert status.get("failed", 0) >= fates.count("failed")


@given(specs(), HISTORIES, st.integers(0, 2**32))
@settings(max_examples=examples(150))
def test_a_crash_anywhere_changes_nothing_in_the_end(
    spec: dict[str, Any], history: list[tuple[str, int, int]], seed: int
) -> None:
    chance = random.Random(seed)
    whole, crashing = JobWorld(**spec), JobWorld(**spec)
    for step in (("run", 0, 0), *history):
        for world in (whole, crashing):
            act(world, *step)
        whole.settle()
        settle_with_crashes(crashing, chance)
        assert picture(crashing) == picture(whole)
        for world in (whole, crashing):
            check_counts(world)


@given(specs(), HISTORIES)
@settings(max_examples=examples(100))
def test_never_more_run_than_may_and_every_job_ends_if_its_pods_do(
    spec: dict[str, Any], history: list[tuple[str, int, int]]
) -> None:
    world = JobWorld(**spec)
    most = spec["parallelism"]
    for step in history:
        act(world, *step)
        assert world.job is not None
        most = max(most, world.job["spec"]["parallelism"])
        world.settle()
    assert world.most_active <= most
    world.change_spec(suspend=False, parallelism=3)
    for _ in range(60):
        world.settle()
        if world.is_over:
            break
        for name in world.names(going=True):
            world.terminate(name)
        world.succeed(*world.names())
        world.advance(700)
    assert world.is_over, world.status
    assert not any("finalizers" in pod["metadata"] for pod in world.pods.values())
    assert not world.names(), "nothing runs on after the end"
    check_counts(world)


@given(specs(), HISTORIES)
@settings(max_examples=examples(50))
def test_what_is_decided_stays_decided(spec: dict[str, Any], history: list[tuple[str, int, int]]) -> None:
    world = JobWorld(**spec)
    decided: list[str] = []
    for step in history:
        act(world, *step)
        world.settle()
        now = [it for it in world.conditions if it != "Suspended"]
        assert now[: len(decided)] == decided
        decided = now


@given(specs(), HISTORIES)
@settings(max_examples=examples(100))
def test_it_says_itself_when_its_own_status_makes_more_to_do(
    spec: dict[str, Any], history: list[tuple[str, int, int]]
) -> None:
    """So the shell need not look because a status was written by itself."""
    world = JobWorld(**spec)
    for step in (("run", 0, 0), *history):
        act(world, *step)
        for _ in range(30):
            outcome = world.look()
            doing = [it for it in outcome.instructions if not isinstance(it, Record)]
            if not doing or world.is_gone:
                break
            looks_again = outcome.wake_at_seconds is not None and outcome.wake_at_seconds <= world.now_seconds
            if not looks_again and all(it.resource == JOBS for it in doing):
                more = reconcile(world.document, world.observed, world.now_seconds)
                assert not more.instructions
                assert more.wake_at_seconds == outcome.wake_at_seconds
