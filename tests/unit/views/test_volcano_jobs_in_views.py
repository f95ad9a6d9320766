"""Volcano's Jobs are shown like those of Kubernetes: one line each, with their PodGroup and its words inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.cli.jobs import start_text
from allhands.dialects.group_kinds import VOLCANO
from allhands.model.time_text import utc_text
from allhands.views.groups import groups_named, groups_of
from allhands.views.picture import see_queue
from allhands.views.queues import queue_rows
from allhands.views.rows import GroupState, row_of
from allhands.views.story import group_story
from allhands.views.volcano_job import see_volcano_job
from tests.unit.views.view_objects import CREATED, NOW, foreign_group, job, picture, pod, queue, raw

if TYPE_CHECKING:
    from allhands.views.picture import JobSeen, PodSeen
    from allhands.views.rows import GroupRow


def vcjob(name: str, phase: str = "", *, replicas: tuple[int, ...] = (2,), **more: Any) -> JobSeen:
    state = {"phase": phase, "lastTransitionTime": utc_text(NOW - 10), **more.pop("state", {})}
    document = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": utc_text(CREATED),
        },
        "spec": {
            "tasks": [{"name": f"t{index}", "replicas": count} for index, count in enumerate(replicas)],
            "queue": "default",
            **more.pop("spec", {}),
        },
        "status": {"state": state, **more} if phase or more else {},
    }
    return see_volcano_job(raw(document))


def member(name: str, of: str, **more: Any) -> PodSeen:
    return pod(name, annotations={"scheduling.k8s.io/group-name": f"{of}-uid-{of}"}, **more)


def rows(*objects: Any) -> list[GroupRow]:
    return [row_of(it) for it in groups_of(picture(*objects, queues=(queue("default"),)))]


def test_a_job_with_its_group_and_pods_is_one_line() -> None:
    (row,) = rows(
        vcjob("train", "Running", replicas=(1, 2), running=3, spec={"minAvailable": 2}),
        foreign_group(VOLCANO, "train-uid-train", need=2),
        *(member(f"train-{index}", "train", node="n1", phase="Running") for index in range(3)),
    )
    assert (row.label, row.full_kind, row.state, row.ready, row.total) == (
        "vcjob/train",
        "job.batch.volcano.sh",
        GroupState.RUNNING,
        3,
        3,
    )
    assert (row.min_count, row.completions, row.is_gang) == (2, 3, True)


def test_the_priority_of_a_job_is_that_of_its_own_class_not_of_its_tasks() -> None:
    """By the Job's own it is ranked and makes room; a class in a template is its pods' alone."""
    task = {"name": "t0", "replicas": 1, "template": {"spec": {"priorityClassName": "high"}}}
    urgent = {"spec": {"priority": 1000, "priorityClassName": "high"}}
    for spec, priority in (
        ({"tasks": [task]}, 0),
        ({"tasks": [task], "priorityClassName": "high"}, 1000),
        ({"priorityClassName": "high"}, 1000),
        ({}, 1000),
    ):
        (row,) = rows(vcjob("train", "Running", spec=spec), member("train-0", "train", **urgent))
        assert row.priority == priority, spec


def test_jobs_of_both_kinds_may_have_one_name() -> None:
    shown = picture(job("x"), vcjob("x"), queues=(queue("default"),))
    assert [it.label for it in groups_of(shown)] == ["job/x", "vcjob/x"]
    assert [it.api_group for it in groups_named(shown, "default", "vcjob", "x")] == ["batch.volcano.sh"]
    assert len(groups_named(shown, "default", "", "x")) == 2


def test_one_that_waits_says_why_in_the_words_of_its_group_or_its_own() -> None:
    unschedulable = {"type": "Unschedulable", "status": "True", "message": "Its queue is full."}
    waiting, own = rows(
        vcjob("a", "Pending"),
        foreign_group(VOLCANO, "a-uid-a", status={"phase": "Pending", "conditions": [unschedulable]}),
        vcjob("b", "Pending", state={"message": "spec.tasks[0].template: refused"}),
    )
    assert (waiting.state, waiting.why) == (GroupState.WAITING, "Its queue is full.")
    assert own.why == "spec.tasks[0].template: refused"


def test_every_phase_is_a_state_that_people_know() -> None:
    ends = {"Completed": "Succeeded", "Failed": "Failed", "Terminated": "Failed"}
    for phase, state in ends.items():
        (row,) = rows(vcjob("a", phase, succeeded=2, state={"reason": "MaxRetry", "message": "gave up"}))
        assert row.state == state
        assert row.why == ("" if phase == "Completed" else "MaxRetry: gave up")
        assert row.finished_at_seconds == NOW - 10
    (put_by,) = rows(vcjob("a", "Aborted"))
    assert (put_by.state, put_by.reason) == (GroupState.WAITING, "Suspended")
    (closing,) = rows(vcjob("a", "Completing", succeeded=1))
    assert closing.state is GroupState.RUNNING


def test_its_story_has_its_phase_and_the_kind_in_full() -> None:
    shown = picture(vcjob("a", "Restarting", spec={"runningEstimate": "90s"}), queues=(queue("default"),))
    story = group_story(groups_of(shown)[0], shown, NOW)
    facts = {it.name: it.value for it in story.facts}
    assert (facts["Kind"], facts["Phase"]) == ("Job of batch.volcano.sh", "Restarting")
    assert facts["Runs for"] == "at most or about 1m30s, as it says itself"


def test_what_its_status_says_wrongly_hides_nothing() -> None:
    odd: dict[str, Any] = {"spec": {"runningEstimate": "soon", "minAvailable": None}, "state": {"phase": "Dancing"}}
    (row,) = rows(vcjob("a", **odd))
    assert (row.label, row.state) == ("vcjob/a", GroupState.WAITING)


def test_what_the_job_says_itself_goes_before_what_its_group_says_while_it_has_no_pods() -> None:
    incomplete = {"type": "Unschedulable", "status": "True", "message": "It has 0 of the 2 pods."}
    (refused,) = rows(
        vcjob("a", "Pending", state={"message": "FailedCreate: no PriorityClass"}),
        foreign_group(VOLCANO, "a-uid-a", status={"phase": "Inqueue", "conditions": [incomplete]}),
    )
    assert refused.why == "FailedCreate: no PriorityClass"
    (again,) = rows(vcjob("a", "Restarting", state={"reason": "RestartJob", "message": "a pod failed"}))
    assert again.why == "It is being restarted: RestartJob: a pod failed"


def test_a_queue_that_is_closing_says_so() -> None:
    for state, shown in (("Closing", "Closing"), ("Closed", "Closed"), ("Open", "Open")):
        seen = see_queue(raw({"metadata": {"name": "q"}, "spec": {}, "status": {"state": state}}))
        assert [it.state for it in queue_rows(picture(queues=(seen,)))] == [shown]


def sections(*objects: Any) -> dict[str, tuple[str, ...]]:
    shown = picture(*objects, queues=(queue("default"),))
    (group,) = groups_of(shown)
    return {it.heading: it.lines for it in group_story(group, shown, NOW).sections}


def stages(*after: str, iteration: str = "") -> dict[str, Any]:
    """Tasks "a" and "b", and "c" after some of them."""
    tasks = [{"name": name, "replicas": 2} for name in "abc"]
    return {"tasks": [*tasks[:2], {**tasks[2], "dependsOn": {"name": list(after), "iteration": iteration}}]}


def task_pod(name: str, task: str, **more: Any) -> PodSeen:
    keys = {"scheduling.k8s.io/group-name": "train-uid-train", "volcano.sh/task-spec": task}
    return pod(name, annotations=keys, **more)


def test_a_task_that_waits_for_another_says_so_with_how_far_that_is() -> None:
    told = sections(
        vcjob("train", "Running", spec=stages("a", "b")),
        foreign_group(VOLCANO, "train-uid-train", need=4),
        task_pod("train-a-0", "a", node="n1", phase="Running"),
        task_pod("train-a-1", "a", phase="Succeeded"),
        task_pod("train-b-0", "b", node="n1", phase="Running"),
        task_pod("train-b-1", "b"),
    )
    assert told["Its tasks"] == (
        "a: 2 of 2 pods exist, 1 on nodes, 1 succeeded",
        "b: 2 of 2 pods exist, 1 on nodes",
        "c: waits for b (1 of 2 pods are up); its pods are made after that",
    )


def test_a_task_that_waits_for_any_of_others_waits_until_one_is_up() -> None:
    group = foreign_group(VOLCANO, "train-uid-train", need=4)
    told = sections(vcjob("train", "Pending", spec=stages("a", "b", iteration="any")), group)
    assert told["Its tasks"][2] == (
        "c: waits for a (0 of 2 pods are up) or b (0 of 2 pods are up); its pods are made after that"
    )
    pods = [task_pod(f"train-a-{index}", "a", phase="Succeeded") for index in range(2)]
    told = sections(vcjob("train", "Running", spec=stages("a", "b", iteration="any")), group, *pods)
    assert told["Its tasks"][2] == "c: 0 of 2 pods exist, 0 on nodes"


def test_a_job_of_one_task_is_not_told_of_tasks() -> None:
    assert "Its tasks" not in sections(vcjob("train", "Pending"))


def test_the_pause_before_a_restart_has_an_end() -> None:
    restarting = {"reason": "RestartJob", "message": "Pod train-t0-0 has failed."}
    told = sections(vcjob("train", "Restarting", state=restarting, retryCount=3))
    assert told["When it starts"] == (
        f"Its pods are made anew after a pause, which ends in 10s ({utc_text(NOW + 10)}).",
    )
    assert "pause" not in str(sections(vcjob("train", "Restarting", state=restarting, retryCount=1)))
    assert "pause" not in str(sections(vcjob("train", "Restarting", state={"reason": "ResumeJob"}, retryCount=3)))


def test_one_of_which_a_part_is_restarted_says_so_and_until_when_it_pauses() -> None:
    restarting = {"reason": "RestartTask", "message": "Pod train-t0-0 has failed."}
    job = vcjob("train", "Restarting", replicas=(1, 1), state=restarting, retryCount=3, spec={"minAvailable": 2})
    objects = [
        job,
        foreign_group(VOLCANO, "train-uid-train", need=2),
        member("train-t0-0", "train", node="n1", phase="Failed"),
        member("train-t1-0", "train", node="n1", phase="Running"),
    ]
    (row,) = rows(*objects)
    assert row.why == "It is being restarted: RestartTask: Pod train-t0-0 has failed."
    assert sections(*objects)["When it starts"] == (
        f"Its pods are made anew after a pause, which ends in 10s ({utc_text(NOW + 10)}).",
    )


def test_one_that_a_policy_has_suspended_says_which_and_why() -> None:
    (row,) = rows(vcjob("train", "Aborted", state={"reason": "AbortJob", "message": "Pod train-t0-0 has failed."}))
    assert (row.state, row.reason, row.why) == (
        GroupState.WAITING,
        "Suspended",
        "It is suspended: Pod train-t0-0 has failed.",
    )
    (row,) = rows(vcjob("train", "Aborted"))
    assert (row.reason, row.why) == ("Suspended", "It is suspended.")


def test_a_group_that_is_never_let_in_is_told_never() -> None:
    condition = {"type": "Unschedulable", "status": "True", "reason": "GroupNeverFits", "message": "It is too large."}
    group = foreign_group(VOLCANO, "train-uid-train", status={"phase": "Pending", "conditions": [condition]})
    (row,) = rows(vcjob("train", "Pending", state={"message": "It was too large a moment ago."}), group)
    assert (row.is_never, row.reason, row.why) == (True, "GroupNeverFits", "It is too large.")
    assert start_text(row, NOW) == "never"
    told = sections(vcjob("train", "Pending"), group)
    assert told["When it starts"] == ("Never, as long as it, the nodes and the quotas stay what they are.",)
    # The next attempt may be of another size.
    (row,) = rows(vcjob("train", "Restarting", state={"reason": "RestartJob"}), group)
    assert not row.is_never


def test_what_is_wrong_with_the_group_of_a_job_is_told_and_never_starts() -> None:
    group = foreign_group(VOLCANO, "train-uid-train", networkTopology={"mode": "hard"})
    (row,) = rows(vcjob("train", "Pending"), group)
    assert (row.is_never, row.reason) == (True, "Invalid")
    assert row.why == "spec.networkTopology: mode hard needs a tier, by highestTierAllowed or by highestTierName"
