"""The whole story of a group, a pod or a queue, as somebody who asks for it reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from allhands.model.reason import AFTER, SENTENCES, Reason, explain
from allhands.views.groups import groups_of
from allhands.views.queue_story import queue_story
from allhands.views.story import EVENTS_SHOWN, Story, group_story, pod_story
from tests.unit.views.view_objects import CREATED, NOW, ended, event, job, node, picture, pod, queue, said

if TYPE_CHECKING:
    from allhands.views.picture import Picture

SHORT = explain(Reason.INSUFFICIENT_RESOURCES, fits=1, need=2, resource="cpu", short="4")
BEHIND = SHORT.with_more(AFTER, after="default/job:blocker", expected="2027-01-15T08:10:00Z")


def story(shown: Picture, label: str) -> Story:
    group = next(it for it in groups_of(shown) if it.label == label)
    return group_story(group, shown, NOW)


def section(told: Story, heading: str) -> list[str]:
    return [line for it in told.sections if it.heading.startswith(heading) for line in it.lines]


def facts(told: Story) -> dict[str, str]:
    return {it.name: it.value for it in told.facts}


def waiting_behind(*more: Any, expected: int | None = NOW + 600, told: str = "") -> Picture:
    blocker = job("blocker", size=1, spec={"activeDeadlineSeconds": 690})
    train = job("train", annotations=said(BEHIND, expected))
    pods = [pod(f"train-{n}", job="train", cpu="3", told=told) for n in range(2)]
    running = pod("blocker-0", job="blocker", node="n1", phase="Running", cpu="3")
    return picture(blocker, train, running, *pods, node("n1"), node("n2"), *more)


def test_a_waiting_gang_tells_why_when_after_whom_and_where_there_is_room() -> None:
    told = story(waiting_behind(), "job/train")
    assert (told.title, told.state) == ('job/train in namespace "default"', "Waiting")
    assert facts(told)["Pods"] == "0 of 2 ready; all 2 must start together"
    assert facts(told)["Each asks for"] == "2 × (cpu 3)"
    assert section(told, "Why it waits") == [str(BEHIND), "Reason: InsufficientResources"]
    assert section(told, "When") == ["It is expected to start in 10m (2027-01-15T08:10:00Z)."]
    assert section(told, "In its way") == [
        "job/blocker in default: Running since 1m30s, expected to end in 10m; 1 pods on n1."
    ]
    assert section(told, "Room") == [
        "2 of 2 nodes allow its pods; looked at one by one, they have room for 1 of them.",
        "n2: room for 1; cpu has 4 of 4 free",
        "n1: room for 0; cpu has 1 of 4 free",
    ]


def test_an_expected_start_that_has_passed_is_not_hidden() -> None:
    assert section(story(waiting_behind(expected=NOW - 5), "job/train"), "When") == [
        "It was expected to start 5s ago (2027-01-15T07:59:55Z): any moment now."
    ]


def test_who_prevents_an_answer_is_named_as_the_scheduler_named_it() -> None:
    unknown = 'No start can be expected: nobody knows when "default/job:blocker" ends.'
    told = story(waiting_behind(expected=None, told=f"{BEHIND} {unknown}"), "job/train")
    assert section(told, "When") == [unknown]
    assert section(told, "In its way")


def test_a_group_nobody_spoke_about_asks_whether_its_scheduler_runs() -> None:
    told = story(picture(job("train", size=1), pod("a", job="train", spec={"schedulerName": "mine"})), "job/train")
    assert section(told, "When") == [
        "No scheduler has said anything about it. Its pods ask for the scheduler 'mine'; is it running?"
    ]


def test_failed_starts_tell_the_next_try_and_the_nodes_that_are_avoided() -> None:
    record = said(SHORT, failed_starts=2, retry_at_seconds=NOW + 30, avoid_nodes=("bad",))
    told = story(picture(job("train", annotations=record), pod("a", job="train")), "job/train")
    assert section(told, "Failed starts") == [
        "2 starts failed: its pods were on nodes and did not begin to run in time.",
        "The next is tried in 30s (2027-01-15T08:00:30Z).",
        "Nodes that it avoids since: bad.",
    ]


def test_room_that_is_made_is_told() -> None:
    record = said(SHORT, preempting_since_seconds=NOW - 7, nominated_nodes=("n1", "n2"))
    told = story(picture(job("train", annotations=record), pod("a", job="train")), "job/train")
    assert section(told, "Room that is made") == ["Since 7s others are leaving on n1, n2 to make room for it."]


def test_a_running_gang_tells_where_its_pods_are_and_what_they_have_in_common() -> None:
    rack = {"topology.allhands.dev/rack": "r1"}
    told = story(
        picture(
            job("train", annotations={"allhands.dev/topology": "rack", "allhands.dev/expected-duration": "5m"}),
            pod("train-0", job="train", node="n1", phase="Running", spec={"nodeSelector": rack}),
            pod("train-1", job="train", node="n2", phase="Running", spec={"nodeSelector": rack}),
            node("n1", labels=rack),
            node("n2", labels=rack),
            node("n3"),
            event("train", "Scheduled", "Bound 2 pods to 2 nodes in r1."),
        ),
        "job/train",
    )
    assert section(told, "Where") == ["n1: train-0 (cpu 1 of 4)", "n2: train-1 (cpu 1 of 4)"]
    assert section(told, "Why there") == [
        "Its node selector and affinity leave 2 of 3 nodes.",
        'It asks for "rack" (allhands.dev/topology).',
        "All of them are in rack r1.",
    ]
    assert section(told, "What happened") == ["    5s ago  Scheduled: Bound 2 pods to 2 nodes in r1."]
    assert facts(told)["Expected end"].startswith("in 3m30s")
    assert not section(told, "Why it waits")


def test_a_job_that_succeeded_tells_how_long_it_took_and_nothing_about_waiting() -> None:
    status = ended("Complete", NOW - 10) | {"succeeded": 2}
    told = story(picture(job("train", completions=2, annotations=said(SHORT, NOW), status=status)), "job/train")
    assert told.state == "Succeeded"
    assert (facts(told)["Done"], facts(told)["Took"]) == ("2 of 2 succeeded", "1m30s")
    assert told.sections == ()


def test_a_failed_job_tells_the_verdict_and_the_pods_in_trouble() -> None:
    over = ended("Failed", NOW - 10, reason="BackoffLimitExceeded", message="too many")
    dead = {"containerStatuses": [{"name": "main", "restartCount": 2, "state": {"terminated": {"exitCode": 9}}}]}
    told = story(
        picture(job("train", status=over), pod("train-0", job="train", node="n1", phase="Failed", status=dead)),
        "job/train",
    )
    assert section(told, "Why it failed") == ["BackoffLimitExceeded: too many"]
    assert section(told, "Pods in trouble") == [
        'train-0 on n1: container "main" exited with code 9 (restarted 2 times)'
    ]


def test_of_many_events_the_newest_are_shown_and_the_rest_counted() -> None:
    events = [event("train", "Reason", str(n), at=CREATED + n) for n in range(EVENTS_SHOWN + 3)]
    lines = section(story(picture(job("train"), *events), "job/train"), "What happened")
    assert lines[0] == "3 earlier events are left out"
    assert len(lines) == EVENTS_SHOWN + 1
    assert lines[-1].endswith(f"Reason: {EVENTS_SHOWN + 2}")


def test_events_of_pods_name_them_and_repeated_ones_are_counted() -> None:
    told = story(
        picture(
            job("train"),
            pod("train-0", job="train"),
            event("train-0", "Pulled", "an image", kind="Pod", count=3),
            event("stranger", "Pulled", "another", kind="Pod"),
        ),
        "job/train",
    )
    assert section(told, "What happened") == ["    5s ago  Pulled ×3 train-0: an image"]


def test_what_was_said_alike_of_several_pods_is_said_once() -> None:
    told = story(
        picture(
            job("train"),
            *(event(f"train-{n}", "Preempted", "made room", kind="Pod", at=NOW - 9 + n) for n in range(3)),
            event("train", "Completed", "done", at=NOW - 8),
        ),
        "job/train",
    )
    assert section(told, "What happened") == [
        "    8s ago  Completed: done",
        "    7s ago  Preempted (3 pods): made room",
    ]


def test_a_pod_that_cannot_start_is_told_once() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    stuck = pod("train-0", job="train", node="n1", status={"containerStatuses": [{"name": "main", "state": state}]})
    told = story(picture(job("train", size=1), stuck, node("n1")), "job/train")
    assert section(told, "Pods in trouble") == ["train-0 on n1: ImagePullBackOff: no such image"]
    assert not section(told, "What is in the way")
    assert facts(told)["Pods"] == "0 of 1 ready, 1 on nodes"


def test_what_happened_to_pods_that_are_gone_is_told_by_the_job_that_made_them() -> None:
    shown = picture(
        job("train"),
        job("train-2"),
        event("train-x7k2p", "Preempted", "made room", kind="Pod"),
        event("train-2-x7k2p", "Preempted", "as well", kind="Pod"),
        event("trainer-x7k2p", "Preempted", "somebody else", kind="Pod"),
    )
    assert section(story(shown, "job/train"), "What happened") == ["    5s ago  Preempted train-x7k2p: made room"]
    assert section(story(shown, "job/train-2"), "What happened") == ["    5s ago  Preempted train-2-x7k2p: as well"]


def test_a_pod_tells_its_groups_reason_and_who_it_belongs_to() -> None:
    shown = waiting_behind()
    seen = next(it for it in shown.pods if it.record.pod.name == "train-0")
    told = pod_story(seen, shown, NOW)
    assert told.state == "Waiting"
    assert facts(told)["Belongs to"] == "job/train (Waiting)"
    assert facts(told)["Node"] == "none yet"
    assert section(told, "Why it waits")[0] == str(BEHIND)
    assert section(told, "In its way")


def test_a_pod_held_by_gates_says_so() -> None:
    gated = pod("a", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    told = pod_story(gated, picture(gated), NOW)
    assert section(told, "Why it waits")[0] == "Scheduling gates hold it back: example.com/wait."


def test_a_queue_tells_what_it_has_who_runs_and_who_waits() -> None:
    mine = {"allhands.dev/queue": "team-a"}
    shown = picture(
        job("run", size=1, annotations=mine),
        pod("run-0", job="run", node="n1", phase="Running", cpu="3"),
        job("train", annotations=mine | said(SHORT, NOW + 60)),
        pod("train-0", job="train"),
        node("n1"),
        queues=(queue("team-a", deserved={"cpu": "2"}, capability={"cpu": "4"}), queue("other")),
    )
    told = queue_story("team-a", shown, NOW)
    assert told is not None
    assert facts(told)["Share"] == "150% of what it deserves (cpu)"
    assert section(told, "What it has") == ["cpu: 3 used, deserved 2, at most 4, 1 borrowed"]
    assert section(told, "Running (1)") == ["default/job/run: 1 of 1 pods ready since 1m30s"]
    assert section(told, "Waiting (1)") == [f"default/job/train, since 1m40s: {SHORT} Start in 1m."]
    assert queue_story("nowhere", shown, NOW) is None


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])
MOMENTS = st.none() | st.integers(-(10**12), 10**12)
TEXTS = st.text(max_size=30)


@given(
    st.lists(st.tuples(PHASES, st.booleans(), st.booleans(), TEXTS), max_size=4),
    st.sampled_from(list(Reason)),
    MOMENTS,
    st.integers(0, 3),
    st.integers(-(10**12), 10**12),
    TEXTS,
)
def test_there_is_a_story_whatever_the_objects_say(
    pods: list[tuple[str, bool, bool, str]],
    reason: Reason,
    expected: int | None,
    failed: int,
    now: int,
    text: str,
) -> None:
    numbers = dict.fromkeys(re.findall(r"{(\w+)}", SENTENCES[reason]), text)
    record = said(explain(reason, **numbers), expected, failed_starts=failed, retry_at_seconds=failed * now)
    members = [
        pod(f"train-{n}", job="train", node="n1" if bound else "", phase=phase, told=words, deleting=deleting)
        for n, (phase, bound, deleting, words) in enumerate(pods)
    ]
    shown = picture(job("train", annotations=record), *members, node("n1"), event("train", text, text))
    stories = [group_story(it, shown, now) for it in groups_of(shown)]
    stories += [pod_story(it, shown, now) for it in shown.pods]
    for told in stories:
        assert told.state
        assert all(it.lines and all(it.lines) for it in told.sections)
        assert all(it.value for it in told.facts)
