"""What is refused of PodGroups, CronJobs, JobFlows, HyperNodes and Queues is refused with the field's path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allhands.api.volcano.budget_rules import MAX_UNAVAILABLE, MIN_AVAILABLE, budget_errors
from allhands.api.volcano.cron_job_rules import cron_job_errors
from allhands.api.volcano.hyper_node_rules import hyper_node_errors
from allhands.api.volcano.job_flow_rules import job_flow_errors
from allhands.api.volcano.podgroup_rules import complete_group, create_errors, update_errors
from allhands.api.volcano.queue_admission import complete_queue, deletion_error, queue_errors
from tests.unit.api.volcano.volcano_objects import around, queue, task, told

GOES, STAYS_AWAY = "nodeGroupAffinity", "nodeGroupAntiAffinity"
MUST = "requiredDuringSchedulingIgnoredDuringExecution"
SHOULD = "preferredDuringSchedulingIgnoredDuringExecution"

# -- groups


def _group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "team"}, "spec": {"queue": "default", **spec}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"queue": "nowhere"}, 'spec.queue: Not found: "nowhere"'),
        ({"queue": "shut"}, 'spec.queue: Invalid value: "shut": the queue is Closed'),
        ({"networkTopology": {"mode": "hard"}}, "spec.networkTopology.highestTierAllowed: Required value"),
        (
            {"subGroupPolicy": [{}, {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "x"}}]},
            "spec.subGroupPolicy[1].networkTopology.highestTierName: Forbidden",
        ),
        (
            {"subGroupPolicy": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]},
            "spec.subGroupPolicy[0].labelSelector.matchExpressions[0].operator",
        ),
    ],
    ids=["no queue", "a closed queue", "hard without a tier", "two tiers", "a selector"],
)
def test_a_group_that_makes_no_sense_is_refused(spec: dict[str, Any], words: str) -> None:
    found = told(create_errors(_group(**spec), around(queue("shut", state="Closed"))))
    assert len(found) == 1
    assert words in found[0]


def test_a_group_goes_to_the_queue_of_its_namespace_unless_it_names_one() -> None:
    places = around(namespaces={"team": {"scheduling.volcano.sh/queue-name": "theirs"}})
    for spec, wanted in (({}, "theirs"), ({"queue": "default"}, "theirs"), ({"queue": "mine"}, "mine")):
        group = {"metadata": {"name": "g", "namespace": "team"}, "spec": dict(spec)}
        complete_group(group, places)
        complete_group(group, places)
        assert group["spec"]["queue"] == wanted
    elsewhere = {"metadata": {"name": "g", "namespace": "other"}}
    complete_group(elsewhere, places)
    assert elsewhere["spec"] == {"queue": "default"}


def test_the_status_of_a_group_is_written_whatever_became_of_its_queue() -> None:
    old = _group(queue="shut")
    new = old | {"status": {"phase": "Running"}}
    shut = around(queue("shut", state="Closed"))
    assert update_errors(new, old, shut) == []
    moved = _group(queue="shut", minMember=2)
    assert update_errors(moved, old, shut) == []
    assert told(update_errors(moved, _group(), shut))
    assert told(update_errors(_group(networkTopology={"mode": "hard"}), _group(), shut))


# -- schedules


def _cron_job(name: str = "nightly", **more: Any) -> dict[str, Any]:
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"tasks": [task()]}}, **more}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (_cron_job(schedule=""), "spec.schedule: Required value"),
        (_cron_job(schedule="at night"), 'spec.schedule: Invalid value: "at night"'),
        (_cron_job(schedule="TZ=UTC 0 3 * * *"), "use timeZone field instead"),
        (_cron_job(timeZone=""), "spec.timeZone: Invalid value"),
        (_cron_job(timeZone="Local"), "spec.timeZone: Invalid value"),
        (_cron_job(timeZone="Moon/Sea"), 'spec.timeZone: Invalid value: "Moon/Sea"'),
        (_cron_job("n" * 53), "must be no more than 52 characters"),
        (
            _cron_job(jobTemplate={"spec": {"tasks": [task(minAvailable=9)]}}),
            "spec.jobTemplate.spec.tasks[0].minAvailable: Invalid value: 9",
        ),
        (_cron_job(jobTemplate={}), "spec.jobTemplate.spec.tasks: Required value"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(manifest: dict[str, Any], words: str) -> None:
    found = told(cron_job_errors(manifest, None, around()))
    assert any(words in text for text in found), found
    other = _cron_job(suspend=True)
    assert any(words in text for text in told(cron_job_errors(manifest, other, around())))


def test_a_schedule_may_name_a_queue_that_is_not_there_yet() -> None:
    manifest = _cron_job(jobTemplate={"spec": {"queue": "later", "tasks": [task()]}})
    before = copy.deepcopy(manifest)
    assert cron_job_errors(manifest, None, around()) == []
    assert manifest == before, "a template stays as it was written"
    assert cron_job_errors(_cron_job(timeZone="Europe/Berlin"), None, around()) == []


def test_a_schedule_that_was_never_right_can_still_end() -> None:
    wrong = _cron_job(schedule="never")
    assert cron_job_errors(wrong | {"metadata": {"name": "x", "finalizers": []}}, wrong, around()) == []


# -- flows


def _flow(*steps: tuple[str, list[str]], name: str = "flow") -> dict[str, Any]:
    flows = [{"name": step, "dependsOn": {"targets": targets}} for step, targets in steps]
    return {"metadata": {"name": name}, "spec": {"flows": flows}}


def test_steps_that_follow_each_other_are_taken() -> None:
    assert job_flow_errors(_flow(("a", []), ("b", ["a"]), ("c", ["a", "b"]))) == []
    assert job_flow_errors({"metadata": {"name": "empty"}}) == []


def test_a_step_may_wait_for_a_job_of_batch() -> None:
    assert job_flow_errors(_flow(("a", ["job.batch/data"]))) == []
    for wrong in ("job.batch/", "job.batch/a/b", "job.batch", "jobs.batch/data"):
        assert told(job_flow_errors(_flow(("a", [wrong])))) == [
            f'spec.flows[0].dependsOn.targets[0]: Not found: "{wrong}"'
        ]


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (_flow(("a", ["b"]), ("b", ["c"]), ("c", ["a"])), "spec.flows[0].dependsOn.targets: Invalid value"),
        (_flow(("a", ["b"]), ("b", ["c"]), ("c", ["a"])), "for ever: a -> b -> c -> a"),
        (_flow(("a", ["a"])), "for ever: a -> a"),
        (_flow(("a", ["z"])), 'spec.flows[0].dependsOn.targets[0]: Not found: "z"'),
        (_flow(("a", []), ("a", [])), 'spec.flows[1].name: Duplicate value: "a"'),
        (_flow(("a" * 40, []), name="f" * 40), "its Job would be called"),
    ],
)
def test_steps_that_cannot_follow_each_other_are_refused(flow: dict[str, Any], words: str) -> None:
    assert any(words in text for text in told(job_flow_errors(flow)))
    assert any(words in text for text in told(job_flow_errors(flow, _flow(("before", [])))))
    assert job_flow_errors(flow, flow) == []


def test_a_long_ring_is_shown_short() -> None:
    steps = [(f"s{number}", [f"s{(number + 1) % 5000}"]) for number in range(5000)]
    [text] = told(job_flow_errors(_flow(*steps)))
    assert len(text) < 300


# -- the network


def _hyper_node(*members: dict[str, Any], name: str = "rack") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"tier": 1, "members": list(members)}}


def _member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


@pytest.mark.parametrize(
    "member",
    [
        _member(exactMatch={"name": "node-1"}),
        _member(regexMatch={"pattern": "^node-[0-9]+$"}),
        _member(labelMatch={"matchLabels": {"rack": "1"}}),
        _member("HyperNode", exactMatch={"name": "other"}),
    ],
    ids=str,
)
def test_members_by_name_pattern_or_labels_are_taken(member: dict[str, Any]) -> None:
    assert hyper_node_errors(_hyper_node(member)) == []


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "spec.members: Required value"),
        ([_member()], "spec.members[0].selector: Required value: exactly one of"),
        ([{"type": "Node"}], "spec.members[0].selector: Required value"),
        (
            [_member(exactMatch={"name": "a"}, regexMatch={"pattern": "b"})],
            "spec.members[0].selector.regexMatch: Forbidden: exactly one of",
        ),
        ([_member(regexMatch={"pattern": "a("})], 'spec.members[0].selector.regexMatch.pattern: Invalid value: "a("'),
        ([_member(regexMatch={"pattern": "(?<=a)b"})], "is not a regular expression"),
        ([_member(exactMatch={"name": "No"})], "spec.members[0].selector.exactMatch.name: Invalid value"),
        ([_member("HyperNode", exactMatch={"name": "rack"})], "a HyperNode cannot be a member of itself"),
        ([_member(labelMatch={"matchLabels": {"a b": "c"}})], "spec.members[0].selector.labelMatch.matchLabels"),
        (
            [_member("HyperNode", labelMatch={"matchLabels": {"a": "c"}})],
            "spec.members[0].selector.labelMatch: Forbidden: is only for members of type Node",
        ),
        ([_member("HyperNode", exactMatch={})], "spec.members[0].selector.exactMatch.name: Required value"),
        ([_member(regexMatch={"pattern": "a" * 1025})], "spec.members[0].selector.regexMatch.pattern: Too long"),
    ],
    ids=str,
)
def test_members_that_nobody_can_find_are_refused(members: list[dict[str, Any]], words: str) -> None:
    node = _hyper_node(*members)
    assert any(words in text for text in told(hyper_node_errors(node)))
    assert any(words in text for text in told(hyper_node_errors(node, _hyper_node(_member(exactMatch={"name": "a"})))))
    assert hyper_node_errors(node, node) == []


# -- queues


@pytest.mark.parametrize(
    ("new", "others", "words"),
    [
        (queue("a", parent="a"), [], "a queue cannot be its own parent"),
        (queue("a", parent="b"), [queue("b", parent="a")], "the parents form a cycle"),
        (queue("a", parent="nowhere"), [], 'spec.parent: Not found: "nowhere"'),
        (
            queue("f", parent="e"),
            [queue("a"), *(queue(it, parent=chr(ord(it) - 1)) for it in "bcde")],
            "more than 5 levels below the root",
        ),
        (queue("a", parent="busy"), [queue("busy", pods="3")], "3 pods of its own groups are on nodes"),
        (
            queue("a", guarantee={"resource": {"cpu": "1"}}),
            [],
            'spec.guarantee.resource[cpu]: Invalid value: "1": spec.deserved must name it too',
        ),
        (
            queue("a", deserved={"cpu": 8}, capability={"cpu": 4}),
            [],
            'spec.deserved[cpu]: Invalid value: "8": must not be more than spec.capability, which is 4',
        ),
        (
            queue("a", parent="top", capability={"cpu": 9}),
            [queue("top", capability={"cpu": 8})],
            "spec.capability[cpu]: Invalid value: 9: must not be more than that of the queue top above, which is 8",
        ),
        (
            queue("a", parent="mid", capability={"cpu": 9}),
            [queue("top", capability={"cpu": 8}), queue("mid", parent="top")],
            "that of the queue top above",
        ),
        (
            queue("a", parent="top", deserved={"cpu": 5}),
            [queue("top", deserved={"cpu": 8}), queue("b", parent="top", deserved={"cpu": 4})],
            "spec.deserved[cpu]: Invalid value: 5: together with b it is more than spec.deserved of top above",
        ),
        (
            queue("top", capability={"cpu": 4}),
            [queue("a", parent="top"), queue("b", parent="a", capability={"cpu": 6})],
            "spec.capability[cpu]: Invalid value: 4: below it, a may use 6",
        ),
        (
            queue("top", deserved={"cpu": 4}),
            [queue("a", parent="top", deserved={"cpu": 3}), queue("b", parent="top", deserved={"cpu": 2})],
            "spec.deserved[cpu]: Invalid value: 4: the 2 queues below it have more together",
        ),
        (
            queue("a", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1"}),
            [],
            "must have as many parts as volcano.sh/hierarchy-weights",
        ),
        (
            queue("a", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/0"}),
            [],
            "each weight must be a number above 0",
        ),
        (
            queue("a", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"}),
            [queue("b", annotations={"volcano.sh/hierarchy": "root/a/b"})],
            "the queue b is below it, at root/a/b",
        ),
        (
            queue("z", annotations={"volcano.sh/hierarchy": "root/a/z", "volcano.sh/hierarchy-weights": "1/2/3"}),
            [queue("a", annotations={"volcano.sh/hierarchy": "root/a"})],
            "the queue a is on the way, at root/a",
        ),
        (
            queue("z", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"}),
            [queue("a", annotations={"volcano.sh/hierarchy": "root/a"})],
            "the queue a is there already",
        ),
        (
            queue("z", annotations={"volcano.sh/hierarchy": "root//q", "volcano.sh/hierarchy-weights": "1/2/3"}),
            [],
            "a name in the path is empty",
        ),
        (
            queue("z", affinity={GOES: {MUST: ["red", "blue"]}, STAYS_AWAY: {MUST: ["blue"]}}),
            [],
            f'spec.affinity.{STAYS_AWAY}.{MUST}[0]: Invalid value: "blue"',
        ),
        (
            queue("z", affinity={GOES: {SHOULD: ["red", ""]}}),
            [],
            f"spec.affinity.{GOES}.{SHOULD}[1]: Invalid value",
        ),
    ],
)
def test_a_queue_that_does_not_fit_is_refused(new: dict[str, Any], others: list[dict[str, Any]], words: str) -> None:
    found = told(queue_errors(new, None, around(*others)))
    assert any(words in text for text in found), found
    before = queue(new["metadata"]["name"])
    assert any(words in text for text in told(queue_errors(new, before, around(*others))))
    assert queue_errors(new, new, around(*others)) == [], "its status can still be written"


def test_queues_that_fit_are_taken() -> None:
    others = around(
        queue("top", deserved={"cpu": 8}, capability={"cpu": 10}), queue("b", parent="top", deserved={"cpu": 4})
    )
    assert queue_errors(queue("a", parent="top", deserved={"cpu": 4}, capability={"cpu": 10}), None, others) == []
    assert queue_errors(queue("root"), None, around()) == []
    assert queue_errors(queue("default", parent="root"), None, around()) == []


def test_a_queue_can_be_changed_whatever_others_have_done_to_its_place_since() -> None:
    notes = {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"}
    others = around(
        queue("b", annotations={"volcano.sh/hierarchy": "root/a/b"}),
        queue("c", annotations={"volcano.sh/hierarchy": "root/a"}),
    )
    old, new = queue("a", annotations=notes), queue("a", annotations=notes, weight=7)
    assert queue_errors(new, old, others) == []
    groups = {GOES: {MUST: ["red"]}, STAYS_AWAY: {MUST: ["red"]}}
    assert queue_errors(queue("d", affinity=groups, weight=7), queue("d", affinity=groups), others) == []


def test_queues_with_names_that_only_begin_alike_do_not_meet() -> None:
    notes = {"volcano.sh/hierarchy": "root/scidev", "volcano.sh/hierarchy-weights": "1/2"}
    others = [queue("a", annotations={"volcano.sh/hierarchy": it}) for it in ("root/sci", "root", "root/scidevs")]
    for other in others:
        assert queue_errors(queue("z", annotations=notes), None, around(other)) == []


def test_the_root_is_put_in_front_of_a_path() -> None:
    made = queue("a", annotations={"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/3"})
    for _ in range(2):
        complete_queue(made, around())
        assert made["metadata"]["annotations"] == {
            "volcano.sh/hierarchy": "root/a/b",
            "volcano.sh/hierarchy-weights": "1/2/3",
        }


@pytest.mark.parametrize(
    ("gone", "others", "words"),
    [
        (queue("root"), [], "always there"),
        (queue("default"), [], "always there"),
        (queue("top"), [queue("a", parent="top")], "queues are below it: a"),
        (queue("busy", pods="2"), [], "2 pods of its groups are on nodes"),
        (queue("free"), [], ""),
    ],
    ids=["the root", "the default", "a parent", "one with pods", "one that nobody needs"],
)
def test_a_queue_that_is_needed_stays(gone: dict[str, Any], others: list[dict[str, Any]], words: str) -> None:
    found = deletion_error(gone, around(gone, *others))
    assert words in found
    assert bool(words) == bool(found)


# -- how much of a group may be disturbed


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({}, ""),
        ({MIN_AVAILABLE: "3"}, ""),
        ({MAX_UNAVAILABLE: "20%", "other": "x"}, ""),
        ({MIN_AVAILABLE: "0"}, "must be a whole number above 0, or from 1% to 99%"),
        ({MIN_AVAILABLE: "100%"}, f"metadata.annotations[{MIN_AVAILABLE}]: Invalid value"),
        ({MAX_UNAVAILABLE: "some"}, f"metadata.annotations[{MAX_UNAVAILABLE}]: Invalid value"),
        ({MAX_UNAVAILABLE: "1", MIN_AVAILABLE: "1"}, "name one of both"),
    ],
    ids=str,
)
def test_a_budget_is_a_number_or_a_part_and_only_one(annotations: dict[str, str], words: str) -> None:
    found = told(budget_errors(annotations))
    assert len(found) == bool(words)
    assert all(words in text for text in found)
