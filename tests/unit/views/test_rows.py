"""One line about each group: its state, its pods, its start, and why it is not further."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.cli.jobs import JobTable
from allhands.model.reason import Reason, explain
from allhands.views.groups import groups_of
from allhands.views.rows import GroupRow, GroupState, row_of
from tests.unit.views.view_objects import CREATED, NOW, ended, job, picture, pod, pod_group, queue, said

SHORT = explain(Reason.INSUFFICIENT_RESOURCES, fits=1, need=2, resource="cpu", short="4")


def rows(*objects: Any, **more: Any) -> list[GroupRow]:
    return [row_of(group) for group in groups_of(picture(*objects, **more))]


def only(*objects: Any, **more: Any) -> GroupRow:
    (row,) = rows(*objects, **more)
    return row


def test_a_gang_that_waits_says_what_the_scheduler_said() -> None:
    told = f"{SHORT} Expected start: 2027-01-15T08:10:00Z."
    waiting = only(
        job("train", annotations=said(SHORT, NOW + 600)),
        pod("train-0", job="train", told=told),
        pod("train-1", job="train", told=told),
    )
    assert waiting.state is GroupState.WAITING
    assert (waiting.ready, waiting.total, waiting.waiting, waiting.min_count) == (0, 2, 2, 2)
    assert waiting.reason == "InsufficientResources"
    assert waiting.why == str(SHORT)
    assert waiting.told == told
    assert waiting.expected_start_seconds == NOW + 600
    assert waiting.numbers["short"] == "4"
    assert waiting.started_at_seconds is None


def test_a_job_whose_pods_are_not_made_yet_says_how_many_are_missing() -> None:
    assert only(job("train", size=3)).why == "0 of the 3 pods that must start together exist."


def test_a_suspended_job_waits_and_says_so() -> None:
    row = only(job("train", spec={"suspend": True}))
    assert (row.state, row.reason, row.why) == (GroupState.WAITING, "Suspended", "It is suspended.")


def test_an_annotation_that_makes_no_sense_is_the_reason() -> None:
    row = only(job("train", annotations={"allhands.dev/min-available": "most"}), pod("a", job="train"))
    assert row.reason == "Invalid"
    assert 'allhands.dev/min-available: "most" is neither' in row.why


@pytest.mark.parametrize(
    ("phases", "state"),
    [
        (("Pending", "Pending"), GroupState.STARTING),
        (("Running", "Pending"), GroupState.STARTING),
        (("Running", "Running"), GroupState.RUNNING),
        (("Running", "Succeeded"), GroupState.RUNNING),
    ],
)
def test_a_gang_runs_once_its_minimum_runs(phases: tuple[str, str], state: GroupState) -> None:
    pods = [pod(f"train-{n}", job="train", node="a", phase=phase) for n, phase in enumerate(phases)]
    row = only(job("train"), *pods)
    assert row.state is state
    assert row.started_at_seconds == CREATED + 10


def test_a_job_that_is_no_gang_runs_with_its_first_pod_and_says_that_others_wait() -> None:
    row = only(
        job("sweep", gang=False, size=3),
        pod("sweep-0", job="sweep", node="a", phase="Running"),
        pod("sweep-1", job="sweep", told="cpu is short."),
        pod("sweep-2", job="sweep", told="cpu is short."),
    )
    assert row.state is GroupState.RUNNING
    assert (row.ready, row.total, row.min_count) == (1, 3, 1)
    assert row.why == "2 of 3 pods wait: cpu is short."


def test_pods_that_are_leaving_count_for_nothing() -> None:
    row = only(job("train"), pod("train-0", job="train", node="a", phase="Running", deleting=True))
    assert (row.state, row.bound, row.ready) == (GroupState.WAITING, 0, 0)
    assert row.requests == {"cpu": "1"}  # but its node still counts them


def test_a_container_that_cannot_start_is_told() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    broken = pod("train-0", job="train", node="a", status={"containerStatuses": [{"name": "main", "state": waiting}]})
    row = only(job("train", size=1), broken)
    assert row.state is GroupState.STARTING
    assert row.why == "pod train-0: ImagePullBackOff: no such image"


def test_a_container_that_is_being_made_is_no_trouble() -> None:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    starting = pod("train-0", job="train", node="a", status={"containerStatuses": [{"name": "main", "state": waiting}]})
    assert only(job("train", size=1), starting).why == "0 of 1 pods have started."


def test_a_failed_job_says_the_verdict() -> None:
    over = ended("Failed", NOW - 10, reason="BackoffLimitExceeded", message="too many")
    row = only(job("train", status=over | {"failed": 3}))
    assert (row.state, row.why, row.failed) == (GroupState.FAILED, "BackoffLimitExceeded: too many", 3)
    assert row.finished_at_seconds == NOW - 10


def test_a_job_that_succeeded_has_nothing_to_say() -> None:
    row = only(job("train", completions=2, annotations=said(SHORT), status=ended("Complete", NOW) | {"succeeded": 2}))
    assert (row.state, row.why, row.reason, row.succeeded, row.completions) == (GroupState.SUCCEEDED, "", "", 2, 2)


def test_a_pod_group_is_over_when_its_pods_are() -> None:
    failed = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]}
    members = [
        pod("a", group="ring", node="n", phase="Succeeded"),
        pod("b", group="ring", node="n", phase="Failed", status=failed),
    ]
    row = only(pod_group("ring"), *members)
    assert (row.kind, row.state) == ("podgroup", GroupState.FAILED)
    assert row.why == 'pod b: container "main" exited with code 3'
    assert only(pod_group("ring"), members[0], pod("c", group="ring", phase="Succeeded")).state is GroupState.SUCCEEDED


def test_a_pod_group_below_its_minimum_says_so_even_without_a_scheduler() -> None:
    row = only(pod_group("ring", need=4), pod("a", group="ring"))
    assert row.why == "1 of the 4 pods that must start together exist."


def test_a_job_whose_pods_name_a_pod_group_is_shown_once_with_what_the_group_says() -> None:
    row = only(
        job("train", gang=False),
        pod_group("ring", annotations=said(SHORT, NOW + 60)),
        pod("train-0", job="train", group="ring"),
        pod("train-1", job="train", group="ring"),
    )
    assert (row.kind, row.name, row.is_gang, row.min_count) == ("job", "train", True, 2)
    assert row.expected_start_seconds == NOW + 60


def test_a_pod_group_of_pods_of_several_owners_is_shown_beside_them() -> None:
    members = [pod("a-0", job="a", group="ring"), pod("b-0", job="b", group="ring")]
    shown = rows(job("a", size=1), job("b", size=1), pod_group("ring"), *members)
    assert [row.label for row in shown] == ["job/a", "job/b", "podgroup/ring"]


def test_who_names_no_queue_is_in_the_default_one_if_there_is_one() -> None:
    assert only(job("train"), queues=(queue("default"),)).queue == "default"
    assert only(job("train"), queues=(queue("other"),)).queue == ""


def test_a_queue_may_make_all_its_jobs_gangs() -> None:
    gangs = queue("default", annotations={"allhands.dev/gang-by-default": "true"})
    assert only(job("train", gang=False), queues=(gangs,)).is_gang
    assert not only(job("train", gang=False), queues=(queue("default"),)).is_gang


def test_failed_starts_and_the_next_try_are_kept() -> None:
    record = said(SHORT, failed_starts=2, retry_at_seconds=NOW + 30, avoid_nodes=("bad",))
    row = only(job("train", annotations=record), pod("a", job="train"), pod("b", job="train"))
    assert (row.failed_starts, row.retry_at_seconds, row.avoid_nodes) == (2, NOW + 30, ("bad",))


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", "Nonsense"])


@given(
    st.integers(-5, 5),
    st.integers(-5, 5) | st.none(),
    st.lists(st.tuples(PHASES, st.booleans(), st.booleans()), max_size=6),
)
def test_whatever_the_objects_say_there_is_a_row_that_counts_right(
    size: int, completions: int | None, pods: list[tuple[str, bool, bool]]
) -> None:
    seen = [
        pod(f"p{n}", job="j", node="a" if bound else "", phase=phase, deleting=deleting)
        for n, (phase, bound, deleting) in enumerate(pods)
    ]
    row = only(job("j", size=size, completions=completions), *seen)
    assert 0 <= row.ready <= max(row.total, row.bound + row.waiting) or not row.total
    assert row.bound + row.waiting <= len(pods)
    assert row.state.is_over or row.state is not GroupState.WAITING or row.bound == 0


@pytest.mark.parametrize("condition", ["", "SuccessCriteriaMet"])
def test_a_job_whose_pods_have_all_succeeded_does_not_wait_while_its_end_is_written(condition: str) -> None:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    row = only(job("train", size=2, completions=2, status={"succeeded": 2, "conditions": conditions}))
    assert row.state is GroupState.RUNNING
    assert (row.ready, row.total, row.succeeded, row.completions) == (0, 0, 2, 2)
    assert row.why == "Its pods have ended; the Job is about to."
    cells = JobTable(NOW).cells(row, wide=False)
    assert cells[2] == "2/2"


def test_a_job_that_is_failing_does_not_wait_while_its_pods_leave() -> None:
    status = {"failed": 1, "conditions": [{"type": "FailureTarget", "status": "True"}]}
    leaving = pod("train-0", job="train", node="a", phase="Running", deleting=True)
    assert only(job("train", status=status), leaving).state is GroupState.RUNNING


def test_a_job_that_still_lacks_completions_waits() -> None:
    row = only(job("train", size=1, completions=2, status={"succeeded": 1}))
    assert row.state is GroupState.WAITING
