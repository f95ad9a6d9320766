"""Commands for a Volcano Job: done once, in whichever phase they find it, and thrown away."""

from __future__ import annotations

import pytest

from allhands.api.volcano.lifecycle_policy import ACTIONS_OF_USERS, Action
from allhands.lifecycle.instructions import Delete, Record
from allhands.lifecycle.volcano_job.transitions import PARTIAL, Finding, transition, transition_table
from tests.unit.lifecycle.volcano_job.test_policies import running
from tests.volcano_job_world import VolcanoJobWorld
from tests.volcano_jobs import policy, task


def test_a_job_is_suspended_and_resumed_and_what_has_succeeded_is_not_run_again() -> None:
    world = running()
    world.succeed("train-worker-0")
    world.fail("train-worker-2")
    world.settle()
    world.order("AbortJob")
    world.settle()
    assert world.phase == "Aborting"
    assert not world.commands
    world.end_going()
    world.settle()
    assert world.phase == "Aborted"
    assert sorted(world.pods) == ["train-worker-0", "train-worker-2"]
    assert world.group is None
    done = world.pods["train-worker-0"]["metadata"]["uid"]
    world.order("ResumeJob")
    world.settle()
    assert world.phase == "Pending"
    assert world.names("Pending") == ["train-worker-1", "train-worker-2"]
    assert world.pods["train-worker-0"]["metadata"]["uid"] == done
    assert world.status["succeeded"] == 1
    world.run()
    world.settle()
    assert world.phase == "Running"


def test_resuming_uses_up_no_retry() -> None:
    """Volcano counts it as one: whoever suspends a job three times has a failed one."""
    world = running(maxRetry=1)
    for _ in range(4):
        for action in ("AbortJob", "ResumeJob"):
            world.order(action)
            world.settle()
            world.end_going()
            world.settle()
        world.run()
        world.settle()
        assert world.phase == "Running"
    assert world.status.get("retryCount", 0) == 0


def test_a_job_that_restarts_can_be_suspended() -> None:
    """Volcano forgets an abort that comes while pods are still going."""
    world = running(policies=[policy("RestartJob", "PodFailed")])
    world.fail("train-worker-0")
    world.settle()
    assert world.phase == "Restarting"
    world.order("AbortJob")
    world.settle()
    world.end_going()
    world.settle()
    assert world.phase == "Aborted"


@pytest.mark.parametrize("action", ["AbortJob", "RestartJob", "TerminateJob", "CompleteJob"])
def test_a_command_is_done_once_although_the_end_came_before_it_was_thrown_away(action: str) -> None:
    world = running(maxRetry=10)
    world.order(action)
    outcome = world.decide()
    cut = next(number for number, it in enumerate(outcome.instructions) if isinstance(it, Delete))
    world.look(cut)
    assert len(world.commands) == 1
    phase, retries = world.phase, world.status.get("retryCount", 0)
    again = [it for it in world.look().instructions if not isinstance(it, Record)]
    assert [type(it) for it in again] == [Delete]
    assert (world.phase, world.status.get("retryCount", 0)) == (phase, retries)
    assert not world.commands
    world.settle()


@pytest.mark.parametrize("action", ["RestartTask", "ResumeJob", "OpenQueue", "Nonsense", ""])
def test_a_command_that_makes_no_sense_now_is_thrown_away_and_told(action: str) -> None:
    world = running()
    world.order(action)
    world.settle()
    assert not world.commands
    assert world.phase == "Running"
    assert "CommandIgnored" in world.reasons()


@pytest.mark.parametrize("action", sorted(PARTIAL))
def test_a_command_cannot_restart_a_part_of_a_job_and_says_what_can(action: str) -> None:
    """Volcano uses up a retry and restarts nothing."""
    world = running()
    world.order(action)
    world.settle()
    told = next(it.message for it in world.events if it.reason == "CommandIgnored")
    assert f"asks for {action}, which only a policy can ask for" in told
    assert "RestartJob" in told
    assert world.phase == "Running"
    assert world.status.get("retryCount", 0) == 0


@pytest.mark.parametrize("action", ["OpenQueue", "Nonsense", "SyncJob"])
def test_a_command_that_no_job_knows_is_told_which_ones_are_known(action: str) -> None:
    world = running()
    world.order(action)
    world.settle()
    told = next(it.message for it in world.events if it.reason == "CommandIgnored")
    assert "a Job knows AbortJob, CompleteJob, RestartJob, ResumeJob, TerminateJob" in told


def test_commands_are_done_one_after_the_other() -> None:
    world = running()
    world.order("AbortJob")
    world.order("ResumeJob")
    world.settle()
    world.end_going()
    world.settle()
    assert world.phase == "Pending"
    assert world.phases == ["Pending", "Running", "Aborting", "Restarting", "Pending"]


def test_a_job_that_is_over_never_runs_again() -> None:
    world = VolcanoJobWorld(task("worker", 1))
    world.settle()
    world.succeed()
    world.settle()
    for action in sorted(ACTIONS_OF_USERS):
        world.order(action)
    world.settle()
    assert world.phase == "Completed"
    assert not world.commands
    assert world.group is None


def test_every_action_leads_to_a_phase_that_does_not_take_it_again() -> None:
    """So a command that is found a second time is only thrown away."""
    for row in transition_table():
        if isinstance(row.cause, Action) and row.cause not in PARTIAL:
            assert transition(row.target, row.cause) is None, row


def test_the_table_has_a_way_into_and_out_of_every_phase_that_is_not_the_end() -> None:
    rows = transition_table()
    assert len({(it.source, it.cause) for it in rows}) == len(rows)
    sources, targets = {it.source for it in rows}, {it.target for it in rows}
    assert {it.value for it in targets - sources} == {"Completed", "Failed", "Terminated"}
    assert {it.value for it in sources - targets} == set()
    causes = {it.cause for it in rows}
    assert causes >= ACTIONS_OF_USERS | set(Finding)
